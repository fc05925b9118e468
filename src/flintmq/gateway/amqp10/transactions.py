"""Transactions: links to the coordinator, and posting, acquiring and retiring in transactions (amqp-1.0 part 4)."""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from flintmq.base.errors import (
    SCOPE_LINK,
    SCOPE_SESSION,
    Amqp10Error,
    AmqpError,
    DecodeError,
    FlintError,
    IllegalState,
    InvalidField,
    LinkStolen,
    NotFound,
    NotImplementedHere,
    PreconditionFailed,
    ResourceError,
    TransactionRollback,
    UnknownTransaction,
)
from flintmq.broker.message import Entry, Message
from flintmq.broker.queue import settlement
from flintmq.broker.queue.base import Queue
from flintmq.broker.terminus.terminus import SentDelivery
from flintmq.broker.transaction import StagedPublish, StagedSettlement, Transaction
from flintmq.gateway.amqp10.names import Key, NamedLink
from flintmq.gateway.amqp10.outcomes import settlement_of
from flintmq.gateway.amqp10.outgoing import OutgoingLink
from flintmq.gateway.amqp10.posting import Posting
from flintmq.gateway.durability import PendingReply
from flintmq.gateway.publishing import PublishTarget
from flintmq.protocol.amqp10.faults import to_wire
from flintmq.protocol.amqp10.receiver import IncomingDelivery, ReceiverLink, ReceiverOwner
from flintmq.protocol.amqp10.sender import OutgoingDelivery, SenderLink
from flintmq.wire.amqp10.composite import Composite
from flintmq.wire.amqp10.composite_reader import decode_composite
from flintmq.wire.amqp10.performatives import Attach
from flintmq.wire.amqp10.sections import scan, section_at
from flintmq.wire.amqp10.spec import AMQP_VALUE, LOCAL_TRANSACTIONS, MULTI_TXNS_PER_SSN, REJECTED, SYMBOLS
from flintmq.wire.amqp10.states import (
    ACCEPTED,
    RELEASED,
    Declared,
    DeliveryState,
    Outcome,
    Rejected,
    TransactionalState,
)
from flintmq.wire.amqp10.termini import Coordinator, Declare, Discharge

if TYPE_CHECKING:
    from flintmq.gateway.amqp10.connection import ServerConnection
    from flintmq.gateway.amqp10.incoming import IncomingLink
    from flintmq.gateway.amqp10.session import ServerSession

# The credit of a link to the coordinator.
_CREDIT: Final = 64
# Transactions that a session may have open: each holds what is staged in it.
_OPEN_MAX: Final = 256
_ID_BYTES: Final = 8
_REJECTED: Final = SYMBOLS[REJECTED]


@final
class OpenTransaction:
    """A transaction between its declare and its discharge."""

    def __init__(self, txn_id: bytes, link: ReceiverLink, work: Transaction) -> None:
        self.id = txn_id
        self.link = link
        self.work = work
        # The error because of which the transaction can only be rolled back; None: it can be committed.
        self.failure: AmqpError | Amqp10Error | None = None
        # Whether it was discharged, or rolled back with its link to the coordinator.
        self.is_over = False
        # Links that acquire in it (part 4 §4.4.3), and the deliveries that were acquired.
        self.acquiring: dict[OutgoingLink, None] = {}
        self.acquired: dict[OutgoingDelivery, None] = {}
        # Deliveries that are retired in it: the discharge gives them their outcome.
        self.retired: dict[OutgoingDelivery, None] = {}

    @property
    def aborting(self) -> list[SenderLink]:
        """Links that have yet to send the abort of a delivery that was acquired in this transaction."""
        return [each.link for each in self.acquired if each.link.is_aborting]


