"""Staged messages of one task: they have sequence numbers on their queues, but no consumer gets them before the commit.

A message is written to the journal once, with a number that its queue has reserved. A note before it says so: entries
with such numbers that a restart finds belong to the attempt and not to the queue. If a queue stores messages in another
way, as a stream does, the message is stored as a staged copy until the commit.
"""

from collections import deque
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from flintmq.base.errors import PreconditionFailed
from flintmq.base.limits import STAGE_RUN_MAX, STAGE_RUN_MIN
from flintmq.broker.delayed.queue import DelayedQueue
from flintmq.broker.message import Entry, Message
from flintmq.broker.ports import Page
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.capacity import has_room_for
from flintmq.broker.queue.entries import EntryQueue
from flintmq.broker.queue.publish import ROUTED, STORED, UNROUTED
from flintmq.broker.queue.reservation import reserve
from flintmq.broker.queue.sequence_owners import SequenceReservation
from flintmq.broker.tap import Client

if TYPE_CHECKING:
    from flintmq.broker.stage.stage import Stage

# A page ends at this many entries, or at this many bytes of their bodies.
_PAGE_ENTRIES: Final = 1024
_PAGE_BYTES: Final = 256 * 1024
# The entries, or bytes of bodies, from which on the last entries of an attempt are packed into a page, too.
_PAGE_MIN_ENTRIES: Final = 32
_PAGE_MIN_BYTES: Final = 16 * 1024

# Batch, partition and attempt.
Key = tuple[int, int, int]


