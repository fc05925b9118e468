"""Transactions of a session, and the acquisition and retirement of deliveries in them (amqp-1.0 part 4)."""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import (
    SCOPE_LINK,
    SCOPE_SESSION,
    Amqp10Error,
    AmqpError,
    InvalidField,
    PreconditionFailed,
    TransactionRollback,
    UnknownTransaction,
)
from flintmq.broker.message import Entry
from flintmq.broker.queue import settlement
from flintmq.broker.queue.base import Queue
from flintmq.broker.terminus.terminus import SentDelivery, SourceTerminus
from flintmq.broker.transaction import StagedSettlement, Transaction
from flintmq.broker.vhost import VHost
from flintmq.gateway.amqp10.outcomes import settlement_of
from flintmq.gateway.gateway import Gateway
from flintmq.protocol.amqp10.receiver import ReceiverLink
from flintmq.protocol.amqp10.sender import OutgoingDelivery, SenderLink, SenderOwner
from flintmq.wire.amqp10.states import (
    ACCEPTED,
    RELEASED,
    DeliveryState,
    Outcome,
    TransactionalState,
)

# Transactions that a session may have open: each holds what is staged in it.
_OPEN_MAX: Final = 256
_ID_BYTES: Final = 8


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
        self.acquiring: dict[SourceLink, None] = {}
        self.acquired: dict[OutgoingDelivery, None] = {}
        # Deliveries that are retired in it: the discharge gives them their outcome.
        self.retired: dict[OutgoingDelivery, None] = {}

    @property
    def aborting(self) -> list[SenderLink]:
        """Links that have yet to send the abort of a delivery that was acquired in this transaction."""
        return [each.link for each in self.acquired if each.link.is_aborting]


class SourceLink(SenderOwner):
    """A link on which the client receives, as its connection and transactions use it.

    `queue` is the queue of its source, or a view of it. Deliveries to which the client gives no outcome get
    `default_outcome`.
    """

    def __init__(self, link: SenderLink, queue: Queue) -> None:
        self.link = link
        self.queue = queue
        self.default_outcome = settlement.RELEASED
        # The transaction in which the link acquires messages (part 4 §4.4.3).
        self.acquires: OpenTransaction | None = None
        # The terminus that outlives the link, if there is one.
        self.terminus: SourceTerminus | None = None
        self.is_over = False

    @property
    def context(self) -> object:
        """The context that a message undeliverable here is withheld from: the terminus, or else the link."""
        return self if self.terminus is None else self.terminus

    @property
    @abstractmethod
    def takes_dispositions(self) -> bool:
        """Whether the client may still settle deliveries of this detached link (part 2 §2.7.6)."""

    @abstractmethod
    def end_drain(self) -> bool:
        """Answer the drain if all available messages were sent. Returns False if it has to be tried again."""

    @abstractmethod
    def acquires_for(self, transaction: OpenTransaction | None) -> None:
        """Acquire messages in a transaction from now on; None: in no transaction."""

    @abstractmethod
    def restart_timeout(self, delivery: OutgoingDelivery) -> None:
        """Restart the consumer timeout of a delivery whose transaction is over, if the client still has it."""

    @abstractmethod
    def apply(self, tag: bytes, entry: Entry, outcome: settlement.Outcome) -> bool:
        """Settle an entry, and its note in the terminus. Returns whether the client must wait until this is durable."""

    @abstractmethod
    def settle(self, delivery: OutgoingDelivery, state: DeliveryState | None, was_noted: bool) -> None:
        """Tell the client that a delivery is settled; if `was_noted`, once the removal of its note is durable."""

    @abstractmethod
    def count_acked(self) -> None:
        """Count a delivery that the client accepted."""

    @abstractmethod
    def fail_later(self, error: AmqpError | Amqp10Error, entry: Entry) -> None:
        """End the link at the end of the tick, because its queue is delivering at the moment."""


@final
class Transactions:
    """The transactions of a session."""

    def __init__(self, gateway: Gateway, vhost: VHost) -> None:
        self._gateway = gateway
        self._vhost = vhost
        self._open: dict[bytes, OpenTransaction] = {}
        self._count = 0

    # -- declare and discharge ----------------------------------------------------------------------------------

    def declare(self, link: ReceiverLink) -> bytes:
        if len(self._open) >= _OPEN_MAX:
            raise InvalidField(f"a session has {_OPEN_MAX} open transactions at most: discharge some", SCOPE_LINK)
        self._count += 1
        txn_id = self._count.to_bytes(_ID_BYTES, "big")
        work = Transaction(self._gateway.broker, self._vhost)
        self._open[txn_id] = OpenTransaction(txn_id, link, work)
        return txn_id

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
        if not fail and found.failure is None and self._gateway.failure:
            found.failure = TransactionRollback(f"nothing durable can be stored: {self._gateway.failure}")
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
        # A queue with a length limit sends messages to make way for those that come back: none is acquired in this
        # transaction any more.
        self._end_acquiring(found)
        found.work.roll_back()
        for delivery in found.acquired:
            entry = delivery.mark
            owner = delivery.link.owner
            if isinstance(entry, Entry) and isinstance(owner, SourceLink) and not owner.is_over:
                # The message was acquired in the transaction, so a rollback takes it back from the client.
                delivery.mark = None
                owner.apply(delivery.tag, entry, settlement.RELEASED)
                if not delivery.link.abort(delivery):
                    delivery.link.settle(delivery, RELEASED)
        self._discharged(found)

    def _discharged(self, found: OpenTransaction) -> None:
        found.is_over = True
        self._end_acquiring(found)
        for delivery in found.acquired:
            owner = delivery.link.owner
            if isinstance(owner, SourceLink):
                owner.restart_timeout(delivery)

    def _end_acquiring(self, found: OpenTransaction) -> None:
        for link in found.acquiring:
            link.acquires_for(None)
        found.acquiring.clear()

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

    def acquire(self, link: SourceLink, txn_id: bytes | None) -> None:
        """Acquire what is sent on a link in a transaction from now on; None: in none. Raises UnknownTransaction."""
        if link.acquires is not None:
            link.acquires.acquiring.pop(link, None)
        found = None if txn_id is None else self.find(txn_id)
        if found is not None:
            found.acquiring[link] = None
        link.acquires_for(found)

    def acquired(
        self, link: SourceLink, found: OpenTransaction, delivery: OutgoingDelivery | None, entry: Entry
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

    # -- retirement ---------------------------------------------------------------------------------------------

    def retires(self, delivery: OutgoingDelivery) -> bool:
        """Whether a delivery is retired in one of the open transactions."""
        return any(delivery in each.retired for each in self._open.values())

    def settle(self, link: SourceLink, delivery: OutgoingDelivery, state: TransactionalState, settled: bool) -> None:
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
        outcome = link.default_outcome if state.outcome is None else settlement_of(state.outcome, self._vhost.dialect)
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
class LinkSettlement(StagedSettlement):
    """An outcome in a transaction. `settled`: the client has settled the delivery, and is told nothing more of it."""

    def __init__(
        self,
        link: SourceLink,
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
            self._link.count_acked()
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
        if self._settled or delivery is None or delivery.is_settled or (link.is_over and not link.takes_dispositions):
            self._apply(link.default_outcome)
            return
        delivery.mark = self._entry
        terminus = link.terminus
        link.restart_timeout(delivery)
        if terminus is None:
            return
        if self._held is not None:
            terminus.unstage(self._held)
        elif link.is_over:
            # The link was suspended meanwhile, and its terminus did not get what the transaction held.
            terminus.hold(delivery.tag, link.queue, self._entry)
