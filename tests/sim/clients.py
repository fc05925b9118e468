"""Clients of the simulated node: the production engine in the client's role, and channels that keep the ledger."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from flintmq.base.errors import ClosedByPeer, FlintError
from flintmq.client.publish import encode_publish
from flintmq.protocol.amqp091.channel import Channel, ChannelOwner
from flintmq.protocol.amqp091.connection import Connection, ConnectionOwner, Login, Tuning
from flintmq.protocol.output import Outbox, Output
from flintmq.protocol.role import Role
from flintmq.protocol.sasl import plain
from flintmq.wire.amqp091 import methods as m
from flintmq.wire.amqp091.method_codec import decode_method
from flintmq.wire.amqp091.methods import Method
from flintmq.wire.amqp091.properties import decode_properties
from flintmq.wire.amqp091.tables import Table
from tests.sim.ledger import ACK, REQUEUE, Group, Ledger, Unexpected
from tests.sim.messages import Copy, Sent, number_of
from tests.sim.network import Link
from tests.sim.node import USER, Node
from tests.sim.topology import Address, Line

if TYPE_CHECKING:
    from tests.sim.workload import Workload

CONFIRM: Final = "confirm"
TX: Final = "tx"
PLAIN: Final = "plain"
# Small, so that a body of some kilobytes comes in several frames.
_FRAME_MAX: Final = 4_096
_CAPABILITIES: Final[Table] = {
    "capabilities": {"consumer_cancel_notify": True, "authentication_failure_close": True, "connection.blocked": True}
}
# Faults that a client has to expect: a transaction that a full queue refuses, a node that cannot store any more.
_EXPECTED: Final = {320, 406, 506, 541}
Answered = Callable[[Method], None]


@final
class Subscription:
    def __init__(self, line: Line, tag: str, no_ack: bool) -> None:
        self.line = line
        self.tag = tag
        self.no_ack = no_ack
        self.is_over = False


@final
class Client(ConnectionOwner):
    def __init__(
        self,
        workload: "Workload",
        ledger: Ledger,
        node: Node,
        latency: float,
        channels: int,
        opened: Callable[["Client"], None] | None = None,
    ) -> None:
        self.workload = workload
        self.ledger = ledger
        self.node = node
        self.channels: list[SimChannel] = []
        self.is_open = False
        self.is_lost = False
        self.is_blocked = False
        self._wanted = channels
        self._opened = opened
        self._output = Output(Outbox())
        login = Login("PLAIN", plain.response(USER, "secret"), "/", _CAPABILITIES)
        tuning = Tuning(frame_max=_FRAME_MAX, heartbeat=0)
        self.engine = Connection(Role.CLIENT, self, self._output, tuning, login=login)
        self.link: Link = node.connect(self._received, self._lost, latency)
        self.flush()

    def flush(self) -> None:
        data = b"".join(self._output.take())
        self._output.backlog = 0
        if data and not self.is_lost:
            self.link.send(data)

    def _received(self, data: bytes) -> None:
        if self.is_lost:
            return
        self.engine.receive(data, self.node.loop.time())
        self.flush()
        if self.engine.state.value == "closed":
            self.link.hang_up()
            self._over()

    def _lost(self) -> None:
        if not self.is_lost:
            self.engine.lost(None)
            self._over()

    def drop(self) -> None:
        """The node is gone."""
        if not self.is_lost:
            self.is_lost = True
            self.engine.lost(None)

    def _over(self) -> None:
        if not self.is_lost:
            self.is_lost = True
            self.workload.lost(self)

    def cut(self) -> None:
        """The connection breaks: the server may know it before us."""
        for channel in self.channels:
            channel.let_go()
        self.link.cut()

    def close(self) -> None:
        for channel in self.channels:
            channel.let_go()
        self.engine.close()
        self.flush()

    # -- what the engine says -----------------------------------------------------------------------------------

    def on_login(self, mechanism: str, response: bytes, client_properties: Table) -> None:
        raise AssertionError

    def on_open(self, virtual_host: str) -> None:
        self.is_open = True
        for _ in range(self._wanted):
            self.open_channel()
        if self._opened is not None:
            self._opened(self)

    def open_channel(self) -> "SimChannel":
        channel = SimChannel(self, self.workload.next_number(), self.workload.choose_mode())
        channel.attach(self.engine.open_channel(channel))
        self.channels.append(channel)
        return channel

    def on_channel(self, channel: Channel) -> ChannelOwner:
        raise AssertionError

    def on_blocked(self, reason: str | None) -> None:
        self.is_blocked = reason is not None

    def on_closed(self, error: FlintError | None) -> None:
        if isinstance(error, ClosedByPeer) and error.code not in _EXPECTED:
            raise Unexpected(f"the connection was closed: {error}")


@final
class SimChannel(ChannelOwner):
    """What one channel asked for, has in hand, and waits for."""

    def __init__(self, client: Client, number: int, mode: str) -> None:
        self.client = client
        self.number = number
        self.mode = mode
        self.is_open = False
        self.is_over = False
        # A fault of ours is on its way, and what comes meanwhile tells nothing.
        self.is_doomed = False
        self.is_recovering = False
        # Whether it ever consumed from a stream.
        self._reads = False
        self.unacked: dict[int, tuple[Line, Copy]] = {}
        # Acknowledged deliveries of streams need no more than their tag.
        self.reading: dict[int, Line] = {}
        self.consumers: dict[str, Subscription] = {}
        self.waiting: deque[tuple[tuple[type[Method], ...], Answered | None]] = deque()
        self.unconfirmed: dict[int, Sent] = {}
        self.group = Group()
        self._asked: deque[Group] = deque()
        self._tag = 0
        self._ledger = client.ledger
        self._channel: Channel | None = None
        self._latest: dict[object, int] = {}
        self._got_latest: dict[object, int] = {}
        # What the transaction is to settle, in case it does not.
        self._staged: dict[int, tuple[Line, Copy]] = {}
        self._gets: deque[tuple[Line, bool]] = deque()
        # Copies whose settlement is on its way.
        self._outs: dict[int, list[Copy]] = {}
        # The chunk that came last.
        self.fetched = b""
        self._out_count = 0

    def attach(self, channel: Channel) -> None:
        self._channel = channel

    @property
    def channel(self) -> Channel:
        assert self._channel is not None
        return self._channel

    @property
    def is_usable(self) -> bool:
        return self.is_open and not self.is_over and not self._asked and not self.client.is_lost

    @property
    def may_be_over(self) -> bool:
        """A transaction that is refused costs the channel."""
        return bool(self._asked)

    # -- asking -------------------------------------------------------------------------------------------------

    def ask(self, method: Method, answers: tuple[type[Method], ...], answered: Answered | None = None) -> None:
        self.waiting.append((answers, answered))
        self.channel.send(method)

    def publish(self, address: Address, sent: Sent) -> None:
        method = encode_publish(address.exchange, address.key, sent.mandatory)
        self.channel.send_content(method, sent.properties(), sent.body)
        if self.mode == TX:
            sent.is_in_transaction = True
            self.group.publishes.append(sent)
            return
        self._ledger.published(sent)
        if self.mode == CONFIRM:
            self._tag += 1
            self.unconfirmed[self._tag] = sent

    def settle(self, tags: list[int], how: int, multiple: bool) -> None:
        """Acknowledge, reject or give back deliveries; with `multiple`, all up to the last of the tags."""
        copies = [self.unacked.pop(tag) for tag in tags]
        if self.mode == TX:
            self._staged.update(zip(tags, copies, strict=True))
        if multiple or how == ACK:
            for tag in tags if not multiple else tags[-1:]:
                if how == ACK:
                    self.channel.send_ack(tag, multiple)
                else:
                    self.channel.send(m.BasicNack(delivery_tag=tag, multiple=multiple, requeue=how == REQUEUE))
        else:
            for tag in tags:
                self.channel.send(m.BasicReject(delivery_tag=tag, requeue=how == REQUEUE))
        if self.mode == TX:
            self.group.settlements += [(line, copy, how) for line, copy in copies]
            return
        for _, copy in copies:
            self._ledger.settled(copy, how)
        if how != REQUEUE:
            self._watch([copy for _, copy in copies])

    def _watch(self, copies: list[Copy]) -> None:
        """See when settlements get to the server, and which batch they are in."""
        self._out_count += 1
        number = self._out_count
        self._outs[number] = copies
        self.client.flush()
        self.client.link.when_arrived(lambda: self._arrived(number))

    def _arrived(self, number: int) -> None:
        copies = self._outs.pop(number, None)
        # A server that has closed the connection does not listen.
        if copies is not None and not self.is_over and not self._ledger.is_closing():
            for copy in copies:
                self._ledger.settlement_arrived(copy, self.client.node.submitted)

    def commit(self) -> None:
        group, self.group = self.group, Group()
        self._staged = {}
        self._ledger.committing(group)
        self._asked.append(group)
        self._out_count += 1
        self._outs[self._out_count] = [copy for _, copy, how in group.settlements if how != REQUEUE]
        number = self._out_count
        self.ask(m.TxCommit(), (m.TxCommitOk,), lambda _: self._committed(number))

    def _committed(self, number: int) -> None:
        self._outs.pop(number, None)
        self._ledger.committed(self._asked.popleft())

    def roll_back(self) -> None:
        """What was to be settled is in hand as before."""
        self.group = Group()
        self.unacked = dict(sorted({**self.unacked, **self._staged}.items()))
        self._staged = {}
        self.ask(m.TxRollback(), (m.TxRollbackOk,))

    def consume(self, line: Line, tag: str, no_ack: bool, arguments: Table) -> None:
        self.consumers[tag] = Subscription(line, tag, no_ack)
        self._reads |= line.is_stream
        if no_ack:
            line.gave_away = True
        method = m.BasicConsume(queue=line.name, consumer_tag=tag, no_ack=no_ack, arguments=arguments)
        self.ask(method, (m.BasicConsumeOk,))

    def cancel(self, tag: str) -> None:
        subscription = self.consumers[tag]
        subscription.is_over = True
        self.ask(m.BasicCancel(consumer_tag=tag), (m.BasicCancelOk,))

    def get(self, line: Line, no_ack: bool) -> None:
        if no_ack:
            line.gave_away = True
        self._gets.append((line, no_ack))
        self.ask(m.BasicGet(queue=line.name, no_ack=no_ack), (m.BasicGetOk, m.BasicGetEmpty), self._got)

    @property
    def may_recover(self) -> bool:
        """Whether it is clear what comes before basic.recover and what behind it."""
        return self.mode != TX and not (self._gets or self.is_recovering or self._reads)

    def recover(self, requeue: bool) -> None:
        """With `requeue`, there may be no consumers; without, none of them may be on its way out."""
        self.is_recovering = True
        self._ledger.gave_back([copy for _, copy in self.unacked.values()], [])
        if requeue:
            self.unacked.clear()
        self.ask(m.BasicRecover(requeue=requeue), (m.BasicRecoverOk,), self._recovered)

    def _recovered(self, answer: Method) -> None:
        """What did not come once more is back on its queue."""
        self.is_recovering = False
        for tag, (_, copy) in list(self.unacked.items()):
            if copy.holder is not self:
                del self.unacked[tag]

    def _replace(self, line: Line, number: int) -> None:
        """A delivery that comes once more to where it is, under another tag."""
        for tag, (known, copy) in list(self.unacked.items()):
            if known is line and copy.sent.number == number:
                copy.holder = None
                del self.unacked[tag]

    def blunder(self) -> None:
        """Ask for what costs the channel."""
        self.is_doomed = True
        self.let_go()
        self.channel.send_ack(1_000_000, False)

    def close(self) -> None:
        self.let_go()
        self.channel.close()

    # -- what comes ---------------------------------------------------------------------------------------------

    def on_method(self, method: Method) -> None:
        if isinstance(method, m.ChannelOpenOk):
            self.is_open = True
            if self.mode == CONFIRM:
                self.ask(m.ConfirmSelect(), (m.ConfirmSelectOk,))
            elif self.mode == TX:
                self.ask(m.TxSelect(), (m.TxSelectOk,))
            return
        if isinstance(method, m.BasicNack):
            self._settle_confirms(method.delivery_tag, method.multiple, False)
            return
        if isinstance(method, m.BasicCancel):
            self.consumers[method.consumer_tag].is_over = True
            return
        if isinstance(method, m.ChannelFlow):
            return
        self._answer(method)

    def _answer(self, method: Method) -> None:
        if self.is_over:
            return
        if not self.waiting or type(method) not in self.waiting[0][0]:
            raise Unexpected(f"{method.name} answers nothing that was asked; awaited: {list(self.waiting)[:3]}")
        _, answered = self.waiting.popleft()
        if answered is not None:
            answered(method)

    def _got(self, method: Method) -> None:
        if isinstance(method, m.BasicGetEmpty):
            self._gets.popleft()

    def on_ack(self, delivery_tag: i64, multiple: bool) -> None:
        self._settle_confirms(int(delivery_tag), multiple, True)

    def _settle_confirms(self, tag: int, multiple: bool, taken: bool) -> None:
        tags = [each for each in self.unconfirmed if each <= tag] if multiple else [tag]
        for each in tags:
            sent = self.unconfirmed.pop(each, None)
            if sent is None:
                raise Unexpected(f"publish {each} was confirmed twice")
            if taken:
                self._ledger.confirmed(sent)
            else:
                self._ledger.refused(sent)

    def on_content(self, method: bytes, properties: bytes, body: bytes) -> None:
        decoded = decode_method(method)
        if isinstance(decoded, m.BasicReturn):
            self._ledger.returned(number_of(properties, body))
        elif self.is_over:
            return
        elif isinstance(decoded, m.BasicDeliver):
            self._deliver(self.consumers[decoded.consumer_tag], decoded, properties, body)
        elif isinstance(decoded, m.LeaseFetchOk):
            self.fetched = body
            self._answer(decoded)
        else:
            assert isinstance(decoded, m.BasicGetOk)
            line, no_ack = self._gets.popleft()
            # What was got comes in its turn among the answers, which deliveries do not wait for.
            self._take(line, no_ack, decoded.delivery_tag, decoded.redelivered, properties, body, self._got_latest)
            self._answer(decoded)

    def _deliver(self, to: Subscription, method: m.BasicDeliver, properties: bytes, body: bytes) -> None:
        if not to.line.is_stream:
            self._take(to.line, to.no_ack, method.delivery_tag, method.redelivered, properties, body, self._latest)
            return
        offset = (decode_properties(properties).headers or {}).get("x-stream-offset")
        if not isinstance(offset, int):
            raise Unexpected(f"a record of {to.line} came without its offset")
        before = self._latest.get(to, offset - 1)
        if before >= offset or (before != offset - 1 and not to.line.retires):
            raise Unexpected(f"{to.line} delivered {offset} behind {self._latest[to]}")
        self._latest[to] = offset
        self._ledger.read(to.line, offset, number_of(properties, body), body)
        self.reading[method.delivery_tag] = to.line

    def _take(
        self,
        line: Line,
        no_ack: bool,
        tag: int,
        redelivered: bool,
        properties: bytes,
        body: bytes,
        latest: dict[object, int],
    ) -> None:
        holder = None if no_ack else self
        if self.is_recovering:
            self._replace(line, number_of(properties, body))
        copy = self._ledger.delivered(line, number_of(properties, body), body, redelivered, holder, latest)
        if no_ack:
            self._ledger.given_away(copy, self.client.node.submitted)
        else:
            self.unacked[tag] = (line, copy)

    # -- the end ------------------------------------------------------------------------------------------------

    def let_go(self) -> None:
        """The channel is over, or on its way there, and holds nothing any more."""
        if self.is_over:
            return
        self.is_over = True
        held = [copy for _, copy in [*self.unacked.values(), *self._staged.values()]]
        outs = [copy for copies in self._outs.values() for copy in copies]
        self._ledger.gave_back(held, outs)
        for subscription in self.consumers.values():
            subscription.line.hands_lost += 1
        for line, _ in self._gets:
            line.hands_lost += 1
        self.unacked.clear()

    def on_closed(self, error: FlintError | None) -> None:
        if isinstance(error, ClosedByPeer) and not error.whole_connection and not self.is_doomed:
            if self.mode != TX or error.code not in _EXPECTED:
                raise Unexpected(f"the channel was closed: {error}")
            while self._asked:
                self._ledger.failed(self._asked.popleft())
        self.let_go()
