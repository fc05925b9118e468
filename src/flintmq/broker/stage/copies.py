"""What one task publishes in stages: messages that have their numbers on their queues, and that nobody gets yet.

A message is written to the journal once, under a number that its queue has reserved. A note in front of it says so:
after a crash, whatever is found in the journal under such numbers belongs to the attempt, and not to the queue. Where a
queue keeps messages in another way (a stream, say), the message is stored as a copy among those of the stage, until it
is published.
"""

from collections import deque
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from flintmq.base.errors import PreconditionFailed
from flintmq.base.limits import STAGE_RUN_MAX, STAGE_RUN_MIN
from flintmq.broker.delayed.queue import DelayedQueue
from flintmq.broker.message import Entry, Message
from flintmq.broker.ports import Page
from flintmq.broker.queue.base import Queue, SequenceReservation
from flintmq.broker.queue.entries import EntryQueue
from flintmq.broker.queue.publishing import ROUTED, STORED, UNROUTED
from flintmq.broker.tap import Client

if TYPE_CHECKING:
    from flintmq.broker.stage.stage import Stage

# Entries that are packed together, and bytes of their bodies with which a page ends, however few they are.
_PAGE_ENTRIES: Final = 1024
_PAGE_BYTES: Final = 256 * 1024
# Entries, or bytes of their bodies, that are worth a page once no more come.
_PAGE_MIN_ENTRIES: Final = 32
_PAGE_MIN_BYTES: Final = 16 * 1024

# Batch, partition and attempt.
Key = tuple[int, int, int]


@final
class QueuePart(SequenceReservation):
    """What an attempt has for one queue. `count` and `size` are messages, and bytes of their bodies."""

    def __init__(self, queue: Queue, attempt: "Attempt") -> None:
        self.queue = queue
        # Where the messages themselves are on the queue's numbers, that queue.
        self.store = queue if isinstance(queue, EntryQueue) else None
        stage = attempt.stage
        self.id: i64 = stage.copies.id if self.store is None else queue.id
        # Whether a restart finds what is persistent.
        self._is_durable = queue.keeps_all or (queue.durable if self.store is None else self.store.survives)
        self._keeps_all = queue.keeps_all
        self.count: i64 = 0
        self.size: i64 = 0
        # Messages that go to this queue alone; a restart does not know them.
        self.alone: i64 = 0
        self.attempt = attempt
        self._next: i64 = 0
        self._end: i64 = 0
        self._run: i64 = STAGE_RUN_MIN
        self._pages: deque[Page] = deque()
        self._loose: list[Entry] = []
        self._loose_bytes: i64 = 0

    # -- in -----------------------------------------------------------------------------------------------------

    def take(self, message: Message) -> Entry | None:
        """Take a message in; returns the entry the journal has to keep, if it has to keep one."""
        if self._next == self._end:
            self._reserve()
        entry = Entry(message, self._next)
        self._next += 1
        # Not the entry that comes, which has no place in the journal yet.
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
        """The more there are, the longer the runs: a note for each."""
        run = self._run
        self._run = min(run * 2, STAGE_RUN_MAX)
        store = self.store
        stage = self.attempt.stage
        self._next = stage.copies.reserve(run) if store is None else store.reserve(run)
        self._end = self._next + run
        if self._is_durable:
            stage.note_run(self.attempt, self.queue, self._next, run)

    def pack(self) -> None:
        """What is here takes little memory."""
        pages = self.attempt.stage.pages
        if pages is not None and self._loose:
            self._pages.append(pages.pack(self._loose))
            self._loose = []
            self._loose_bytes = 0

    def no_more_come(self) -> None:
        if len(self._loose) >= _PAGE_MIN_ENTRIES or self._loose_bytes >= _PAGE_MIN_BYTES:
            self.pack()

    # -- out ----------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return not self._pages and not self._loose

    def take_some(self) -> list[Entry]:
        """The next of its entries, in order, which leave it. Raises StorageError where they cannot be read."""
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
        """Settle the next of its entries, in the group that is open; returns how many. Raises StorageError as above."""
        stage = self.attempt.stage
        pages = stage.pages
        if self._pages:
            assert pages is not None
            page = self._pages[0]
            count = page.count
            if self._is_durable:
                places = pages.places(page)
                if places.slots:
                    stage.journal.settle_runs(self.id, places.seqs, places.slots)
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
        """Settle so many of its first entries, if their numbers are not beyond `last`; at start-up."""
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
        """A note says that it has these numbers."""
        if self.store is None:
            self.attempt.stage.copies.reserved(first, count, self)
        else:
            self.store.reserved(first, count, self)

    def found(self, entry: Entry) -> None:
        if len(self._loose) >= _PAGE_ENTRIES or self._loose_bytes >= _PAGE_BYTES:
            self.pack()
        # Unless it has been published, nobody can have had it.
        entry.redelivered = self.attempt.is_committed
        self._loose.append(entry)
        size: i64 = len(entry.message.body)
        self._loose_bytes += size
        self.size += size
        self.count += 1