@final
class QueuePart(SequenceReservation):
    """The messages of one attempt for one queue. `count` is their number, `size` the bytes of their bodies."""

    def __init__(self, queue: Queue, attempt: "Attempt") -> None:
        self.queue = queue
        # The queue, if the messages themselves are stored under its sequence numbers, else None.
        self.store = queue if isinstance(queue, EntryQueue) else None
        stage = attempt.stage
        self.id: i64 = stage.copies.id if self.store is None else queue.id
        # Whether persistent messages of this part survive a restart.
        self._is_durable = queue.keeps_all or (queue.durable if self.store is None else self.store.survives)
        self._keeps_all = queue.keeps_all
        self.count: i64 = 0
        self.size: i64 = 0
        # The number of messages for this queue only. It is not known after a restart.
        self.single_queue_count: i64 = 0
        self.attempt = attempt
        self._next: i64 = 0
        self._end: i64 = 0
        self._run: i64 = STAGE_RUN_MIN
        self._pages: deque[Page] = deque()
        self._loose: list[Entry] = []
        self._loose_bytes: i64 = 0

    # -- staging ------------------------------------------------------------------------------------------------

    def take(self, message: Message) -> Entry | None:
        """Add a message. Returns the entry if the journal has to keep it."""
        if self._next == self._end:
            self._reserve()
        entry = Entry(message, self._next)
        self._next += 1
        # Packing comes before the new entry is added: the new one has no place in the journal yet.
        if len(self._loose) >= _PAGE_ENTRIES or self._loose_bytes >= _PAGE_BYTES:
            self.pack()
        self._loose.append(entry)
        size: i64 = len(message.body)
        self._loose_bytes += size
        self.size += size
        self.count += 1
        if self._is_durable and (self._keeps_all or message.options.persistent):
            return entry
        self.attempt.is_kept = False
        return None

    def _reserve(self) -> None:
        """Reserve sequence numbers. The runs grow with the part, because each needs a note."""
        run = self._run
        self._run = min(run * 2, STAGE_RUN_MAX)
        store = self.store
        stage = self.attempt.stage
        self._next = stage.copies.reserve(run) if store is None else reserve(store, run)
        self._end = self._next + run
        if self._is_durable:
            stage.note_run(self.attempt, self.queue, self._next, run)

    def pack(self) -> None:
        """Pack the entries, to save memory."""
        pages = self.attempt.stage.pages
        if pages is not None and self._loose:
            self._pages.append(pages.pack(self._loose))
            self._loose = []
            self._loose_bytes = 0

    def finish(self) -> None:
        if len(self._loose) >= _PAGE_MIN_ENTRIES or self._loose_bytes >= _PAGE_MIN_BYTES:
            self.pack()

    # -- committing ---------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return not self._pages and not self._loose

    def take_some(self) -> list[Entry]:
        """Remove the next entries and return them, in order. Raises StorageError if they cannot be read."""
        if self._pages:
            pages = self.attempt.stage.pages
            assert pages is not None
            entries = pages.unpack(self._pages[0])
            self._pages.popleft()
            if self._pages:
                pages.will_need(self._pages[0])
            return entries
        entries = self._loose
        self._loose = []
        return entries

    def drop_some(self) -> i64:
        """Settle the next entries, in the open journal group.

        Returns how many. Raises StorageError if they cannot be read.
        """
        stage = self.attempt.stage
        pages = stage.pages
        if self._pages:
            assert pages is not None
            page = self._pages[0]
            count = page.count
            if self._is_durable:
                ranges = pages.ranges(page)
                if ranges.slots:
                    stage.journal.settle_runs(self.id, ranges.seqs, ranges.slots)
            self._pages.popleft()
            pages.drop(page)
            return count
        count = len(self._loose)
        for entry in self._loose:
            if entry.segment != 0:
                stage.journal.settle(self.id, entry)
        self._loose = []
        return count

    def settle_first(self, count: i64, last: i64) -> None:
        """At start-up, settle the first `count` entries, as far as their numbers are at most `last`."""
        while count > 0 and not self.is_empty:
            had_pages = len(self._pages) > 0
            entries = self.take_some()
            done: i64 = 0
            while done < len(entries) and done < count and entries[done].seq <= last:
                self.attempt.stage.journal.settle(self.id, entries[done])
                done += 1
            count -= done
            rest = entries[done:]
            if rest:
                pages = self.attempt.stage.pages
                if had_pages and pages is not None:
                    self._pages.appendleft(pages.pack(rest))
                else:
                    self._loose = rest
                return

    # -- start-up -----------------------------------------------------------------------------------------------

    def reserve_again(self, first: i64, count: i64) -> None:
        """At start-up, reserve the sequence numbers of a note again."""
        if self.store is None:
            self.attempt.stage.copies.reserved(first, count, self)
        else:
            self.store.sequence_owners.reserve(first, count, self)

    def found(self, entry: Entry) -> None:
        if len(self._loose) >= _PAGE_ENTRIES or self._loose_bytes >= _PAGE_BYTES:
            self.pack()
        # Before the commit, no consumer can have had it.
        entry.redelivered = self.attempt.is_committed
        self._loose.append(entry)
        size: i64 = len(entry.message.body)
        self._loose_bytes += size
        self.size += size
        self.count += 1


