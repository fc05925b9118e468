"""A link on which a client receives: its consumer, its credit, and the outcomes of its deliveries."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import (
    Amqp10Error,
    AmqpError,
    FlintError,
    InternalError,
    LinkStolen,
    MessageSizeExceeded,
    ResourceDeleted,
    ResourceError,
    StorageError,
)
from flintmq.broker.message import Entry
from flintmq.broker.queue import settlement
from flintmq.broker.queue.base import Queue
from flintmq.broker.terminus.terminus import DetachedLink, SentDelivery, SourceTerminus
from flintmq.gateway.amqp10.annotations import check_state
from flintmq.gateway.amqp10.confirms import PROTOCOL
from flintmq.gateway.amqp10.link_terminus import join, leave, source_terminus
from flintmq.gateway.amqp10.message_encoder import MessageEncoder
from flintmq.gateway.amqp10.names import Key, NamedLink
from flintmq.gateway.amqp10.outcomes import settlement_of
from flintmq.gateway.amqp10.ports import ClientSession
from flintmq.gateway.amqp10.resumption import Resumption
from flintmq.gateway.amqp10.timeouts import Timeouts
from flintmq.gateway.amqp10.transactions import OpenTransaction, SourceLink
from flintmq.gateway.client_consumer import ClientConsumer
from flintmq.gateway.durability import PendingReply
from flintmq.protocol.amqp10.delivery import tag_of
from flintmq.protocol.amqp10.sender import OutgoingDelivery, SenderLink
from flintmq.wire.amqp10.spec import MESSAGE_FORMAT, SND_SETTLED, UINT_MAX
from flintmq.wire.amqp10.states import RELEASED, DeliveryState, Modified, TransactionalState
from flintmq.wire.amqp10.termini import Source

# The property of a flow that names a transaction.
TXN_ID: Final = "txn-id"
# The property of a flow that says whether the link is the single active consumer of its queue (RabbitMQ).
ACTIVE: Final = "rabbitmq:active"


@final
class LinkConsumer(ClientConsumer):
    """The consumer of a link. `settles`: deliveries are sent settled, so they get no outcome."""

    def __init__(
        self, owner: "OutgoingLink", link: SenderLink, queue: Queue, settles: bool, encoder: MessageEncoder
    ) -> None:
        # A stream has no consumers without acknowledgements: `deliver` settles for the client.
        super().__init__(link.name, settles and not queue.keeps_all, False, owner.session.connection.number)
        self.context = owner
        self.queue = queue
        # Whether messages may be delivered: the attach is answered, and the resumption of deliveries is over.
        self.started = False
        self.settles = settles
        self.owner = owner
        self._link = link
        self._encoder = encoder
        self._outflow = owner.session.outflow
        # The queue's counters of deliveries by this protocol.
        self.passed = queue.outflow_of(PROTOCOL)
        self.number: i64 = 0
        # Whether deliveries need more than sending: for a transaction, a timeout, or a terminus that keeps notes.
        self.is_special = False
        self._tick = owner.session.gateway.tick

    def can_take(self) -> bool:
        if self.is_special and self.owner.is_waiting:
            return False
        return self.started and self._link.can_send

    def holds_any(self) -> bool:
        return self._link.unsettled > self.owner.late_count

    def stood_down(self) -> None:
        self.owner.tell_active(False)

    def took_over(self) -> None:
        self.owner.tell_active(True)

    def deliver(self, queue: Queue, entry: Entry) -> None:
        link = self._link
        encoder = self._encoder
        head = encoder.head(queue, entry)
        body = encoder.body
        if link.message_max != 0 and len(head) + len(body) > link.message_max:
            self._cannot_deliver(queue, entry, len(head) + len(body))
            return
        self.number += 1
        if self.seen is not None:
            if queue.keeps_all:
                self.seen.pass_over(entry.seq + 1)
            else:
                self.seen.add(entry.seq)
        if self._tick.tap is not None:
            self._tick.tap.delivered(self.owner.session.client(), queue, entry)
        outflow = self._outflow
        passed = self.passed
        if entry.redelivered:
            outflow.redelivered += 1
            passed.redelivered += 1
        if self.no_ack:
            outflow.delivered_no_ack += 1
            passed.delivered_no_ack += 1
        else:
            outflow.delivered += 1
            passed.delivered += 1
        if self.is_special:
            self.owner.deliver(self.number, queue, entry, head, body)
        elif self.settles:
            link.send(self.number, head, body, True)
            if queue.keeps_all:
                passed.acked += 1
                queue.settle(entry)
        else:
            link.send(self.number, head, body, False, entry)

    def _cannot_deliver(self, queue: Queue, entry: Entry, size: int) -> None:
        """End the link and return the message to the queue: another consumer may be able to take it."""
        # With `no_ack`, the queue would remove the message instead of keeping it for another consumer.
        self.no_ack = False
        self.passed.delivered += 1
        self.owner.fail_later(
            MessageSizeExceeded(f"message size ({size} bytes) > maximum message size ({self._link.message_max} bytes)"),
            entry,
        )

    def cancelled(self) -> None:
        self.owner.queue_gone()

    def failed(self, error: StorageError) -> None:
        self.owner.session.connection.fail(InternalError(str(error)))


@final
class OutgoingLink(SourceLink, DetachedLink, NamedLink):
    """A link on which a client receives.

    `default_outcome` is the outcome of deliveries to which the client gives none. `node` is the queue that the source
    names; `queue` is what the consumer subscribes to: the same, or a view of it.
    """

    def __init__(
        self,
        session: ClientSession,
        link: SenderLink,
        source: Source,
        node: Queue,
        queue: Queue,
        encoder: MessageEncoder,
    ) -> None:
        super().__init__(link, queue)
        self.session = session
        self.name_key: Key = session.name_key(link.name, False)
        self.source = source
        self.consumer = LinkConsumer(self, link, queue, link.snd_settle_mode == SND_SETTLED, encoder)
        # Deliveries of an earlier link that are still to be resumed; new ones follow after them.
        self.resumption: Resumption | None = None
        # The number of messages that wait for their notes to be on the disk; each will take credit.
        self._notes_pending = 0
        # The timeouts of deliveries, if the queue or the client set one.
        self._timeouts: Timeouts | None = None
        # The queue itself; `queue` may be a view of it.
        self._node = node

    def limit_time(self, timeout_ms: i64) -> None:
        """Set the consumer timeout in milliseconds, after which unsettled deliveries are released; 0 or less: none."""
        if timeout_ms > 0 and not self.consumer.settles and not self.queue.keeps_all:
            timers = self.session.gateway.tick.timers
            self._timeouts = Timeouts(self.link, timers, timeout_ms, self._set_late, self._release_late)

    # -- credit -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to deliver: the attach has been answered."""
        if self.queue.settings.single_active:
            self.tell_active(self._is_served())
        self.consumer.is_special = self._is_special
        self.consumer.started = self.resumption is None
        if self.resumption is not None:
            self._settle_resumed(self.resumption)
        self._serve()

    def _settle_resumed(self, resumption: Resumption) -> None:
        """Apply the outcomes in the client's unsettled map. The resumption goes on once they are durable."""
        for held, state in resumption.outcomes():
            outcome = settlement_of(state, self.session.vhost.dialect)
            assert outcome is not None
            resumption.is_waiting |= held.note is not None
            self.settle_held(held.tag, outcome)
        if resumption.is_waiting:
            self.session.connection.confirms.add(_ResumedSettled(self, resumption))

    def on_flow(self, link: SenderLink) -> None:
        if link.flow_properties is not None and TXN_ID in link.flow_properties:
            txn_id = link.flow_properties[TXN_ID]
            self.session.transactions.acquire(self, txn_id if isinstance(txn_id, bytes) else None)
        link.available = self._available()
        self._serve()

    def on_room(self, link: SenderLink) -> None:
        # Links get room in turn, and should deliver in that order.
        if link.credit > 0:
            self.queue.touch_in_turn()
        self._serve()

    def _serve(self) -> None:
        link = self.link
        if self.resumption is not None and self.resumption.go_on():
            self.resumption = None
            self.consumer.started = True
        if link.credit > 0:
            self.queue.touch()
        if link.drain:
            self.session.connection.drain(self)

    def end_drain(self) -> bool:
        link = self.link
        if not link.drain or not link.is_attached:
            return True
        is_busy = self.resumption is not None or self._notes_pending > 0
        if not link.only_resumes:
            is_busy = is_busy or self.queue.is_due or not link.can_send
        if link.credit > 0 and is_busy:
            return False
        link.available = self._available()
        link.drained()
        return True

    def tell_active(self, is_active: bool) -> None:
        """Tell the client whether it is the single active consumer of a quorum queue from now on (RabbitMQ)."""
        if self.queue.kind == "quorum" and self.link.is_attached:
            self.link.available = self._available()
            self.link.send_flow({ACTIVE: is_active})

    def _is_served(self) -> bool:
        """False if another consumer is the single active one of the queue."""
        return not self.queue.settings.single_active or self.queue.consumers[0] is self.consumer

    def _available(self) -> int:
        if not self._is_served():
            return 0
        return min(self.queue.available_to(self.consumer), UINT_MAX)

    # -- deliveries with a transaction, a note or a timeout -------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """Whether deliveries must wait: waiting ones take all credit, or late ones are to be settled first."""
        if self._timeouts is not None and self._timeouts.is_waiting:
            return True
        return self._notes_pending > 0 and i64(self._notes_pending) >= self.link.credit

    def acquires_for(self, transaction: OpenTransaction | None) -> None:
        self.acquires = transaction
        consumer = self.consumer
        consumer.no_ack = consumer.settles and not self.queue.keeps_all and transaction is None
        consumer.is_special = self._is_special

    @property
    def _is_special(self) -> bool:
        return self.acquires is not None or self._keeps_notes or self._timeouts is not None

    @property
    def _keeps_notes(self) -> bool:
        terminus = self.terminus
        return terminus is not None and terminus.keeps_notes and not self.consumer.settles

    def deliver(self, number: i64, queue: Queue, entry: Entry, head: bytes, body: bytes) -> None:
        settles = self.consumer.settles
        acquires = self.acquires
        terminus = self.terminus
        tag = tag_of(number)
        if terminus is not None and self._keeps_notes:
            held = terminus.hold(tag, queue, entry)
            if held.note is not None or self._notes_pending > 0:
                # The note must be durable before the client has the message: a crash could lose it otherwise. A
                # delivery without a note waits, too, so that it does not overtake earlier ones.
                self._notes_pending += 1
                self.session.connection.confirms.add(_NotedDelivery(self, held, acquires, [head, body]))
                return
        self._send(tag, [head, body], settles, acquires, entry)

    def _send(
        self, tag: bytes, payload: list[bytes], settles: bool, acquires: OpenTransaction | None, entry: Entry
    ) -> None:
        state = None if acquires is None else TransactionalState(txn_id=acquires.id)
        sent = self.link.send_tagged(tag, payload, settles, MESSAGE_FORMAT, state, entry)
        if acquires is not None:
            self.session.transactions.acquired(self, acquires, sent, entry)
        elif self._timeouts is not None and sent is not None:
            self._timeouts.sent(sent, self.session.gateway.tick.now_ms)

    def noted(self, held: SentDelivery, acquires: OpenTransaction | None, payload: list[bytes]) -> None:
        """Send a delivery whose note is on the disk.

        `acquires` is the transaction in which the link acquired it; by now the link may acquire in another one.
        """
        self._notes_pending -= 1
        terminus = self.terminus
        if self.is_over or terminus is None or terminus.unsettled.get(held.tag) is not held:
            return
        if not self.link.can_send:
            # The client took credit back, or the session window is full: the message returns to its place.
            terminus.settle(held.tag, settlement.RELEASED)
            return
        if acquires is not None and acquires.is_over:
            # The transaction was discharged while the note was written.
            acquires = None
        self._send(held.tag, payload, False, acquires, held.entry)

    # -- outcomes -----------------------------------------------------------------------------------------------

    @property
    def late_count(self) -> int:
        """The number of unsettled deliveries whose messages are back in the queue because of the consumer timeout."""
        return 0 if self._timeouts is None else self._timeouts.late_count

    def restart_timeout(self, delivery: OutgoingDelivery) -> None:
        if self._timeouts is not None and not self.is_over:
            self._timeouts.restart(delivery, self.session.gateway.tick.now_ms)

    def _set_late(self, is_late: bool) -> None:
        """Set whether the client holds deliveries beyond the consumer timeout."""
        if self.consumer.is_late != is_late:
            self.consumer.is_late = is_late
            self.queue.lateness_changed(self.consumer)

    def _release_late(self, delivery: OutgoingDelivery) -> None:
        """Release a delivery beyond the consumer timeout; it stays unsettled until the client settles it (§2.6.12)."""
        entry = delivery.mark
        assert isinstance(entry, Entry)
        delivery.mark = None
        self.link.update(delivery, RELEASED)
        self.apply(delivery.tag, entry, settlement.RELEASED)
        self.session.connection.touch()

    def on_disposition(self, delivery: OutgoingDelivery, state: DeliveryState | None, settled: bool) -> None:
        if self._timeouts is not None and (settled or settlement_of(state, self.session.vhost.dialect) is not None):
            self._timeouts.settled(delivery)
        if self.is_over and not self.takes_dispositions:
            return
        if isinstance(state, (Modified, TransactionalState)):
            try:
                check_state(state, self.session.vhost.dialect.checks_annotations)
            except AmqpError:
                if settled:
                    self._apply_default(delivery)
                raise
        if isinstance(state, TransactionalState):
            try:
                self.session.transactions.settle(self, delivery, state, settled)
            finally:
                if settled:
                    self._apply_default(delivery)
            return
        outcome = settlement_of(state, self.session.vhost.dialect)
        if outcome is None:
            if not settled:
                # The state `received` says only how much has arrived.
                return
            outcome = self.default_outcome
        entry = delivery.mark
        if isinstance(entry, _NotedSettlement):
            # The outcome of the delivery is decided already, and will be sent once it is durable.
            return
        was_noted = False
        if entry is not None:
            assert isinstance(entry, Entry)
            delivery.mark = None
            was_noted = self.apply(delivery.tag, entry, outcome)
        elif self.session.transactions.retires(delivery):
            # The delivery is retired in a transaction: the discharge settles it.
            return
        if not settled:
            self.settle(delivery, state, was_noted)

    def _apply_default(self, delivery: OutgoingDelivery) -> None:
        """Apply the default outcome to a delivery that the client settled and no transaction took.

        Otherwise its message would stay acquired for ever.
        """
        entry = delivery.mark
        if isinstance(entry, Entry):
            delivery.mark = None
            self.apply(delivery.tag, entry, self.default_outcome)

    def apply(self, tag: bytes, entry: Entry, outcome: settlement.Outcome) -> bool:
        held = self.settle_held(tag, outcome)
        if held is None:
            outcome.apply(self.queue, entry, self.context)
            return False
        return held.note is not None or self.consumer.seen is not None

    def settle_held(self, tag: bytes, outcome: settlement.Outcome) -> SentDelivery | None:
        """Settle the delivery that the terminus holds with this tag. Returns None if it holds none.

        The removal of its note and a resulting dead letter are one group of the journal: a crash leaves both or none.
        """
        if outcome is settlement.ACCEPTED:
            self.count_acked()
        terminus = self.terminus
        if terminus is None or not terminus.keeps_notes:
            return None if terminus is None else terminus.settle(tag, outcome)
        broker = self.session.gateway.broker
        journal = broker.storage.journal
        before = broker.dead_letter_count
        journal.begin_group()
        try:
            held = terminus.settle(tag, outcome)
            if broker.dead_letter_count > before:
                broker.publish_dead_letters_since(before)
        finally:
            journal.end_group()
        return held

    def count_acked(self) -> None:
        self.session.outflow.acked += 1
        self.consumer.passed.acked += 1

    def settle(self, delivery: OutgoingDelivery, state: DeliveryState | None, was_noted: bool) -> None:
        if was_noted:
            # Until the removal of the note is durable, a crash could bring the note back. If the client had forgotten
            # the delivery by then, it would get it again.
            noted = _NotedSettlement(delivery, state)
            delivery.mark = noted
            self.session.connection.confirms.add(noted)
        else:
            self.link.settle(delivery, state)

    @property
    def takes_dispositions(self) -> bool:
        return self.terminus is not None and self.terminus.detached is self

    def superseded(self) -> None:
        self.link.forget_all()

    # -- the end ------------------------------------------------------------------------------------------------

    def fail_later(self, error: AmqpError | Amqp10Error, entry: Entry) -> None:
        self.consumer.started = False
        self.session.connection.confirms.at_end(_LinkFault(self, error, entry))

    def queue_gone(self) -> None:
        """Detach the link because its queue was deleted; outcomes of its deliveries have no effect any more."""
        self.is_over = True
        if self._timeouts is not None:
            self._timeouts.end()
        for delivery in self.link.take_unsettled():
            delivery.mark = None
        if self.terminus is not None:
            self.terminus.expire()
        self.link.detach(ResourceDeleted(f"queue '{self.queue.name}' in vhost '{self.queue.vhost}' was deleted"))
        self.session.connection.touch()

    def stolen(self) -> None:
        """Detach the link because another one of the same name was attached (part 2 §2.6.1)."""
        self._leave(True)
        self.link.detach(LinkStolen(f"link '{self.link.name}' was attached somewhere else"), closed=False)
        self.session.connection.touch()

    def on_detached(self, error: FlintError | None, closed: bool) -> None:
        self._leave(not closed)

    def end(self) -> None:
        """End the link and its terminus."""
        self._leave(False)

    def _leave(self, is_suspended: bool) -> None:
        """End the subscription. With `is_suspended`, unsettled deliveries are kept for the next link of this name.

        Otherwise they get the default outcome, and the terminus expires.
        """
        if self.is_over:
            return
        self.is_over = True
        session = self.session
        session.names.leave(self.name_key, self)
        if session.connection.senders.get(self.link.name) is self:
            del session.connection.senders[self.link.name]
        consumer = self.consumer
        consumer.started = False
        if self._timeouts is not None:
            self._timeouts.end()
        # The subscription ends first, so that returned messages do not come back to this consumer.
        self.queue.unsubscribe(consumer)
        terminus = self.terminus
        if terminus is None and is_suspended and session.engine.is_open:
            # The client may attach the link again until the session ends.
            self._make_terminus()
            terminus = self.terminus
        if terminus is not None:
            terminus.last_number = consumer.number
        if terminus is not None and is_suspended:
            for delivery in self.link.live():
                entry = delivery.mark
                if isinstance(entry, Entry) and delivery.tag not in terminus.unsettled:
                    terminus.hold(delivery.tag, self.queue, entry)
            terminus.detach(self)
        else:
            self._give_back(self.link.take_unsettled())
            if terminus is not None:
                terminus.expire()
            self.queue.context_ended(self)
        session.vhost.unsubscribe(self.queue, consumer)
        if terminus is None:
            leave(self._node, self)

    def keep_terminus(self, found: SourceTerminus | None) -> None:
        """Give the link a terminus: `found`, or a new one. Raises ResourceError if too many are kept."""
        session = self.session
        terminus = source_terminus(session, self.link.name, self.source, found)
        terminus.seen = self.consumer.seen
        terminus.attach(self, session, session.connection)
        self.terminus = terminus

    def _make_terminus(self) -> None:
        try:
            self.keep_terminus(None)
        except ResourceError:
            # The limit of kept termini is reached.
            return
        join(self._node, self, self.terminus, False)
        leave(self._node, self)

    def _give_back(self, unsettled: list[OutgoingDelivery]) -> None:
        """Apply the default outcome to deliveries that the client can no longer settle."""
        entries: list[Entry] = []
        for delivery in unsettled:
            entry = delivery.mark
            if isinstance(entry, Entry):
                delivery.mark = None
                if self.default_outcome is settlement.RELEASED and self.terminus is None:
                    entries.append(entry)
                else:
                    self.apply(delivery.tag, entry, self.default_outcome)
        if entries:
            self.queue.release(entries)


