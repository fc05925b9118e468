"""A link on which a client receives: a consumer with the link's credit, and what the client says of its deliveries."""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from flintmq.base.errors import (
    FlintError,
    InternalError,
    MessageSizeExceeded,
    ResourceDeleted,
    StorageError,
)
from flintmq.broker import settlement
from flintmq.broker.consumer import Consumer
from flintmq.broker.exchange.base import Filter
from flintmq.broker.message import Entry, Message
from flintmq.broker.queue.base import Queue
from flintmq.gateway.amqp10.outcomes import settlement_of
from flintmq.gateway.amqp10.outlet import Outlet
from flintmq.gateway.amqp10.promises import Answer
from flintmq.protocol.amqp10.delivery import OutgoingDelivery, tag_of
from flintmq.protocol.amqp10.sender import SenderLink, SenderOwner
from flintmq.wire.amqp10.spec import MESSAGE_FORMAT, SND_SETTLED
from flintmq.wire.amqp10.states import DeliveryState, TransactionalState

if TYPE_CHECKING:
    from flintmq.gateway.amqp10.session import ServerSession
    from flintmq.gateway.amqp10.transactions import LinkSettlement, OpenTransaction

# The property of a flow that names a transaction.
TXN_ID: Final = "txn-id"


@final
class LinkConsumer(Consumer):
    """`settles`: the client has each message with its delivery, and is not asked what became of it."""

    def __init__(self, owner: "OutgoingLink", link: SenderLink, queue: Queue, settles: bool, outlet: Outlet) -> None:
        # A stream's reader is settled for, since it is not read without.
        super().__init__(link.name, settles and not queue.keeps_all, False)
        self.context = owner
        self.queue = queue
        # Whether the client has heard that it is attached.
        self.started = False
        self.settles = settles
        self.no_local = False
        self.condition: Filter | None = None
        self._owner = owner
        self._link = link
        self._outlet = outlet
        self._number: i64 = 0
        self._origin: i64 = owner.session.connection.number

    def choose(self, no_local: bool, condition: Filter | None) -> None:
        """Not every message is for this consumer: not what came by its own connection, nor what does not match."""
        self.no_local = no_local
        self.condition = condition
        self.is_choosy = no_local or condition is not None
        self.suiting_cost = 0 if condition is None else condition.cost

    def can_take(self) -> bool:
        return self.started and self._link.can_send

    def suits(self, message: Message) -> bool:
        if self.no_local and message.origin == self._origin:
            return False
        return self.condition is None or self.condition.matches(message)

    def deliver(self, queue: Queue, entry: Entry) -> None:
        link = self._link
        outlet = self._outlet
        head = outlet.head(queue, entry)
        body = outlet.body
        if link.message_max != 0 and len(head) + len(body) > link.message_max:
            self._cannot_deliver(queue, entry, len(head) + len(body))
            return
        self._number += 1
        if self._owner.acquires is not None:
            self._owner.acquire(self._owner.acquires, self._number, entry, [head, body])
        elif self.settles:
            link.send(self._number, head, body, True)
            if queue.keeps_all:
                queue.settle(entry)
        else:
            link.send(self._number, head, body, False, entry)

    def _cannot_deliver(self, queue: Queue, entry: Entry, size: int) -> None:
        """The link ends, and the message goes back: another consumer may be able to take it."""
        self.started = False
        # So that the queue does not take it for delivered.
        self.no_ack = False
        self._owner.fail_later(
            MessageSizeExceeded(f"message size ({size} bytes) > maximum message size ({self._link.message_max} bytes)"),
            entry,
        )

    def cancelled(self) -> None:
        self._owner.queue_gone()

    def failed(self, error: StorageError) -> None:
        self._owner.session.connection.fail(InternalError(str(error)))


