"""The base of all kinds of queues, with the interfaces of those that get entries from them.

A queue has a name, an owner, settings, consumers, and a place in the tick.
"""

from abc import abstractmethod
from typing import Final

from mypy_extensions import i64, mypyc_attr, trait

from flintmq.base.errors import AccessRefused, ResourceLocked, StorageError
from flintmq.base.limits import ASKED_CONSUMERS_PER_UNIT
from flintmq.base.work import WORK
from flintmq.broker.counters.traffic import Outflow
from flintmq.broker.message import Entry, Message, Table
from flintmq.broker.queue.lifetime import Lifetime
from flintmq.broker.queue.seen import Seen
from flintmq.broker.queue.settings import QueueSettings
from flintmq.broker.tick import Tick
from flintmq.broker.timers import CallbackTimer

# Answers of `Queue.admit`. The queue will take the message.
ADMITTED: Final = 0
# The queue does not take the message, and its publisher is told so.
REFUSED: Final = 1
# The queue discards the message, as it was declared to do: a dead letter of it goes with this tick's batch.
DISCARDED: Final = 2
# The queue does not keep the message (a duplicate, or a command), but its publisher gets a confirm once all records
# that were written until now are durable.
DONE: Final = 3


@trait
class Recoverable:
    """An object whose entries are in the journal, and are restored to it at start-up."""

    @abstractmethod
    def restore(self, entry: Entry) -> None:
        """Restore an entry from the journal. Entries come in the order of their numbers."""

    def restore_all(self, entries: list[Entry]) -> None:
        """Restore some entries from the journal, in the order of their numbers."""
        for entry in entries:
            self.restore(entry)

    @abstractmethod
    def start_at(self, seq: i64) -> None:
        """Set the number of the next entry, which is higher than any in the journal. All entries are restored."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Consumer:
    """A subscription to one queue, implemented by the gateway of its protocol.

    Among the consumers that can take an entry, one with the highest `priority` gets it. A consumer that `is_filtered`
    gets only entries that it `matches`; each comparison costs `matching_cost` units of work. A consumer that
    `has_byte_window` gets an entry only if it `is_within_window`. Consumers of one client share a `context`: an entry
    that one of them has rejected can be withheld from all of them.
    """

    def __init__(self, tag: str, no_ack: bool, exclusive: bool) -> None:
        self.tag = tag
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.priority: i64 = 0
        self.is_filtered = False
        self.matching_cost: i64 = 0
        self.has_byte_window = False
        # Whether it has exceeded the time for a delivery; it gets nothing until it has settled that.
        self.is_late = False
        self.context: object | None = None
        # For a browser or the reader of a stream: the entries that it was sent, also on earlier links.
        self.seen: Seen | None = None

    @abstractmethod
    def can_take(self) -> bool:
        """Whether there is credit for one more entry and room to write it."""

    @abstractmethod
    def deliver(self, queue: "Queue", entry: Entry) -> None:
        """Hand over an acquired entry. Without `no_ack`, the consumer settles it or returns it to the queue.

        An entry that cannot be encoded for any consumer of the protocol is marked UNSENDABLE and not delivered: the
        queue dead-letters or drops it at once.
        """

    @abstractmethod
    def cancelled(self) -> None:
        """Tell the consumer that its queue is deleted, or ends the subscription: nothing more will be delivered."""

    @abstractmethod
    def failed(self, error: StorageError) -> None:
        """End the subscription and tell the client why: the next entry cannot be read."""

    def is_active(self) -> bool:
        """Whether the client wants deliveries; False while it has suspended them (amqp-0-9-1 channel.flow)."""
        return True

    def holds_any(self) -> bool:
        """Whether it has deliveries that it has not settled."""
        return False

    def stood_down(self) -> None:
        """Tell the consumer that it is no longer the single active consumer of its queue, and waits for its turn."""

    def took_over(self) -> None:
        """Tell the consumer that it has become the single active consumer of its queue, after another one."""

    def matches(self, message: Message) -> bool:
        """Whether the consumer wants this message at all. The answer for one message is always the same."""
        return True

    def is_within_window(self, message: Message) -> bool:
        """Whether the message fits into the bytes that are left of the window."""
        return True

    def would_take(self, message: Message) -> bool:
        """Whether the consumer can get this message now."""
        return (
            self.can_take()
            and (not self.is_filtered or self.matches(message))
            and (not self.has_byte_window or self.is_within_window(message))
        )


@trait
class EntryHolder:
    """An object that keeps acquired entries of a queue for a client that may come back for them."""

    @abstractmethod
    def queue_gone(self, queue: "Queue") -> None:
        """Settle the entries held of a queue that is deleted."""

    @abstractmethod
    def claimed(self, queue: "Queue", entry: Entry) -> None:
        """At start-up: take an entry whose number was claimed."""


class Queue(Outflow):
    """A queue of any kind. `owner` is the connection that an exclusive queue belongs to.

    `unacked` is the number of deliveries that are not settled, and `unacked_bytes` that of the bytes in their bodies.
    """

    # Whether the queue stores every message that it takes, persistent or not.
    keeps_all: bool = False

    def __init__(
        self,
        queue_id: int,
        vhost: str,
        name: str,
        kind: str,
        durable: bool,
        auto_delete: bool,
        owner: object | None,
        arguments: Table,
        tick: Tick,
    ) -> None:
        super().__init__()
        self.unacked: i64 = 0
        self.unacked_bytes: i64 = 0
        self.id = queue_id
        self.vhost = vhost
        self.name = name
        # The value of x-queue-type.
        self.kind = kind
        self.durable = durable
        self.auto_delete = auto_delete
        self.owner = owner
        # The arguments as declared; `settings` are their values combined with those of policies.
        self.arguments = arguments
        self.settings = QueueSettings({}, kind)
        # Consumers by priority, the highest first: always this list. A single active consumer is before all others.
        self.consumers: list[Consumer] = []
        # When the queue was last used (Unix time in ms), for x-expires.
        self.used_ms: i64 = tick.now_ms
        # Whether `admit` must be called before `enqueue`.
        self.is_guarded = False
        # Whether deliveries of this queue carry headers that the queue adds.
        self.adds_headers = self.keeps_all
        self.tick = tick
        self._is_ready = False
        self._is_in_turn = False
        # Set while the queue has x-expires.
        self._unused_timer: CallbackTimer | None = None
        self._holders: dict[EntryHolder, None] = {}
        # The share of each protocol in these counters, by the name of the protocol.
        self.outflows: dict[str, Outflow] | None = None
        # The number of lease holders. While there are any, no consumer can be exclusive.
        self.lease_count: i64 = 0
        # Decides when a queue with a lifetime policy is deleted; None without a policy.
        self.lifetime: Lifetime | None = None
        self.gone = False

    def outflow_of(self, protocol: str) -> Outflow:
        """The counters for consumers of one protocol. They count in addition to those of the queue."""
        if self.outflows is None:
            self.outflows = {}
        found = self.outflows.get(protocol)
        if found is None:
            found = Outflow()
            self.outflows[protocol] = found
        return found

    def configure(self, effective: Table) -> None:
        """Apply changed arguments and policies; `effective` are the resulting arguments by their x- names."""
        self.settings = QueueSettings(effective, self.kind)
        if self.settings.expires_ms >= 0:
            self._watch_for_use()

    def _watch_for_use(self) -> None:
        """Schedule the next check for x-expires: the setting was changed, or the queue was used meanwhile."""
        if self._unused_timer is None:
            self._unused_timer = CallbackTimer(self._check_use)
        self.tick.timers.at(self.used_ms + self.settings.expires_ms, self._unused_timer)

    def _check_use(self, now_ms: int) -> None:
        """Have the queue deleted if it had no consumer, basic.get or declaration for the time of x-expires."""
        if self.settings.expires_ms < 0:
            return
        if self.consumers:
            self.used_ms = now_ms
        if self.is_unused:
            self.tick.unused.append(self)
        else:
            self._watch_for_use()

    @property
    def is_unused(self) -> bool:
        """Whether the queue had no consumer, basic.get or declaration for the time of x-expires."""
        expires_ms = self.settings.expires_ms
        return expires_ms >= 0 and not self.consumers and self.used_ms + expires_ms <= self.tick.now_ms

    def watch_for_use(self) -> None:
        """Wait for the time of x-expires again: the queue was used just before it would have been deleted."""
        if self.settings.expires_ms >= 0:
            self._watch_for_use()

    @property
    def survives(self) -> bool:
        """Whether the queue, and its persistent messages, survive a restart."""
        return self.durable and self.owner is None

    @property
    def is_idle(self) -> bool:
        """Whether the queue has no messages, and no deliveries are unsettled."""
        return self.message_count == 0 and self.unacked == 0

    def set_lifetime_policy(self, policy: str) -> None:
        """Give the queue a lifetime policy, one of LIFETIME_POLICIES. Call it once, before there is any message."""
        self.lifetime = Lifetime(policy, self._has_consumers, self._end_with_tick)

    def _has_consumers(self) -> bool:
        return bool(self.consumers)

    def _end_with_tick(self) -> None:
        """Have the queue deleted at the end of the tick, unless its lifetime goes on before."""
        self.tick.ended.append(self)

    @property
    def has_ended(self) -> bool:
        """Whether the lifetime policy of the queue wants it deleted, and it is not deleted yet."""
        return self.lifetime is not None and not self.gone and self.lifetime.is_over

    def used(self) -> None:
        """Note that the queue was used: declared, or consumed from."""
        self.used_ms = self.tick.now_ms

    # -- messages -----------------------------------------------------------------------------------------------

    def admit(self, message: Message) -> int:
        """Decide about a message: ADMITTED, REFUSED, DISCARDED or DONE. May drop others to make room for it."""
        return REFUSED if message.options.is_command else ADMITTED

    @abstractmethod
    def enqueue(self, message: Message) -> Entry | None:
        """Take a message. Returns its entry if the journal has to store it, None otherwise."""

    @property
    @abstractmethod
    def message_count(self) -> int:
        """The number of messages that are ready to be delivered."""

    @property
    def held_count(self) -> int:
        """The number of messages that are held back until a time."""
        return 0

    @property
    def published(self) -> int:
        """The number of messages that were published to the queue since the broker started."""
        return 0

    @property
    def ready_bytes(self) -> int:
        """The bytes in the bodies of ready messages; for a stream, the size of its files."""
        return 0

    def head(self) -> Message | None:
        """The next message, if it is known without reading from the disk; None otherwise."""
        return None

    @property
    def kept_count(self) -> int:
        """The number of messages that survive a restart, ready or not; for a stream, all of them."""
        return self.message_count

    @property
    def kept_bytes(self) -> int:
        """The bytes in the bodies of the messages that survive a restart."""
        return self.ready_bytes

    @abstractmethod
    def settle(self, entry: Entry) -> None:
        """Settle an acquired entry that was accepted: it leaves the queue."""

    def drop(self, entry: Entry) -> None:
        """Remove an entry that no consumer accepted: a dead letter, or one sent without acknowledgement."""
        self.settle(entry)

    @abstractmethod
    def reject(self, entry: Entry) -> None:
        """Reject an acquired entry: it is dead-lettered, or dropped, and counts as a failed delivery."""

    def dead_letter(self, entry: Entry) -> None:
        """Dead-letter or drop an acquired entry, without counting a failed delivery."""
        self.reject(entry)

    def discard_unsendable(self, entry: Entry) -> None:
        """Dead-letter or drop an acquired entry that cannot be sent to any consumer (UNSENDABLE), and count it."""
        self.tick.churn.unsendable += 1
        self.reject(entry)

    @abstractmethod
    def requeue(self, entries: list[Entry]) -> None:
        """Return acquired entries to their places, flagged as redelivered. Each counts as a failed delivery."""

    def release(self, entries: list[Entry]) -> None:
        """Return acquired entries to their places, flagged as redelivered, without counting failed deliveries."""
        self.requeue(entries)

    def recall(self, entry: Entry) -> Entry | None:
        """Return an acquired entry with its message, to be delivered once more to its holder; None if it is gone."""
        return entry

    def fail(self, entries: list[Entry]) -> None:
        """Return entries that their consumer failed to handle, as `requeue` does; a retry may come after a pause."""
        self.requeue(entries)

    def requeue_excluding(self, entries: list[Entry], context: object) -> None:
        """Return entries as `fail` does. Consumers of `context` get them again only after another has taken them."""
        self.requeue(entries)

    def context_ended(self, context: object) -> None:
        """Forget a context that has ended: entries that excluded only it can go to any consumer."""

    @abstractmethod
    def dispatch(self) -> bool:
        """Deliver entries to consumers that can take them. Returns True if only the burst limit stopped it."""

    def takes_at_once(self, message: Message) -> bool:
        """Whether a consumer would get this message at once if it came now (amqp-0-9-1 basic.publish.immediate)."""
        WORK.spent += len(self.consumers) // ASKED_CONSUMERS_PER_UNIT
        if self.message_count > 0:
            self.dispatch()
        return self.message_count == 0 and any(consumer.would_take(message) for consumer in self.consumers)

    def available_to(self, consumer: Consumer) -> int:
        """An estimate of how many messages a consumer could still get (amqp-1.0 part 2 §2.6.7 available)."""
        return self.message_count

    def hold_for(self, holder: EntryHolder) -> None:
        """Register a holder that has acquired entries, or may acquire some: it is told if the queue is deleted."""
        self._holders[holder] = None

    @property
    def is_held(self) -> bool:
        """Whether a holder has acquired entries, or may acquire some."""
        return bool(self._holders)

    def hold_no_more_for(self, holder: EntryHolder) -> None:
        self._holders.pop(holder, None)

    # -- consumers ----------------------------------------------------------------------------------------------

    def subscribe(self, consumer: Consumer, arguments: Table) -> None:
        # An exclusive consumer is refused on a queue with a single active consumer, as in RabbitMQ.
        is_taken = bool(self.consumers) and (consumer.exclusive or self.consumers[0].exclusive)
        if is_taken or (consumer.exclusive and (self.settings.single_active or self.lease_count > 0)):
            raise AccessRefused(f"queue '{self.name}' in vhost '{self.vhost}' in exclusive use")
        # A new consumer never replaces the active one. Those that wait for its place do so by priority (RabbitMQ).
        self._insert_consumer(consumer, 1 if self.settings.single_active else 0)
        self.touch()

    def _insert_consumer(self, consumer: Consumer, first: int) -> None:
        """Insert a consumer by priority, after others of the same priority and after the first `first` consumers.

        With a single active consumer, waiting consumers that are late come after the others.
        """
        consumers = self.consumers
        at = len(consumers)
        while at > first and _goes_before(consumer, consumers[at - 1], self.settings.single_active):
            at -= 1
        consumers.insert(at, consumer)

    def lateness_changed(self, consumer: Consumer) -> None:
        """Note that a consumer became late with a delivery, or settled all late ones; its `is_late` says which."""
        self.touch()

    def unsubscribe(self, consumer: Consumer) -> None:
        if consumer in self.consumers:
            was_first = self.consumers[0] is consumer
            self.consumers.remove(consumer)
            if was_first and self.consumers and self.settings.single_active:
                self.consumers[0].took_over()
            self.used()
            # The next consumer in line may be the active one now.
            self.touch()
            if self.lifetime is not None:
                self.lifetime.check()

    @property
    def consumer_count(self) -> int:
        """The number of active consumers; a client can suspend its own (amqp-0-9-1 queue.declare-ok.consumer-count)."""
        count = 0
        for consumer in self.consumers:
            if consumer.is_active():
                count += 1
        return count

    def touch(self) -> None:
        """Have the queue dispatched at the end of this tick, because there may be something to deliver."""
        if not self._is_ready and self.consumers:
            self._is_ready = True
            self.tick.ready.append(self)

    def touch_in_turn(self) -> None:
        """Have the queue dispatched in this tick in the order of these calls, before queues that are only touched."""
        if not self._is_in_turn and self.consumers:
            self._is_in_turn = True
            self._is_ready = True
            self.tick.in_turn.append(self)

    @property
    def is_due(self) -> bool:
        """Whether the queue is on a list of the tick, so that there may be more to deliver."""
        return self._is_ready

    def dispatched(self) -> None:
        """Note that the tick has taken this queue off its lists."""
        self._is_ready = False
        self._is_in_turn = False

    def check_access(self, connection: object) -> None:
        """Check access for a connection. Raises ResourceLocked if another one owns this queue exclusively."""
        if self.owner is not None:
            self.check_owner(connection)

    def check_owner(self, owner: object | None) -> None:
        """Check the owner of the queue; None: it must not be exclusive. Raises ResourceLocked."""
        if self.owner is not owner:
            raise ResourceLocked(
                f"cannot obtain exclusive access to locked queue '{self.name}' in vhost '{self.vhost}'. It could be "
                "originally declared on another connection or the exclusive property value does not match that of "
                "the original declaration."
            )

    def delete(self) -> int:
        """Drop all messages, and tell holders and consumers. Returns how many messages were ready or held back."""
        self.gone = True
        count = self.message_count + self.held_count
        self.discard()
        if self._unused_timer is not None:
            self.tick.timers.cancel(self._unused_timer)
        for holder in list(self._holders):
            holder.queue_gone(self)
        consumers = self.consumers[:]
        self.consumers.clear()
        for consumer in consumers:
            consumer.cancelled()
        return count

    @abstractmethod
    def discard(self) -> None:
        """Drop all messages, because the queue is deleted."""


def _goes_before(consumer: Consumer, other: Consumer, single_active: bool) -> bool:
    if single_active and consumer.is_late != other.is_late:
        return other.is_late
    return other.priority < consumer.priority
