"""Clients that speak AMQP 1.0: the production engine in the client's role, and links that keep the ledger."""

from typing import TYPE_CHECKING, Final, final

from flintmq.base.errors import EndedByPeer, FlintError
from flintmq.client.amqp10.message import Data, Message, decode
from flintmq.protocol.amqp10.connection import Connection, ConnectionOwner, Tuning
from flintmq.protocol.amqp10.delivery import IncomingDelivery, OutgoingDelivery, tag_of
from flintmq.protocol.amqp10.receiver import ReceiverLink, ReceiverOwner
from flintmq.protocol.amqp10.sender import SenderLink, SenderOwner
from flintmq.protocol.amqp10.session import Session, SessionOwner
from flintmq.protocol.output import Outbox, Output
from flintmq.protocol.role import Role
from flintmq.protocol.sasl import plain
from flintmq.wire.amqp10.performatives import Attach, Begin, Open
from flintmq.wire.amqp10.properties import Header, Properties
from flintmq.wire.amqp10.spec import MESSAGE_FORMAT, SND_UNSETTLED
from flintmq.wire.amqp10.states import (
    Accepted,
    DeliveryState,
    Modified,
    Rejected,
    Released,
    TransactionalState,
)
from flintmq.wire.amqp10.termini import Source, Target
from tests.sim.coordination import Work
from tests.sim.lasting import CONTAINER, Lasting
from tests.sim.ledger import REQUEUE, Ledger, Unexpected
from tests.sim.messages import NUMBER_BYTES, Copy, Sent
from tests.sim.network import Link
from tests.sim.node import USER, Node
from tests.sim.outcomes import EXPECTED, outcome_of, target_of
from tests.sim.topology import Address, Line

if TYPE_CHECKING:
    from tests.sim.workload import Workload

# Small, so that a body of some kilobytes comes in several frames.
_FRAME_BYTES: Final = 1_024


@final
class LinkClient(ConnectionOwner):
    """A connection with one session. `lasting`: it is one of that client, and of nobody else."""

    def __init__(
        self, workload: "Workload", ledger: Ledger, node: Node, latency: float, lasting: Lasting | None = None
    ) -> None:
        self.workload = workload
        self.ledger = ledger
        self.node = node
        # By target, those for transactions apart: what comes by them is on its queue later.
        self.senders: dict[tuple[str, bool], Sender] = {}
        self.receivers: list[Receiver] = []
        self.work: Work | None = None
        self.lasting = lasting
        # Whether its links are attached here.
        self.has_lasting = False
        self.is_lost = False
        self.session: Session | None = None
        self._output = Output(Outbox())
        container = CONTAINER if lasting is not None else f"c{workload.next_number()}"
        opening = Open(container_id=container, hostname="/")
        tuning = Tuning(frame_max=min(_FRAME_BYTES, node.frame_bytes), idle_timeout_ms=0)
        self.engine = Connection(Role.CLIENT, self, self._output, tuning, opening, logs_in=True)
        self.link: Link = node.connect(self._received, self._lost, latency)
        self.flush()

    @property
    def is_usable(self) -> bool:
        return not self.is_lost and self.session is not None and self.session.is_open

    def flush(self) -> None:
        self.engine.flush()
        data = b"".join(self._output.take())
        self._output.backlog_is(0)
        self.engine.resume()
        if data and not self.is_lost:
            self.link.send(data)

    def _received(self, data: bytes) -> None:
        if self.is_lost:
            return
        self.engine.refresh()
        self.engine.receive(data, self.node.loop.time())
        if self.work is not None:
            self.work.look()
        if self.lasting is not None:
            self.lasting.look()
        self.flush()
        if self.engine.is_closed:
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
            self.workload.lost_links(self)

    def let_go(self) -> None:
        for receiver in list(self.receivers):
            receiver.let_go()
        if self.work is not None:
            self.work.let_go()
        if self.lasting is not None:
            self.lasting.is_attached = False

    def cut(self) -> None:
        """The connection breaks: the server may know it before us."""
        self.let_go()
        self.link.cut()

    def close(self) -> None:
        self.let_go()
        self.engine.close()
        self.flush()

    # -- what it does -------------------------------------------------------------------------------------------

    def sender(self, address: Address, work: Work | None) -> "Sender":
        """The link to an address, or the one for transactions, which is attached if it was not."""
        target = target_of(address)
        sender = self.senders.get((target, work is not None))
        if sender is None:
            sender = self.senders[target, work is not None] = Sender(self, target, work)
        return sender

    def receive(self, line: Line, credit: int) -> None:
        self.receivers.append(Receiver(self, line, credit))

    # -- what the engine says -----------------------------------------------------------------------------------

    def on_sasl_mechanisms(self, mechanisms: list[str]) -> None:
        self.engine.sasl_init(plain.NAME, plain.response(USER, "secret"))

    def on_open(self, opening: Open) -> None:
        self.session = self.engine.begin(_NoRequests())

    def on_session(self, session: Session, begin: Begin) -> SessionOwner:
        raise AssertionError

    def on_closed(self, error: FlintError | None) -> None:
        _expect(error, "the connection")
        self.let_go()