@final
class Transactions:
    """The transactions of a session."""

    def __init__(self, session: "ServerSession") -> None:
        self.session = session
        self._open: dict[bytes, OpenTransaction] = {}
        self._count = 0

    def control(self, link: ReceiverLink, attach: Attach) -> ReceiverOwner:
        """Attach a link to the coordinator."""
        capabilities = [LOCAL_TRANSACTIONS, MULTI_TXNS_PER_SSN]
        outcomes = attach.source.outcomes if attach.source is not None else []
        owner = _Control(self, link, not outcomes or _REJECTED in outcomes)
        self.session.names.free(owner.name_key)
        self.session.names.take(owner.name_key, owner)
        link.accept(Attach(source=attach.source, target=Coordinator(capabilities=capabilities)))
        link.grant(_CREDIT)
        return owner

    # -- declare and discharge ----------------------------------------------------------------------------------

    def declare(self, link: ReceiverLink) -> bytes:
        if len(self._open) >= _OPEN_MAX:
            raise InvalidField(f"a session has {_OPEN_MAX} open transactions at most: discharge some", SCOPE_LINK)
        self._count += 1
        txn_id = self._count.to_bytes(_ID_BYTES, "big")
        work = Transaction(self.session.gateway.broker, self.session.vhost)
        self._open[txn_id] = OpenTransaction(txn_id, link, work)
        return txn_id

    def is_half_posted(self, txn_id: bytes) -> bool:
        """Whether a message has been posted in part in this transaction."""
        for link in self.session.engine.links:
            if isinstance(link, ReceiverLink) and link.begun is not None:
                state = link.begun.state
                if isinstance(state, TransactionalState) and state.txn_id == txn_id:
                    return True
        return False

    def end(self, link: ReceiverLink, reason: str) -> None:
        """Detach a link to the coordinator with an error, and roll back the transactions that were declared on it."""
        link.detach(TransactionRollback(reason))
        self.roll_back_of(link)

    def discharge(self, txn_id: bytes, fail: bool) -> OpenTransaction:
        """Commit a transaction; with `fail`, or if it cannot be committed, roll it back. Raises UnknownTransaction.

        `failure` of the result says why it could not be committed.
        """
        found = self.find(txn_id)
        del self._open[txn_id]
        if not fail and found.failure is None and self.session.gateway.failure:
            found.failure = TransactionRollback(f"nothing durable can be stored: {self.session.gateway.failure}")
        if not fail and found.failure is None:
            try:
                found.work.commit()
            except AmqpError as error:
                found.failure = error
        if fail or found.failure is not None:
            self._roll_back(found)
        else:
            self._discharged(found)
        return found

    def _roll_back(self, found: OpenTransaction) -> None:
        found.work.roll_back()
        for delivery in found.acquired:
            entry = delivery.mark
            owner = delivery.link.owner
            if isinstance(entry, Entry) and isinstance(owner, OutgoingLink) and not owner.is_over:
                # The message was acquired in the transaction, so a rollback takes it back from the client.
                delivery.mark = None
                owner.apply(delivery.tag, entry, settlement.RELEASED)
                if not delivery.link.abort(delivery):
                    delivery.link.settle(delivery, RELEASED)
        self._discharged(found)

    def _discharged(self, found: OpenTransaction) -> None:
        found.is_over = True
        for link in found.acquiring:
            link.acquires_for(None)
        for delivery in found.acquired:
            owner = delivery.link.owner
            if isinstance(owner, OutgoingLink):
                owner.watch_again(delivery)

    def roll_back_of(self, link: ReceiverLink | None) -> None:
        """Roll back the transactions of a link to the coordinator that is gone; None: of the session (part 4 §4.3)."""
        for found in list(self._open.values()):
            if link is None or found.link is link:
                del self._open[found.id]
                self._roll_back(found)

    def find(self, txn_id: bytes) -> OpenTransaction:
        found = self._open.get(txn_id)
        if found is None:
            raise UnknownTransaction(f"there is no transaction {txn_id.hex()} on this session", SCOPE_LINK)
        return found

    def acquire(self, link: "OutgoingLink", txn_id: bytes | None) -> None:
        """Acquire what is sent on a link in a transaction from now on; None: in none. Raises UnknownTransaction."""
        if link.acquires is not None:
            link.acquires.acquiring.pop(link, None)
        found = None if txn_id is None else self.find(txn_id)
        if found is not None:
            found.acquiring[link] = None
        link.acquires_for(found)

    def acquired(
        self, link: "OutgoingLink", found: OpenTransaction, delivery: OutgoingDelivery | None, entry: Entry
    ) -> None:
        """Note that a link sent a message in a transaction. `delivery` is None if it was sent settled, thus retired."""
        if delivery is not None:
            found.acquired[delivery] = None
            return
        try:
            found.work.settle(LinkSettlement(link, None, entry, ACCEPTED, settlement.ACCEPTED, True))
        except AmqpError as error:
            found.failure = error
            # The link has to end: it would get the message again and again while it has credit.
            link.fail_later(error, entry)

    # -- what is done in them -----------------------------------------------------------------------------------

    def publish(
        self, link: "IncomingLink", delivery: IncomingDelivery, state: TransactionalState, payload: bytes
    ) -> None:
        """Post a message in a transaction: it is published when the transaction is committed.

        An error makes the transaction fail, and rejects the delivery. Raises UnknownTransaction, and NotImplementedHere
        for an annotation that must not be ignored.
        """
        found = self.find(state.txn_id)
        outcome: Outcome = ACCEPTED
        posting: Posting | None = None
        try:
            link.check_format(delivery)
            target, message, more_keys = link.read(payload)
            # The message is routed now, because its outcome already says whether it is routed (part 4 §4.4.4).
            queues = self.session.vhost.queues_of(target.route, message, more_keys)
            if not queues:
                if delivery.is_settled:
                    raise NotFound(f"no queue takes a message to '{target.address.exchange}', and it came settled")
                outcome = RELEASED
            link.check_kept(message, queues)
            if delivery.settles_second and not delivery.is_settled:
                posting = Posting(state.txn_id, delivery, outcome)
            found.work.publish(LinkPublish(link, target, message, queues, posting))
        except (AmqpError, Amqp10Error) as error:
            found.failure = error
            if isinstance(error, NotImplementedHere):
                raise
            posting = None
            outcome = Rejected(error=to_wire(error))
        if not delivery.is_settled:
            link.link.settle(delivery, TransactionalState(txn_id=state.txn_id, outcome=outcome))
            if posting is not None:
                link.wait_for(posting, delivery)

    def retires(self, delivery: OutgoingDelivery) -> bool:
        """Whether a delivery is retired in one of the open transactions."""
        return any(delivery in each.retired for each in self._open.values())

    def settle(
        self, link: "OutgoingLink", delivery: OutgoingDelivery, state: TransactionalState, settled: bool
    ) -> None:
        """Retire a delivery in a transaction: its outcome is applied when the transaction is committed.

        Raises UnknownTransaction, and InvalidField for a state without an outcome.
        """
        found = self.find(state.txn_id)
        if delivery not in found.acquired and any(delivery in each.acquired for each in self._open.values()):
            # A delivery that was acquired in a transaction must be retired in the same one (part 4 §4.4.2).
            self.end(found.link, f"delivery {delivery.tag.hex()} was acquired in another transaction")
            return
        if delivery not in found.retired and self.retires(delivery):
            # A delivery cannot be retired twice, and two accepted discharges would say that it was.
            self.end(found.link, f"delivery {delivery.tag.hex()} has its outcome in another transaction")
            return
        outcome = (
            link.default_outcome if state.outcome is None else settlement_of(state.outcome, self.session.vhost.dialect)
        )
        if outcome is None:
            raise InvalidField("a transactional state needs an outcome", SCOPE_SESSION)
        entry = delivery.mark
        if not isinstance(entry, Entry):
            if delivery not in found.retired:
                # The delivery has an outcome, or was released by the consumer timeout: others may have the message.
                found.failure = PreconditionFailed(f"delivery {delivery.tag.hex()} has its outcome already")
            return
        try:
            found.work.settle(LinkSettlement(link, delivery, entry, state.outcome or ACCEPTED, outcome, settled))
            found.retired[delivery] = None
        except AmqpError as error:
            found.failure = error