@final
class Attempt:
    """The publishes of one attempt of a partition's task. `serial` is the sequence number of its first note."""

    def __init__(self, stage: "Stage", key: Key, epoch: i64, serial: i64) -> None:
        self.stage = stage
        self.key = key
        self.epoch: i64 = epoch
        self.serial: i64 = serial
        # The number of messages that some queue has. Messages without a queue do not count.
        self.count: i64 = 0
        self.is_complete = False
        # Whether a restart would find all its messages.
        self.is_kept = True
        self.is_committed = False
        # The batch was committed before this attempt began: its messages are dropped.
        self.is_late = False
        # Why the attempt accepts no more messages, "" while it does.
        self.closed_reason = ""
        self.notes: list[Entry] = []
        # The note that the attempt is complete.
        self.completion: Entry | None = None
        # At start-up, the contents of that note: ids of queues and numbers of messages, alternating.
        self.expected: list[int] = []
        self.parts: dict[Queue, QueuePart] = {}
        # The part that was used last.
        self._part: QueuePart | None = None

    def put(self, message: Message, queues: list[Queue]) -> int:
        """Stage a message for these queues.

        Returns UNROUTED, ROUTED, or STORED if the message is durable with the batch.

        Raises PreconditionFailed if the attempt is over, or if the message cannot be published by a commit.
        """
        if self.closed_reason:
            raise PreconditionFailed(self.closed_reason)
        if message.options.is_command:
            raise PreconditionFailed("a command to queues cannot be staged: publish it directly")
        if not queues:
            return UNROUTED
        if self.is_late:
            self.count += 1
            return ROUTED
        if len(queues) == 1:
            queue = queues[0]
            part = self._part
            if part is None or part.queue is not queue:
                part = self.part_of(queue)
                self._part = part
            if queue.is_guarded:
                self._check(part, message)
            entry = part.take(message)
            part.single_queue_count += 1
            self.count += 1
            if entry is None:
                return ROUTED
            self.stage.journal.append(message, [int(part.id)], [entry])
            return STORED
        return self._put_many(message, queues)

    def _put_many(self, message: Message, queues: list[Queue]) -> int:
        parts = [self.part_of(queue) for queue in queues]
        for part in parts:
            if part.queue.is_guarded:
                self._check(part, message)
        ids: list[int] = []
        entries: list[Entry] = []
        for part in parts:
            entry = part.take(message)
            if entry is not None:
                ids.append(int(part.id))
                entries.append(entry)
        self.count += 1
        if not entries:
            return ROUTED
        self.stage.journal.append(message, ids, entries)
        return STORED

    @property
    def lost(self) -> i64:
        """The number of its messages that are lost because all their queues were deleted.

        It is exact for messages of one queue. For others, and for all after a restart, it is the number that the counts
        prove.
        """
        lost: i64 = 0
        others = self.count
        left: i64 = 0
        for part in self.parts.values():
            others -= part.single_queue_count
            if part.queue.gone:
                lost += part.single_queue_count
            else:
                left += part.count - part.single_queue_count
        return lost + max(0, others - left)

    def part_of(self, queue: Queue) -> QueuePart:
        """Return the part for a queue; create it if there is none."""
        part = self.parts.get(queue)
        if part is None:
            part = QueuePart(queue, self)
            self.parts[queue] = part
        return part

    def _check(self, part: QueuePart, message: Message) -> None:
        """Raises PreconditionFailed if the queue would refuse the message."""
        queue = part.queue
        if isinstance(queue, DelayedQueue):
            if message.options.hidden_keys is not None:
                raise PreconditionFailed("a message with BCC cannot be staged for an exchange that delays it")
        elif not has_room_for(queue, part.count + 1, part.size + len(message.body)):
            raise PreconditionFailed(
                f"queue '{queue.name}' in vhost '{queue.vhost}' has no room for the staged messages"
            )

    def complete(self) -> i64:
        """Mark the attempt as complete: it may be committed once this batch is durable. Returns the number of messages.

        It can still be committed after a restart, unless it has messages that do not survive one: then the batch has to
        be staged again. Raises PreconditionFailed if the attempt is over.
        """
        if self.closed_reason:
            raise PreconditionFailed(self.closed_reason)
        for part in self.parts.values():
            part.finish()
        self.is_complete = True
        self.stage.note_complete(self)
        return self.count

    def abandon(self) -> None:
        """Discard the attempt unless it is complete: its publisher has ended, or has begun another attempt."""
        if not self.is_complete and not self.closed_reason:
            self.stage.discard(self, "this attempt was abandoned before it was complete")


@final
class Commit:
    """Committed attempts on their way to the queues.

    `client` committed them, `note` is the journal's note of the commit.
    """

    def __init__(self, attempts: list[Attempt], note: Entry, client: Client) -> None:
        self.client = client
        self.attempts = attempts
        self.note = note
        # The index of the next attempt, and the parts of the current one.
        self.next_attempt = 0
        self.parts: deque[QueuePart] = deque()
        # The number of pending appends to streams.
        self.appends_pending = 0
        # The number of attempts whose notes have been dropped, which begins when all messages are on their queues.
        self.dropped_attempts = 0
