"""What every kind of queue has: a name, an owner, consumers, and a place in the tick."""

from abc import abstractmethod
from typing import Final

from mypy_extensions import i64, trait

from flintmq.base.errors import AccessRefused, ResourceLocked
from flintmq.base.limits import ASKED_CONSUMERS_PER_UNIT
from flintmq.base.work import WORK
from flintmq.broker.counters.traffic import Outflow
from flintmq.broker.message import Entry, Message, Table
from flintmq.broker.queue.consumer import Consumer
from flintmq.broker.queue.lifetime import Lifetime
from flintmq.broker.queue.round_robin import RoundRobin
from flintmq.broker.queue.sequence_owners import EntryHolder
from flintmq.broker.queue.settings import QueueSettings
from flintmq.broker.queue.unused import Unused
from flintmq.broker.tick import Tick

# Answers of a queue to a message, before it takes it.
ADMITTED: Final = 0
# Its publisher is to be told that the queue did not take it.
REFUSED: Final = 1
# The queue did with it what it was declared to do, and keeps nothing: its dead letter goes with this tick's batch.
DISCARDED: Final = 2
# The queue keeps nothing of it, and the publisher is to hear of success once all that was staged by now is durable.
DONE: Final = 3


@trait
class Recoverable:
    """Something whose entries the journal keeps, to be given back to it at start-up."""

    @abstractmethod
    def restore(self, entry: Entry) -> None:
        """Put back an entry that the journal kept; in order."""

    @abstractmethod
    def start_at(self, seq: i64) -> None:
        """The number the next entry gets: higher than any the journal still speaks of."""