@final
class LinkPublish(StagedPublish):
    """A message that was posted in a transaction. It goes to `queues`, whatever is bound until the commit.

    The outcome that its publisher was told depends on these queues. `posting` is the delivery if the publisher settles
    it later.
    """

    def __init__(
        self,
        link: "IncomingLink",
        target: PublishTarget,
        message: Message,
        queues: list[Queue],
        posting: Posting | None,
    ) -> None:
        super().__init__(target.route, message, None, queues)
        self._link = link
        self._target = target
        self._posting = posting

    def put(self, queues: list[Queue]) -> None:
        if queues:
            self._link.put(None, self._target, self.message, queues)
        if self._posting is not None:
            self._posting.applied()

    def undo(self) -> None:
        if self._posting is not None:
            self._posting.undone()


@final
class LinkSettlement(StagedSettlement):
    """An outcome in a transaction. `settled`: the client has settled the delivery, and is told nothing more of it."""

    def __init__(
        self,
        link: "OutgoingLink",
        delivery: OutgoingDelivery | None,
        entry: Entry,
        state: Outcome,
        outcome: settlement.Outcome,
        settled: bool,
    ) -> None:
        self._link = link
        self._delivery = delivery
        self._entry = entry
        self._state = state
        self._outcome = outcome
        self._settled = settled
        # The delivery as the terminus of the link holds it.
        self._held: SentDelivery | None = None

    @property
    def dead_letter_bytes(self) -> i64:
        entry = self._entry
        if not self._outcome.makes_dead_letter(self._link.queue, entry):
            return 0
        return len(entry.message.body) + len(entry.message.properties)

    def stage(self) -> None:
        if self._delivery is not None:
            self._delivery.mark = None
            if self._link.terminus is not None:
                self._held = self._link.terminus.stage(self._delivery.tag)

    def take(self) -> None:
        """Nothing to do: a staged delivery has no entry any more, so nobody else settles it."""

    def apply(self) -> None:
        held = self._held
        if self._outcome is settlement.ACCEPTED:
            self._link.session.outflow.acked += 1
            self._link.consumer.passed.acked += 1
        self._apply(self._outcome)
        if not self._settled and self._delivery is not None:
            self._link.settle(self._delivery, self._state, held is not None and held.note is not None)

    def _apply(self, outcome: settlement.Outcome) -> None:
        terminus = self._link.terminus
        if self._held is None or terminus is None:
            outcome.apply(self._link.queue, self._entry, self._link.context)
        else:
            terminus.settle_staged(self._held, outcome)

    def undo(self) -> None:
        """Roll back: the delivery is unsettled again.

        If the client can no longer settle it, its default outcome applies (part 4 §4.4.4).
        """
        link = self._link
        delivery = self._delivery
        if self._settled or delivery is None or delivery.is_settled or (link.is_over and not link.is_live):
            self._apply(link.default_outcome)
            return
        delivery.mark = self._entry
        terminus = link.terminus
        link.watch_again(delivery)
        if terminus is None:
            return
        if self._held is not None:
            terminus.unstage(self._held)
        elif link.is_over:
            # The link was suspended meanwhile, and its terminus did not get what the transaction held.
            terminus.hold(delivery.tag, link.queue, self._entry)