@final
class OutgoingLink(SenderOwner):
    """`default_outcome` is what becomes of a delivery of which the client does not say it."""

    def __init__(self, session: "ServerSession", link: SenderLink, queue: Queue, outlet: Outlet) -> None:
        self.session = session
        self.link = link
        self.queue = queue
        self.default_outcome = settlement.RELEASED
        self.consumer = LinkConsumer(self, link, queue, link.snd_settle_mode == SND_SETTLED, outlet)
        # The transaction in whose name it acquires messages (part 4 §4.4.3).
        self.acquires: OpenTransaction | None = None
        # Outcomes that a transaction has, and will apply or not.
        self.staged: dict[LinkSettlement, None] = {}
        self.is_over = False
        # Whether the queue was made for this link, and goes with it.
        self.is_dynamic = False

    # -- credit -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """The client has been answered: deliveries may follow."""
        self.consumer.started = True
        self._look()

    def on_flow(self, link: SenderLink) -> None:
        if link.flow_properties is not None and TXN_ID in link.flow_properties:
            txn_id = link.flow_properties[TXN_ID]
            self.session.transactions.acquire(self, txn_id if isinstance(txn_id, bytes) else None)
        link.available = self.queue.message_count
        self._look()

    def on_room(self, link: SenderLink) -> None:
        self._look()

    def _look(self) -> None:
        link = self.link
        if link.credit > 0:
            self.queue.touch()
        if link.drain:
            self.session.connection.drain(self)

    def end_drain(self) -> bool:
        """Whether the client has all there is now, and was told so."""
        link = self.link
        if not link.drain or not link.is_attached:
            return True
        if link.credit > 0 and (self.queue.is_due or not link.can_send):
            return False
        link.available = self.queue.message_count
        link.drained()
        return True

    # -- transactional acquisition ------------------------------------------------------------------------------

    def acquires_for(self, transaction: "OpenTransaction | None") -> None:
        self.acquires = transaction
        self.consumer.no_ack = self.consumer.settles and not self.queue.keeps_all and transaction is None

    def acquire(self, transaction: "OpenTransaction", number: i64, entry: Entry, payload: list[bytes]) -> None:
        """Send a message that is acquired for good only when the transaction is discharged."""
        link = self.link
        state = TransactionalState(txn_id=transaction.id)
        settles = self.consumer.settles
        sent = link.send_tagged(tag_of(number), payload, settles, MESSAGE_FORMAT, state, entry)
        self.session.transactions.acquired(self, transaction, sent, entry)

    # -- outcomes -----------------------------------------------------------------------------------------------

    def on_disposition(self, delivery: OutgoingDelivery, state: DeliveryState | None, settled: bool) -> None:
        if isinstance(state, TransactionalState):
            self.session.transactions.settle(self, delivery, state, settled)
            return
        outcome = settlement_of(state)
        if outcome is None:
            if not settled:
                # How far it has come: nothing to decide yet.
                return
            outcome = self.default_outcome
        entry = delivery.mark
        if entry is not None:
            assert isinstance(entry, Entry)
            delivery.mark = None
            outcome.apply(self.queue, entry, self)
        if not settled:
            self.link.settle(delivery, state)

    # -- the end ------------------------------------------------------------------------------------------------

    def fail_later(self, error: MessageSizeExceeded, entry: Entry) -> None:
        """End the link when the tick does: now its queue is in the middle of giving out messages."""
        self.session.connection.later(_LinkFault(self, error, entry))

    def queue_gone(self) -> None:
        """Nothing can be settled any more, and nothing comes."""
        self.is_over = True
        for delivery in self.link.take_unsettled():
            delivery.mark = None
        self.link.detach(ResourceDeleted(f"queue '{self.queue.name}' in vhost '{self.queue.vhost}' was deleted"))
        self.session.connection.touch()

    def on_detached(self, error: FlintError | None, closed: bool) -> None:
        self.end()

    def end(self) -> None:
        """The link is no more: what it had goes back, and the queue has one consumer less."""
        if self.is_over:
            return
        self.is_over = True
        consumer = self.consumer
        consumer.started = False
        # First the subscription, so that nothing comes back to it.
        self.queue.unsubscribe(consumer)
        for delivery in self.link.take_unsettled():
            entry = delivery.mark
            if isinstance(entry, Entry):
                delivery.mark = None
                self.default_outcome.apply(self.queue, entry, None)
        self.queue.release(self)
        vhost = self.session.vhost
        vhost.unsubscribe(self.queue, consumer)
        if self.is_dynamic:
            vhost.remove_queue(self.queue)


@final
class _LinkFault(Answer):
    """A message that a client cannot take costs it the link."""

    def __init__(self, owner: OutgoingLink, error: MessageSizeExceeded, entry: Entry) -> None:
        self._owner = owner
        self._error = error
        self._entry = entry

    def give(self) -> None:
        owner = self._owner
        if not owner.is_over:
            owner.end()
            owner.link.detach(self._error)
        settlement.RELEASED.apply(owner.queue, self._entry, None)

    def fail(self, reason: str) -> None:
        self.give()
