"""Clients that speak AMQP 1.0: the production engine in the client's role, and links that keep the ledger."""

from typing import TYPE_CHECKING, Final, final

from flintmq.base.errors import EndedByPeer, FlintError
from flintmq.client.amqp10.message import Data, Message, decode
from flintmq.protocol.amqp10.connection import Connection, ConnectionOwner, Tuning
from flintmq.protocol.amqp10.delivery import tag_of
from flintmq.protocol.amqp10.receiver import IncomingDelivery, ReceiverLink, ReceiverOwner
from flintmq.protocol.amqp10.sender import OutgoingDelivery, SenderLink, SenderOwner
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
from tests.sim.coordination import Progress, SimTransaction, Work
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
# What a link, or the session, is ended with where more was under way for a transaction that went with its coordinator.
_BEHIND_A_COORDINATOR: Final = {"amqp:transaction:unknown-id", "amqp:session:errant-link"}


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
        # All that were ever declared, by their ids.
        self.transactions: dict[bytes, SimTransaction] = {}
        # Whether the server has ended it, and with it transactions in which more was under way.
        self.has_lost_coordinator = False
        self.lasting = lasting
        # Whether it has closed, or cut, its connection.
        self.has_left = False
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
        return not (self.is_lost or self.has_left) and self.session is not None and self.session.is_open

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
        self.has_left = True
        self.let_go()
        self.link.cut()

    def close(self) -> None:
        self.has_left = True
        self.let_go()
        self.engine.close()
        self.flush()

    # -- what it does -------------------------------------------------------------------------------------------

    def sender(self, address: Address, is_transactional: bool) -> "Sender":
        """The link to an address, or the one for transactions, which is attached if it was not."""
        key = (target_of(address), is_transactional)
        sender = self.senders.get(key)
        if sender is None:
            sender = self.senders[key] = Sender(self, key)
        return sender

    def receive(self, line: Line, credit: int, transaction: SimTransaction | None) -> None:
        self.receivers.append(Receiver(self, line, credit, transaction))

    # -- what the engine says -----------------------------------------------------------------------------------

    def on_sasl_mechanisms(self, mechanisms: list[str]) -> None:
        self.engine.sasl_init(plain.NAME, plain.response(USER, "secret"))

    def on_open(self, opening: Open) -> None:
        self.session = self.engine.begin(_NoRequests(self))

    def on_session(self, session: Session, begin: Begin) -> SessionOwner:
        raise AssertionError

    def expect(self, error: FlintError | None, what: str) -> None:
        """Raises Unexpected where there is no reason for it."""
        has_lost = self.has_lost_coordinator or (self.work is not None and self.work.was_ended)
        if has_lost and isinstance(error, EndedByPeer) and error.condition in _BEHIND_A_COORDINATOR:
            return
        _expect(error, what)

    def on_closed(self, error: FlintError | None) -> None:
        _expect(error, "the connection")
        self.let_go()


@final
class _NoRequests(SessionOwner):
    """The session of a client: the node attaches nothing of its own."""

    def __init__(self, client: LinkClient) -> None:
        self._client = client

    def on_sender(self, link: SenderLink, attach: Attach) -> SenderOwner:
        raise AssertionError

    def on_receiver(self, link: ReceiverLink, attach: Attach) -> ReceiverOwner:
        raise AssertionError

    def on_ended(self, error: FlintError | None) -> None:
        self._client.expect(error, "the session")


def _expect(error: FlintError | None, what: str) -> None:
    if isinstance(error, EndedByPeer) and error.condition not in EXPECTED:
        raise Unexpected(f"{what} was ended: {error}")