class Queue(Outflow):
    """A queue of any kind. `owner` is the connection an exclusive queue belongs to.

    `unacked` are messages in clients' hands, with so many bytes in their bodies.
    """

    # Whether every message it takes is stored, persistent or not.
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
        # x-queue-type, as a client writes it.
        self.kind = kind
        self.durable = durable
        self.auto_delete = auto_delete
        self.owner = owner
        # The arguments as declared; `settings` are the values that they have together with policies.
        self.arguments = arguments
        self.settings = QueueSettings({}, kind)
        # Sorted by priority, the highest first; with a single active one, that one before the others.
        self.consumers: list[Consumer] = []
        # When it was used last (Unix time in ms), for queues that end when nobody does.
        self.used_ms: i64 = tick.now_ms
        # Whether `admit` has to be asked before `enqueue`.
        self.is_guarded = False
        # Whether deliveries from here carry headers of the queue's own.
        self.adds_headers = self.keeps_all
        self.tick = tick
        self._is_ready = False
        self._is_in_turn = False
        self._round_robin = RoundRobin(self.consumers)
        self._unused: Unused | None = None
        self._holders: dict[EntryHolder, None] = {}
        # The part of these counters that went out by one protocol, by the protocol's name.
        self.outflows: dict[str, Outflow] | None = None
        # Names that lease from it: nobody else has it to itself meanwhile.
        self.lease_count: i64 = 0
        # For a queue that ends by itself: what decides when.
        self.lifetime: Lifetime | None = None
        self.gone = False

    def outflow_of(self, protocol: str) -> Outflow:
        """Where consumers of a protocol are counted besides."""
        if self.outflows is None:
            self.outflows = {}
        found = self.outflows.get(protocol)
        if found is None:
            found = Outflow()
            self.outflows[protocol] = found
        return found

    def configure(self, effective: Table) -> None:
        """Arguments and policies have changed, and come to this (x- names)."""
        self.settings = QueueSettings(effective, self.kind)
        if self.settings.expires_ms >= 0:
            if self._unused is None:
                self._unused = Unused(self)
            self._unused.watch()

    @property
    def survives(self) -> bool:
        """Whether a restart finds it, with the messages that are to be kept."""
        return self.durable and self.owner is None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is on it, and nobody has anything of it."""
        return self.message_count == 0 and self.unacked == 0

    def live_by(self, policy: str) -> None:
        """It ends by itself, by one of the POLICIES. Said once, before there is any message."""
        self.lifetime = Lifetime(self, policy)

    def used(self) -> None:
        """Somebody declared the queue, or took from it."""
        self.used_ms = self.tick.now_ms

    # -- messages -----------------------------------------------------------------------------------------------

    def admit(self, message: Message) -> int:
        """ADMITTED, REFUSED, DISCARDED or DONE; what has to make room for the message is gone then."""
        return REFUSED if message.options.is_command else ADMITTED

    @abstractmethod
    def enqueue(self, message: Message) -> Entry | None:
        """Take a message; returns the entry the journal has to keep, if it has to keep one."""

    @property
    @abstractmethod
    def message_count(self) -> int:
        """Messages that are ready to be delivered."""

    @property
    def held_count(self) -> int:
        """Messages that are held back until a time."""
        return 0

    @property
    def published(self) -> int:
        """Messages that came since the broker started."""
        return 0

    @property
    def ready_bytes(self) -> int:
        """What the bodies of messages have together that are ready; of a stream, what its files have."""
        return 0

    def head(self) -> Message | None:
        """The message that is next, where that can be told without reading it from the disk."""
        return None

    @property
    def kept_count(self) -> int:
        """Messages that are here after a restart, ready or not; of a stream, all of them."""
        return self.message_count

    @property
    def kept_bytes(self) -> int:
        """What their bodies have together."""
        return self.ready_bytes

    @abstractmethod
    def get(self, context: object | None = None) -> Entry | None:
        """Acquire the next entry for basic.get, by a channel."""

    def sent(self, entry: Entry) -> None:
        """What `get` gave was sent to a client that has nothing to settle."""
        self.got_no_ack += 1
        self.drop(entry)

    @abstractmethod
    def settle(self, entry: Entry) -> None:
        """An acquired entry was accepted, and is gone."""

    def drop(self, entry: Entry) -> None:
        """An entry is gone that no consumer accepted: a dead letter, or one sent to a client that settles nothing."""
        self.settle(entry)

    @abstractmethod
    def reject(self, entry: Entry) -> None:
        """An acquired entry was rejected: it is dead-lettered, or dropped, and counts as a failed delivery."""

    def dead_letter(self, entry: Entry) -> None:
        """An acquired entry is dead-lettered, or dropped, and does not count as a failed delivery."""
        self.reject(entry)

    def discard_unsendable(self, entry: Entry) -> None:
        """An acquired entry cannot be sent to anybody (UNSENDABLE): it is dead-lettered, or dropped, and counted."""
        self.tick.churn.unsendable += 1
        self.reject(entry)

    @abstractmethod
    def requeue(self, entries: list[Entry]) -> None:
        """Acquired entries are ready again, each where it stood, flagged as redelivered. Each is a failed delivery."""

    def release(self, entries: list[Entry]) -> None:
        """Acquired entries are ready again, each where it stood, flagged as redelivered; no delivery has failed."""
        self.requeue(entries)

    def recall(self, entry: Entry) -> Entry | None:
        """Return an acquired entry with its message, to be delivered once more to its holder; None if it is gone."""
        return entry

    def fail(self, entries: list[Entry]) -> None:
        """As `requeue`, for entries that their consumer could not handle: a pause may come before the next attempt."""
        self.requeue(entries)

    def requeue_excluding(self, entries: list[Entry], context: object) -> None:
        """As `fail`, and until they are taken or the context ends, consumers of this context do not get them again."""
        self.requeue(entries)

    def context_ended(self, context: object) -> None:
        """A context has ended: entries that excluded it do not any more."""

    @abstractmethod
    def purge(self) -> int:
        """Drop all messages that are ready, or held back; returns how many."""

    @abstractmethod
    def dispatch(self) -> bool:
        """Give entries to consumers that can take them; True when a burst was used up and more could go out."""

    def takes_at_once(self, message: Message) -> bool:
        """Whether this message would go to a consumer at once, if it came now (amqp-0-9-1 basic.publish.immediate)."""
        WORK.spent += len(self.consumers) // ASKED_CONSUMERS_PER_UNIT
        if self.message_count > 0:
            self.dispatch()
        return self.message_count == 0 and any(consumer.would_take(message) for consumer in self.consumers)

    def available_to(self, consumer: "Consumer") -> int:
        """About how many messages there are that a consumer could still get (amqp-1.0 part 2 §2.6.7 available)."""
        return self.message_count

    def hold_for(self, holder: EntryHolder) -> None:
        """It has acquired entries, or may have some soon."""
        self._holders[holder] = None

    def hold_no_more_for(self, holder: EntryHolder) -> None:
        self._holders.pop(holder, None)

    # -- consumers ----------------------------------------------------------------------------------------------

    def subscribe(self, consumer: Consumer, arguments: Table) -> None:
        # One that is alone by its own wish and one that waits for its turn exclude each other, as in RabbitMQ.
        is_taken = bool(self.consumers) and (consumer.exclusive or self.consumers[0].exclusive)
        if is_taken or (consumer.exclusive and (self.settings.single_active or self.lease_count > 0)):
            raise AccessRefused(f"queue '{self.name}' in vhost '{self.vhost}' in exclusive use")
        # Nobody goes before the active one by coming; those that wait for its place do so by priority (RabbitMQ).
        self._line_up(consumer, 1 if self.settings.single_active else 0)
        self._round_robin.rank()
        self.touch()

    def _line_up(self, consumer: Consumer, first: int) -> None:
        """Put a consumer into its place by priority, behind those that were there before, and these in any case.

        Of those that wait for the place of a single active one, who is late stands behind the others.
        """
        consumers = self.consumers
        at = len(consumers)
        while at > first and _goes_before(consumer, consumers[at - 1], self.settings.single_active):
            at -= 1
        consumers.insert(at, consumer)

    def lateness_changed(self, consumer: Consumer) -> None:
        """A consumer is late with a delivery, or has settled all with which it was: `is_late` says which."""
        self.touch()

    def unsubscribe(self, consumer: Consumer) -> None:
        if consumer in self.consumers:
            was_first = self.consumers[0] is consumer
            self.consumers.remove(consumer)
            self._round_robin.rank()
            if was_first and self.consumers and self.settings.single_active:
                self.consumers[0].took_over()
            self.used()
            # The next one in line may be the active one now.
            self.touch()
            if self.lifetime is not None:
                self.lifetime.check()

    @property
    def consumer_count(self) -> int:
        """Those that are active: a client can suspend its own (amqp-0-9-1 queue.declare-ok.consumer-count)."""
        count = 0
        for consumer in self.consumers:
            if consumer.is_active():
                count += 1
        return count

    def touch(self) -> None:
        """There may be something to deliver: look at the end of this tick."""
        if not self._is_ready and self.consumers:
            self._is_ready = True
            self.tick.ready.append(self)

    def touch_in_turn(self) -> None:
        """There may be something to deliver: look at it this tick, before queues that are only touched, in turn."""
        if not self._is_in_turn and self.consumers:
            self._is_in_turn = True
            self._is_ready = True
            self.tick.in_turn.append(self)

    @property
    def is_due(self) -> bool:
        """Whether it is on a list, so that there may be more to deliver."""
        return self._is_ready

    def dispatched(self) -> None:
        """The tick has taken this queue off its lists."""
        self._is_ready = False
        self._is_in_turn = False

    def check_access(self, connection: object) -> None:
        """Raises ResourceLocked when another connection owns this queue exclusively."""
        if self.owner is not None:
            self.check_owner(connection)

    def check_owner(self, owner: object | None) -> None:
        """Raises ResourceLocked unless the queue is exclusive to `owner`, or to nobody if that is None."""
        if self.owner is not owner:
            raise ResourceLocked(
                f"cannot obtain exclusive access to locked queue '{self.name}' in vhost '{self.vhost}'. It could be "
                "originally declared on another connection or the exclusive property value does not match that of "
                "the original declaration."
            )

    def delete(self) -> int:
        """Drop everything, tell the consumers; returns how many messages were ready, or held back."""
        self.gone = True
        count = self.message_count + self.held_count
        self.discard()
        if self._unused is not None:
            self.tick.timers.cancel(self._unused)
        for holder in list(self._holders):
            holder.queue_gone(self)
        consumers = self.consumers
        self.consumers = []
        self._round_robin = RoundRobin(self.consumers)
        for consumer in consumers:
            consumer.cancelled()
        return count

    @abstractmethod
    def discard(self) -> None:
        """The queue is deleted: let go of all its messages."""


def _goes_before(consumer: Consumer, other: Consumer, single_active: bool) -> bool:
    if single_active and consumer.is_late != other.is_late:
        return other.is_late
    return other.priority < consumer.priority