@final
class _Control(ReceiverOwner, NamedLink):
    """A link to the coordinator: declares and discharges come as messages, and are answered by outcomes."""

    def __init__(self, transactions: Transactions, link: ReceiverLink, rejects: bool) -> None:
        self.name_key: Key = transactions.session.name_key(link.name, True)
        self._transactions = transactions
        self._link = link
        # Whether errors are sent as the outcome `rejected`; otherwise they end the link (part 4 §4.2).
        self._rejects = rejects

    def on_message(self, link: ReceiverLink, delivery: IncomingDelivery | None, payload: bytes) -> None:
        if link.credit <= _CREDIT // 2:
            link.grant(_CREDIT)
        if delivery is None or delivery.is_settled:
            raise IllegalState("declare and discharge must not be sent settled", SCOPE_LINK)
        state: DeliveryState | None
        try:
            command = _command(payload)
            if isinstance(command, Declare):
                state = self._declare(command)
            elif isinstance(command, Discharge):
                state = self._discharge(command, delivery)
            else:
                raise InvalidField("a coordinator takes declare and discharge", SCOPE_LINK)
        except (AmqpError, Amqp10Error) as error:
            if not self._rejects:
                raise
            state = Rejected(error=to_wire(error))
        if state is not None:
            link.settle(delivery, state)

    def _declare(self, command: Declare) -> DeliveryState:
        if command.global_id is not None:
            raise NotImplementedHere("there are no distributed transactions here: no global-id")
        return Declared(txn_id=self._transactions.declare(self._link))

    def _discharge(self, command: Discharge, delivery: IncomingDelivery) -> DeliveryState | None:
        """Discharge a transaction. Returns the outcome to answer with; None: the answer comes later, or the link ended.

        Raises UnknownTransaction, and TransactionRollback if the client takes no `rejected`.
        """
        if self._transactions.is_half_posted(command.txn_id):
            # A message must be posted whole before the discharge (part 4 §4.4.1).
            self._transactions.end(self._link, "a message was posted in part when its transaction was discharged")
            return None
        connection = self._transactions.session.connection
        found = self._transactions.discharge(command.txn_id, command.fail)
        state: DeliveryState = ACCEPTED
        if not command.fail:
            if found.failure is None:
                connection.confirms.add(Discharged(self._transactions, self._link, delivery))
                return None
            error = TransactionRollback(found.failure.text)
            if not self._rejects:
                raise error
            state = Rejected(error=to_wire(error))
        # Dispositions as sender and as receiver are queued apart. They are flushed here, because the settlement of what
        # was acquired must come before the answer (part 4 §4.4.3).
        self._link.session.flush_dispositions()
        aborting = found.aborting
        if aborting:
            connection.confirms.at_end(_Aborted(connection, self._link, delivery, state, aborting))
            return None
        return state

    def on_disposition(self, delivery: IncomingDelivery, state: DeliveryState | None, settled: bool) -> None:
        """Nothing to do: declares and discharges are settled when they are answered."""

    def on_detached(self, error: FlintError | None, closed: bool) -> None:
        self._transactions.session.names.leave(self.name_key, self)
        self._transactions.roll_back_of(self._link)

    def on_released(self) -> None:
        self._transactions.session.names.leave(self.name_key, self)

    def stolen(self) -> None:
        self._link.detach(LinkStolen(f"link '{self._link.name}' was attached somewhere else"), closed=False)
        self._transactions.roll_back_of(self._link)
        self._transactions.session.connection.touch()