@final
class _NoRequests(SessionOwner):
    """The session of a client: the node attaches nothing of its own."""

    def on_sender(self, link: SenderLink, attach: Attach) -> SenderOwner:
        raise AssertionError

    def on_receiver(self, link: ReceiverLink, attach: Attach) -> ReceiverOwner:
        raise AssertionError

    def on_ended(self, error: FlintError | None) -> None:
        _expect(error, "the session")


def _expect(error: FlintError | None, what: str) -> None:
    if isinstance(error, EndedByPeer) and error.condition not in EXPECTED:
        raise Unexpected(f"{what} was ended: {error}")


@final
class Sender(SenderOwner):
    """`work`: what is sent is in the transaction that is open."""

    def __init__(self, client: LinkClient, target: str, work: Work | None) -> None:
        assert client.session is not None
        self.number = client.workload.next_number()
        self.unconfirmed: dict[int, Sent] = {}
        self._client = client
        self._target = target
        self._work = work
        attach = Attach(name=f"s{self.number}", source=Source(), target=Target(address=target))
        self.link = client.session.attach_sender(self, attach)

    def publish(self, sent: Sent) -> None:
        """To be called only while the link has credit."""
        header = Header(durable=sent.persistent, ttl=sent.ttl_ms)
        if sent.priority:
            header.priority = sent.priority
        properties = Properties()
        if sent.size < NUMBER_BYTES:
            properties.message_id = str(sent.number)
        kind: dict[str, object] = {"kind": sent.header} if sent.header else {}
        payload = Message(sent.body, properties, kind, header).encode()
        self.unconfirmed[sent.number] = sent
        if self._work is None:
            self._client.ledger.published(sent)
            self.link.send(sent.number, payload, b"", False, sent)
        else:
            state = self._work.publish(sent)
            self.link.send_tagged(tag_of(sent.number), [payload], False, MESSAGE_FORMAT, state, sent)

    def on_flow(self, link: SenderLink) -> None:
        """The workload looks for itself."""

    def on_room(self, link: SenderLink) -> None:
        """The workload looks for itself."""

    def on_disposition(self, delivery: OutgoingDelivery, state: DeliveryState | None, settled: bool) -> None:
        sent = delivery.mark
        assert isinstance(sent, Sent)
        if self.unconfirmed.pop(sent.number, None) is None:
            raise Unexpected(f"{sent.number} has two outcomes")
        if self._work is not None:
            self._work.posted(sent, state)
        elif isinstance(state, Accepted):
            self._client.ledger.confirmed(sent)
        elif isinstance(state, Rejected | Released | Modified):
            self._client.ledger.refused(sent)
        else:
            raise Unexpected(f"the outcome of {sent.number} is {state}")
        if not settled:
            self.link.settle(delivery)

    def on_detached(self, error: FlintError | None, closed: bool) -> None:
        _expect(error, f"the link to {self._target}")
        self._client.senders.pop((self._target, self._work is not None), None)