@final
class Sender(SenderOwner):
    """`key` is under which its client has it: its target, and whether what is sent is in transactions."""

    def __init__(self, client: LinkClient, key: tuple[str, bool]) -> None:
        assert client.session is not None
        self.number = client.workload.next_number()
        # Messages with no outcome yet, and the transactions they are in.
        self.unconfirmed: dict[int, SimTransaction | None] = {}
        self._client = client
        self._key = key
        attach = Attach(name=f"s{self.number}", source=Source(), target=Target(address=key[0]))
        self.link = client.session.attach_sender(self, attach)

    def publish(self, sent: Sent, transaction: SimTransaction | None) -> None:
        """To be called only while the link has credit."""
        header = Header(durable=sent.persistent, ttl=sent.ttl_ms)
        if sent.priority:
            header.priority = sent.priority
        properties = Properties()
        if sent.size < NUMBER_BYTES:
            properties.message_id = str(sent.number)
        kind: dict[str, object] = {"kind": sent.header} if sent.header else {}
        payload = Message(sent.body, properties, kind, header).encode()
        self.unconfirmed[sent.number] = transaction
        if transaction is None:
            self._client.ledger.published(sent)
            self.link.send(sent.number, payload, b"", False, sent)
        else:
            state = transaction.publish(sent)
            self.link.send_tagged(tag_of(sent.number), [payload], False, MESSAGE_FORMAT, state, sent)

    def on_flow(self, link: SenderLink) -> None:
        """The workload looks for itself."""

    def on_room(self, link: SenderLink) -> None:
        """The workload looks for itself."""

    def on_disposition(self, delivery: OutgoingDelivery, state: DeliveryState | None, settled: bool) -> None:
        sent = delivery.mark
        assert isinstance(sent, Sent)
        if sent.number not in self.unconfirmed:
            raise Unexpected(f"{sent.number} has two outcomes")
        transaction = self.unconfirmed.pop(sent.number)
        if transaction is not None:
            transaction.posted(sent, state)
        elif isinstance(state, Accepted):
            self._client.ledger.confirmed(sent)
        elif isinstance(state, Rejected | Released | Modified):
            self._client.ledger.refused(sent)
        else:
            raise Unexpected(f"the outcome of {sent.number} is {state}")
        if not settled:
            self.link.settle(delivery)

    def on_detached(self, error: FlintError | None, closed: bool) -> None:
        self._client.expect(error, f"the link to {self._key[0]}")
        self._client.senders.pop(self._key, None)


@final
class Receiver(ReceiverOwner):
    """What one link has in hand. `transaction` is what it acquires in at first."""

    def __init__(self, client: LinkClient, line: Line, credit: int, transaction: SimTransaction | None) -> None:
        assert client.session is not None
        self.number = client.workload.next_number()
        self.line = line
        self.unsettled: dict[IncomingDelivery, Copy] = {}
        # Of these, those that were acquired in a transaction which is not committed: nothing else may settle them.
        self.acquired: dict[IncomingDelivery, SimTransaction] = {}
        self.is_over = False
        self._client = client
        self._ledger = client.ledger
        self._credit = credit
        self._latest: dict[object, int] = {}
        # What it begins to acquire in, if that is open then; and all that it was told to.
        self._begins_in = transaction
        self._acquires_for: set[SimTransaction] = set()
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
        if self._begins_in is not None and self._begins_in.progress is Progress.OPEN:
            self.acquire(self._begins_in)
        else:
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
        transaction = self._transaction_of(delivery)
        holder = self if transaction is None else transaction
        copy = self._ledger.delivered(self.line, int(digits), body, again, holder, self._latest)
        if transaction is None:
            self.unsettled[delivery] = copy
        else:
            transaction.acquire(self, delivery, copy)

    def _transaction_of(self, delivery: IncomingDelivery) -> SimTransaction | None:
        state = delivery.state
        if state is None:
            return None
        found = self._client.transactions.get(state.txn_id) if isinstance(state, TransactionalState) else None
        if found is None or found not in self._acquires_for:
            raise Unexpected(f"{self.line} delivered in {state}, and was not asked to")
        return found

    def acquire(self, transaction: SimTransaction | None) -> None:
        """What is sent from now on is acquired in its name (amqp-1.0 part 4 §4.4.3)."""
        if not self.link.is_attached:
            # Not yet, or we have detached it before that was answered.
            return
        if transaction is not None:
            self._acquires_for.add(transaction)
        self.link.grant(self._credit)
        flow = self.link.flow()
        flow.properties = {"txn-id": None if transaction is None else transaction.id}
        self.link.session.send_flow(flow)

    def free(self, transaction: SimTransaction | None) -> list[IncomingDelivery]:
        """What may have an outcome in a transaction, or in none."""
        return [each for each in self.unsettled if self.acquired.get(each, transaction) is transaction]

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

    def stage(
        self, deliveries: list[IncomingDelivery], how: int, chosen: int, transaction: SimTransaction, settled: bool
    ) -> None:
        """The same in a transaction; `settled`: and have no say any more."""
        state = TransactionalState(transaction.id, outcome_of(how, chosen))
        for delivery in deliveries:
            transaction.settle(self, delivery, self.unsettled.pop(delivery), how, settled)
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
        self.acquired.clear()
        if self in self._client.receivers:
            self._client.receivers.remove(self)

    def on_disposition(self, delivery: IncomingDelivery, state: DeliveryState | None, settled: bool) -> None:
        """The server settles what it sends only when we have, or when what it was acquired in is undone."""
        if settled and delivery in self.unsettled and delivery not in self.acquired:
            raise Unexpected(f"{self.line} has settled {self.unsettled[delivery].sent.number}, which is in hand")

    def on_detached(self, error: FlintError | None, closed: bool) -> None:
        self._client.expect(error, f"the link from {self.line}")
        self.let_go()
