"""Clients of a simulated cluster: they connect to whichever node leads, publish, consume, and try again elsewhere."""

import random
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from flintmq.base.errors import FlintError
from flintmq.client.publish import encode_publish
from flintmq.protocol.amqp091.channel import Channel, ChannelOwner
from flintmq.protocol.amqp091.connection import Connection, ConnectionOwner, Login, Tuning
from flintmq.protocol.output import Outbox, Output
from flintmq.protocol.role import Role
from flintmq.protocol.sasl import plain
from flintmq.wire.amqp091 import methods as m
from flintmq.wire.amqp091.method_codec import decode_method
from flintmq.wire.amqp091.methods import Method
from flintmq.wire.amqp091.properties import Properties, decode_properties, encode_properties
from flintmq.wire.amqp091.tables import Table
from tests.sim.cluster.computer import Computer
from tests.sim.cluster.ledger import Copy, Transaction
from tests.sim.ledger import Unexpected
from tests.sim.messages import NUMBER_BYTES, number_of
from tests.sim.network import Link
from tests.sim.node import USER, Node

if TYPE_CHECKING:
    from tests.sim.cluster.run import Run

_CAPABILITIES: Final[Table] = {"capabilities": {"consumer_cancel_notify": True, "connection.blocked": True}}
_PERSISTENT: Final = encode_properties(Properties(delivery_mode=2))
_LATENCY: Final = 0.001
# What a client waits for answers before it gives its connection up.
_PATIENCE: Final = (1.0, 3.0, 6.0)
_CONNECT_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 0.1
# A leader that is about to stop.
_FORCED: Final = 320


@final
class _SessionChannel(ChannelOwner):
    """The channel of a session: compiled classes have one base only."""

    def __init__(self, session: "Session") -> None:
        self._session = session

    def on_method(self, method: Method) -> None:
        self._session.on_method(method)

    def on_content(self, method: bytes, properties: bytes, body: bytes) -> None:
        self._session.on_content(method, properties, body)

    def on_ack(self, delivery_tag: int, multiple: bool) -> None:
        self._session.on_ack(delivery_tag, multiple)

    def on_closed(self, error: FlintError | None) -> None:
        self._session.on_closed(error)

    def on_released(self) -> None:
        pass