@final
class Receiver(ReceiverOwner):
    """What one link has in hand."""

    def __init__(self, client: LinkClient, line: Line, credit: int) -> None:
        assert client.session is not None
        self.number = client.workload.next_number()
        self.line = line
        self.unsettled: dict[IncomingDelivery, Copy] = {}
        self.is_over = False
        self._client = client
        self._ledger = client.ledger
        self._credit = credit
        self._latest: dict[object, int] = {}
        # Copies whose settlement is on its way.
        self._outs: dict[int, list[Copy]] = {}
        self._out_count = 0
        attach = Attach(
            name=f"r{self.number}",
            snd_settle_mode=SND_UNSETTLED,
            source=Source(address=f"/queues/{line.name}"),
            target=Target(),
        )
        self.link = client.session.attach_receiver(self, attach)

    @property
    def may_be_over(self) -> bool:
        return False

    def on_attached(self, attach: Attach) -> None:
        self.link.grant(self._credit)

    def on_message(self, link: ReceiverLink, delivery: IncomingDelivery | None, payload: bytes) -> None:
        if delivery is None:
            raise Unexpected(f"{self.line} sent settled what was to be settled here")
        if self.is_over:
            return
        message = decode(payload)
        body = message.body
        if isinstance(body, Data):
            body = b"".join(body.parts)
        if not isinstance(body, bytes):
            raise Unexpected(f"{self.line} delivered {body!r}")
        digits = body[:NUMBER_BYTES].decode() or str(message.properties.message_id)
        again = not message.header.first_acquirer
        copy = self._ledger.delivered(self.line, int(digits), body, again, self, self._latest)
        self.unsettled[delivery] = copy

    def settle(self, deliveries: list[IncomingDelivery], how: int, chosen: int) -> None:
        """`chosen` says by which of the outcomes that come to the same."""
        copies = [self.unsettled.pop(delivery) for delivery in deliveries]
        for delivery, copy in zip(deliveries, copies, strict=True):
            self.link.settle(delivery, outcome_of(how, chosen))
            self._ledger.settled(copy, how)
        self.link.grant(self._credit)
        if how != REQUEUE:
            self._out_count += 1
            number = self._out_count
            self._outs[number] = copies
            self._client.flush()
            self._client.link.when_arrived(lambda: self._arrived(number))

    def stage(self, deliveries: list[IncomingDelivery], how: int, chosen: int, work: Work, settled: bool) -> None:
        """The same in a transaction; `settled`: and have no say any more."""
        state = TransactionalState(work.txn_id, outcome_of(how, chosen))
        for delivery in deliveries:
            work.settle(self, delivery, self.unsettled.pop(delivery), how, settled)
            if settled:
                self.link.settle(delivery, state)
            else:
                self.link.update(delivery, state)
        self.link.grant(self._credit)

    def _arrived(self, number: int) -> None:
        copies = self._outs.pop(number, None)
        if copies is not None and not self.is_over and not self._ledger.is_closing():
            for copy in copies:
                self._ledger.settlement_arrived(copy, self._client.node.submitted)

    def detach(self) -> None:
        self.let_go()
        self.link.detach()

    def let_go(self) -> None:
        """The link is over, or on its way there, and holds nothing any more."""
        if self.is_over:
            return
        self.is_over = True
        outs = [copy for copies in self._outs.values() for copy in copies]
        self._ledger.gave_back(list(self.unsettled.values()), outs)
        self.line.hands_lost += 1
        self.unsettled.clear()
        if self in self._client.receivers:
            self._client.receivers.remove(self)

    def on_disposition(self, delivery: IncomingDelivery, state: DeliveryState | None, settled: bool) -> None:
        """The server settles what it sends only when we have."""

    def on_detached(self, error: FlintError | None, closed: bool) -> None:
        _expect(error, f"the link from {self.line}")
        self.let_go()