@final
class Attempt:
    """What one attempt of a partition's task publishes. `serial` is the number of the note that it began with."""

    def __init__(self, stage: "Stage", key: Key, epoch: i64, serial: i64) -> None:
        self.stage = stage
        self.key = key
        self.epoch: i64 = epoch
        self.serial: i64 = serial
        # Messages that some queue has; nobody counts those that went nowhere.
        self.count: i64 = 0
        self.is_complete = False
        # Whether a restart would find all of it.
        self.is_kept = True
        self.is_committed = False
        # Its batch was committed before it began: there is nothing left to do for it.
        self.is_late = False
        # Why nothing more can be put here; empty while it can.
        self.over = ""
        self.notes: list[Entry] = []
        # The note that it is complete.
        self.completion: Entry | None = None
        # What it says there is, as queues' ids and numbers of messages in turns; at start-up.
        self.expected: list[int] = []
        self.parts: dict[Queue, QueuePart] = {}
        # The part used last.
        self._part: QueuePart | None = None

    def put(self, message: Message, queues: list[Queue]) -> int:
        """Stage a message for these queues; returns UNROUTED, ROUTED, or STORED where it is safe with the batch.

        Raises PreconditionFailed where it cannot be published later, or no longer.
        """
        if self.over:
            raise PreconditionFailed(self.over)
        if message.options.is_command:
            raise PreconditionFailed("a message that is a command to queues cannot be staged: publish it as it is")
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
            part.alone += 1
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
        """How many of its messages are nowhere because all their queues were deleted.

        Exact for messages of one queue. Of others, and of all after a restart, it is what the counts prove.
        """
        lost: i64 = 0
        others = self.count
        left: i64 = 0
        for part in self.parts.values():
            others -= part.alone
            if part.queue.gone:
                lost += part.alone
            else:
                left += part.count - part.alone
        return lost + max(0, others - left)

    def part_of(self, queue: Queue) -> QueuePart:
        """What it has for this queue, maybe nothing yet."""
        part = self.parts.get(queue)
        if part is None:
            part = QueuePart(queue, self)
            self.parts[queue] = part
        return part

    def _check(self, part: QueuePart, message: Message) -> None:
        """Raises PreconditionFailed where the queue would refuse the message."""
        queue = part.queue
        if isinstance(queue, DelayedQueue):
            if message.options.hidden_keys is not None:
                raise PreconditionFailed("a message with BCC cannot be staged for an exchange that delays it")
        elif not queue.has_room_for(part.count + 1, part.size + len(message.body)):
            raise PreconditionFailed(f"queue '{queue.name}' in vhost '{queue.vhost}' has no room for what is staged")

    def complete(self) -> i64:
        """All of it has come; returns how many messages. It may be committed once this batch is durable.

        After a restart, too, unless there were messages among it that are not kept: then the batch is staged again.
        """
        if self.over:
            raise PreconditionFailed(self.over)
        for part in self.parts.values():
            part.no_more_come()
        self.is_complete = True
        self.stage.note_complete(self)
        return self.count

    def abandon(self) -> None:
        """Whoever published it has ended, or begins something else: if it is not complete, it is discarded."""
        if not self.is_complete and not self.over:
            self.stage.discard(self, "this attempt was given up before it was complete")


@final
class Commit:
    """Attempts that are committed, by `client`, on their way to the queues; `note` says so in the journal."""

    def __init__(self, attempts: list[Attempt], note: Entry, client: Client) -> None:
        self.client = client
        self.attempts = attempts
        self.note = note
        # The one that is next, and those of its parts that are.
        self.place = 0
        self.parts: deque[QueuePart] = deque()
        # How many runs of copies are to be appended to streams before all is done.
        self.appending = 0
        # Of how many attempts the notes are gone, once all is done.
        self.dropped = 0