@final
class Session(ConnectionOwner):
    """A connection of a client, with one channel."""

    def __init__(self, client: "Client", computer: Computer, node: Node, reign: int) -> None:
        self.computer = computer
        self.reign = reign
        self.node = node
        self.is_open = False
        self.is_lost = False
        self.is_blocked = False
        # When the other side was heard of last, or something was asked of it first.
        self.heard_at = client.run.world.now
        self.unconfirmed: dict[int, Copy] = {}
        self.unacked: dict[int, Copy] = {}
        self.latest: dict[object, int] = {}
        self.transaction = Transaction()
        self._tag = 0
        self._client = client
        self._channel: Channel | None = None
        self._asked: deque[tuple[type[Method], Callable[[], None]]] = deque()
        self._output = Output(Outbox())
        login = Login("PLAIN", plain.response(USER, "secret"), "/", _CAPABILITIES)
        self._engine = Connection(Role.CLIENT, self, self._output, Tuning(heartbeat=0), login=login)
        self.link: Link = node.connect(self._received, self._lost, _LATENCY)
        self.flush()

    @property
    def awaits(self) -> bool:
        return not self.is_open or bool(self._asked or self.unconfirmed)

    @property
    def silent_seconds(self) -> float:
        """For how long nothing came that was due. A blocked client hears heartbeats, unless its node stands still."""
        silent = self._client.run.world.now - self.heard_at
        if not self.is_blocked:
            return silent
        process = self.computer.process
        return 0.0 if process is None else min(silent, process.still_seconds)

    @property
    def channel(self) -> Channel:
        assert self._channel is not None
        return self._channel

    def flush(self) -> None:
        data = b"".join(self._output.take())
        self._output.backlog = 0
        if data and not self.is_lost:
            self.link.send(data)

    def _received(self, data: bytes) -> None:
        if self.is_lost:
            return
        self.heard_at = self._client.run.world.now
        self._engine.receive(data, self.heard_at)
        self.flush()
        if self._engine.state.value == "closed":
            self.link.hang_up()
            self._lost()

    def _lost(self) -> None:
        if not self.is_lost:
            self.is_lost = True
            self._engine.lost(None)
            self._client.lost(self)

    def cut(self) -> None:
        """Give it up."""
        if not self.is_lost:
            self.link.cut()
            self._lost()

    def ask(self, method: Method, answer: type[Method], answered: Callable[[], None]) -> None:
        if not self._asked and not self.unconfirmed:
            self.heard_at = self._client.run.world.now
        self._asked.append((answer, answered))
        self.channel.send(method)
        self.flush()

    # -- what the engine says -----------------------------------------------------------------------------------

    def on_login(self, mechanism: str, response: bytes, client_properties: Table) -> None:
        raise AssertionError

    def on_open(self, virtual_host: str) -> None:
        self._channel = self._engine.open_channel(_SessionChannel(self))

    def on_channel(self, channel: Channel) -> ChannelOwner:
        raise AssertionError

    def on_blocked(self, reason: str | None) -> None:
        self.is_blocked = reason is not None

    def on_closed(self, error: FlintError | None) -> None:
        pass

    def on_method(self, method: Method) -> None:
        if isinstance(method, m.ChannelOpenOk):
            self.is_open = True
            self._client.opened(self)
        elif isinstance(method, m.BasicNack):
            # A leader whose disk has failed.
            self._settle(method.delivery_tag, method.multiple, False)
        elif isinstance(method, m.ChannelFlow | m.BasicCancel):
            pass
        else:
            if not self._asked or not isinstance(method, self._asked[0][0]):
                raise Unexpected(f"{method.name} answers nothing that was asked")
            self._asked.popleft()[1]()

    def on_ack(self, delivery_tag: i64, multiple: bool) -> None:
        self._settle(int(delivery_tag), multiple, True)

    def _settle(self, tag: int, multiple: bool, taken: bool) -> None:
        for each in [each for each in self.unconfirmed if each <= tag] if multiple else [tag]:
            copy = self.unconfirmed.pop(each, None)
            if copy is None:
                raise Unexpected(f"publish {each} was confirmed twice")
            if taken:
                self._client.run.ledger.confirmed(copy)

    def on_content(self, method: bytes, properties: bytes, body: bytes) -> None:
        decoded = decode_method(method)
        assert isinstance(decoded, m.BasicDeliver)
        ledger = self._client.run.ledger
        number = number_of(properties, body)
        if body != body_of(number, len(body)):
            raise Unexpected(f"{body[:20]!r} was delivered, and nobody published it")
        if decoded.consumer_tag == ledger.stream:
            offset = (decode_properties(properties).headers or {}).get("x-stream-offset")
            assert isinstance(offset, int)
            ledger.read(offset, number)
            self.channel.send_ack(decoded.delivery_tag, False)
            return
        if self.node.is_stopping or self.node.storage.failure:
            # It closes one connection after the other, and what was unacknowledged goes to the next one.
            return
        copy = ledger.delivered(decoded.consumer_tag, number, decoded.redelivered, self, self.reign, self.latest)
        self.unacked[decoded.delivery_tag] = copy

    # -- what clients do ----------------------------------------------------------------------------------------

    def publish(self, queue: str, size: int, within: Transaction | None) -> None:
        run = self._client.run
        number = run.next_number()
        copy = run.ledger.published(number, queue, self._client.number, self.reign, within)
        if within is None:
            self._tag += 1
            if not self.unconfirmed and not self._asked:
                self.heard_at = run.world.now
            self.unconfirmed[self._tag] = copy
        self.channel.send_content(encode_publish("", queue, False), _PERSISTENT, body_of(number, size))

    def acknowledge(self, tags: list[int]) -> None:
        ledger = self._client.run.ledger
        copies = [self.unacked.pop(tag) for tag in tags]
        for tag, copy in zip(tags, copies, strict=True):
            self.channel.send_ack(tag, False)
            ledger.acknowledged(copy, self.reign)
        self.flush()

        def arrived() -> None:
            # A server that has closed the connection does not listen.
            submitted = self.node.submitted
            if not self.is_lost and not self.node.is_stopping and submitted is not None:
                for copy in copies:
                    ledger.acknowledgement_arrived(copy, self.reign, submitted)

        self.link.when_arrived(arrived)

    def commit(self) -> None:
        """Commit what was published in the transaction, and acknowledge what is in hand with it."""
        transaction, self.transaction = self.transaction, Transaction()
        ledger = self._client.run.ledger
        for tag, copy in self.unacked.items():
            self.channel.send_ack(tag, False)
            transaction.acknowledged.append(copy)
            ledger.acknowledged(copy, self.reign, transaction)
        self.unacked.clear()
        ledger.committing(transaction, self.reign)
        self.ask(m.TxCommit(), m.TxCommitOk, lambda: ledger.committed(transaction))