@final
class _NotedDelivery(PendingReply):
    """A delivery that is sent once its note in the terminus is durable."""

    def __init__(
        self, owner: OutgoingLink, held: SentDelivery, acquires: OpenTransaction | None, payload: list[bytes]
    ) -> None:
        self._owner = owner
        self._held = held
        self._acquires = acquires
        self._payload = payload

    def send(self) -> None:
        self._owner.noted(self._held, self._acquires, self._payload)

    def fail(self, reason: str) -> None:
        """The storage failed: the delivery is not sent."""


@final
class _ResumedSettled(PendingReply):
    """Goes on with a resumption once the outcomes of the client's unsettled map are durable."""

    def __init__(self, owner: OutgoingLink, resumption: Resumption) -> None:
        self._owner = owner
        self._resumption = resumption

    def send(self) -> None:
        self._resumption.is_waiting = False
        if not self._owner.is_over:
            self._owner.on_room(self._owner.link)

    def fail(self, reason: str) -> None:
        """The storage failed: after a restart the deliveries may be unsettled again; the client settles them anew."""


@final
class _NotedSettlement(PendingReply):
    """A settlement that is sent once the removal of the delivery's note is durable."""

    def __init__(self, delivery: OutgoingDelivery, state: DeliveryState | None) -> None:
        self._delivery = delivery
        self._state = state

    def send(self) -> None:
        # If the link is gone, so is the delivery, and nothing is sent.
        self._delivery.link.settle(self._delivery, self._state)

    def fail(self, reason: str) -> None:
        """The storage failed: after a restart the terminus may hold the delivery again."""


@final
class _LinkFault(PendingReply):
    """Ends a link at the end of the tick because its client or its transaction cannot take a message."""

    def __init__(self, owner: OutgoingLink, error: AmqpError | Amqp10Error, entry: Entry) -> None:
        self._owner = owner
        self._error = error
        self._entry = entry

    def send(self) -> None:
        owner = self._owner
        if not owner.is_over:
            owner.end()
            owner.link.detach(self._error)
        settlement.RELEASED.apply(owner.queue, self._entry, None)

    def fail(self, reason: str) -> None:
        self.send()