@final
class Discharged(PendingReply):
    """Accepts a discharge once its commit is durable."""

    def __init__(self, transactions: Transactions, link: ReceiverLink, delivery: IncomingDelivery) -> None:
        self._transactions = transactions
        self._link = link
        self._delivery = delivery

    def send(self) -> None:
        self._link.accept_delivery(self._delivery)

    def fail(self, reason: str) -> None:
        """The storage failed: a restart may or may not find the transaction, so the link ends without an outcome."""
        self._link.detach(
            ResourceError(f"nothing durable can be stored, the transaction may be there after a restart: {reason}")
        )
        self._transactions.roll_back_of(self._link)


@final
class _Aborted(PendingReply):
    """Answers a discharge that rolled back, after the aborts of deliveries acquired in it are sent (part 4 §4.4.3)."""

    def __init__(
        self,
        connection: "ServerConnection",
        link: ReceiverLink,
        delivery: IncomingDelivery,
        state: DeliveryState,
        aborting: list[SenderLink],
    ) -> None:
        self._connection = connection
        self._link = link
        self._delivery = delivery
        self._state = state
        self._aborting = aborting

    def send(self) -> None:
        if any(link.is_aborting for link in self._aborting):
            self._connection.confirms.at_end(self)
        else:
            self._link.settle(self._delivery, self._state)

    def fail(self, reason: str) -> None:
        """Nothing to do: a rollback needs no storage."""


def _command(payload: bytes) -> Composite:
    """Decode the command in a message to the coordinator (part 4 §4.3). Raises InvalidField for any other body."""
    try:
        found = scan(payload)
        if found.body_kind == AMQP_VALUE:
            return decode_composite(payload, section_at(payload, found.body, found.end)[1], found.footer_or_end)[0]
    except DecodeError as error:
        raise InvalidField(f"no command for a coordinator: {error.text}", SCOPE_LINK) from None
    raise InvalidField("a coordinator takes messages with one amqp-value", SCOPE_LINK)