def body_of(number: int, size: int) -> bytes:
    digits = b"%010d" % number
    return (digits * (size // NUMBER_BYTES + 1))[:size]


@final
class Client:
    """A client of one `kind`: it publishes with confirms, consumes, reads the stream, or moves messages from one queue
    to another in transactions.
    """

    def __init__(self, run: "Run", number: int, kind: str, chance: random.Random) -> None:
        self.run = run
        self.number = number
        self.session: Session | None = None
        self.is_going = True
        # The node that has not answered last: others are tried first.
        self._avoided: Computer | None = None
        self._kind = kind
        self._random = chance
        self._gap = chance.choice((0.02, 0.05, 0.2))
        self._patience = chance.choice(_PATIENCE)
        self._in_flight = chance.choice((1, 5, 50))
        self._prefetch = chance.choice((1, 5, 50))
        self._sizes = chance.choice(((10,), (10, 300), (10, 300, 3_000)))
        self._queues = list(run.ledger.copies)
        run.world.loop.call_later(chance.random(), self._step)

    def slow_down(self) -> None:
        """From now on, send a quarter of what it has sent."""
        self._gap *= 4

    def _step(self) -> None:
        run = self.run
        session = self.session
        if session is None:
            self._connect()
        elif session.awaits and session.silent_seconds > (self._patience if session.is_open else _CONNECT_SECONDS):
            self._avoided = session.computer
            session.cut()
        elif session.is_open:
            self._act(session)
            session.flush()
        delay = _RETRY_SECONDS if self.session is None else self._gap
        run.world.loop.call_later(delay * (0.5 + self._random.random()), self._step)

    def _connect(self) -> None:
        serving = [each for each in self.run.computers if each.serving is not None and each is not self._avoided]
        self._avoided = None
        if serving and self.is_going:
            computer = self._random.choice(serving)
            node = computer.serving
            assert node is not None
            self.session = Session(self, computer, node, self.run.reign_of(node))

    def lost(self, session: Session) -> None:
        ledger = self.run.ledger
        for copy in session.unacked.values():
            ledger.gave_back(copy, session.reign)
        if self.session is session:
            self.session = None

    def opened(self, session: Session) -> None:
        ledger = self.run.ledger
        for queue in self._queues:
            self._declare(session, queue, {})
        self._declare(session, ledger.stream, {"x-queue-type": "stream"})
        if self._kind == "publish":
            session.ask(m.ConfirmSelect(), m.ConfirmSelectOk, _nothing)
            return
        session.ask(m.BasicQos(prefetch_count=self._prefetch), m.BasicQosOk, _nothing)
        if self._kind == "move":
            session.ask(m.TxSelect(), m.TxSelectOk, _nothing)
            self._consume(session, self._queues[0], {})
        elif self._kind == "read":
            self._consume(session, ledger.stream, {"x-stream-offset": "first"})
        else:
            for queue in self._queues:
                self._consume(session, queue, {})

    def _declare(self, session: Session, queue: str, arguments: Table) -> None:
        method = m.QueueDeclare(queue=queue, durable=True, arguments=arguments)
        session.ask(method, m.QueueDeclareOk, _nothing)

    def _consume(self, session: Session, queue: str, arguments: Table) -> None:
        session.ask(m.BasicConsume(queue=queue, consumer_tag=queue, arguments=arguments), m.BasicConsumeOk, _nothing)

    def _act(self, session: Session) -> None:
        chance = self._random
        if self._kind == "publish":
            room = self._in_flight - len(session.unconfirmed)
            if self.is_going and room > 0 and not session.is_blocked:
                for _ in range(chance.randrange(min(room, 5)) + 1):
                    queue = chance.choice([*self._queues, self.run.ledger.stream])
                    session.publish(queue, chance.choice(self._sizes), None)
        elif self._kind == "move":
            if not session.awaits and (self.is_going or session.unacked):
                for _ in range(max(len(session.unacked), 1) if self.is_going else 0):
                    session.publish(chance.choice(self._queues[1:]), chance.choice(self._sizes), session.transaction)
                session.commit()
        elif self._kind == "consume" and session.unacked:
            count = chance.randrange(len(session.unacked)) + 1
            session.acknowledge(sorted(session.unacked)[:count])


def _nothing() -> None:
    pass
