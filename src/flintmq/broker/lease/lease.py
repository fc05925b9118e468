"""A lease: messages of a queue that one reader reads by position, again if need be, until it settles them.

Leased messages have positions 0, 1, 2..., none of which is used twice. A batch is a range of positions. It can be read
any number of times, until all messages before a position are settled at once. Opening the lease takes it over: only the
newest epoch may extend and settle.

In the journal a lease consists of notes: its state, and which sequence numbers of the queue have which positions. They
are written in one group with the changes of the messages. Leased messages are packed, so that many take little memory.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Final, final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64, u8

from flintmq.base.errors import InternalError, PreconditionFailed, StorageError
from flintmq.base.limits import LEASE_EXTEND_MAX_BYTES, LEASE_EXTEND_MAX_MESSAGES, LEASE_EXTENSIONS_MAX
from flintmq.broker.lease.returns import LeaseReturn
from flintmq.broker.message import Entry
from flintmq.broker.notes import Notes
from flintmq.broker.ports import LeaseRecord, Page
from flintmq.broker.queue.base import EntryHolder, Queue, Recoverable
from flintmq.broker.queue.entries import EntryQueue
from flintmq.broker.queue.lease_access import LeaseAccess
from flintmq.broker.queue.ready import BLOCK_BYTES, BLOCK_ENTRIES
from flintmq.broker.queue.runs import Runs
from flintmq.broker.timers import NEVER, Timed

if TYPE_CHECKING:
    from flintmq.broker.lease.registry import LeaseRegistry

# The epochs of a lease begin with its id, so that they are higher than those of an earlier lease of the same name.
_EPOCHS_BITS: Final = 32
# The first octet of a note is its type. A state note has the epoch and the first position (int64), whether the lease
# has lapsed, and the position behind the highest fetched one (int64; older notes end before it). An extension note has
# the first position (int64), and runs of sequence numbers: the first (int64) and the count (int32), negative if the
# messages may have been delivered before.
_STATE: Final = 0x53
_EXTENSION: Final = 0x45
_LAPSED_AT: Final = 17
_FETCHED_AT: Final = 18
_STATE_BYTES: Final = 26
# Older notes lack the fetched position: everything that was leased by then may have been fetched.
_NOT_NOTED: Final = -1
_RUNS_AT: Final = 9
_RUN_BYTES: Final = 12


@final
class _LeasedPage:
    """A page of leased entries from position `first` on. `positions` lists all positions if some are missing."""

    def __init__(self, first: i64, page: Page, positions: list[int] | None = None) -> None:
        self.first: i64 = first
        self.page = page
        self.positions = positions

    @property
    def end(self) -> i64:
        """The position behind the last entry."""
        positions = self.positions
        return self.first + self.page.count if positions is None else i64(positions[-1]) + 1


@final
class LeasedEntries:
    """Consecutive leased entries from position `first` on. `positions` lists all positions if some are missing."""

    def __init__(self, first: i64, entries: list[Entry], positions: list[int] | None) -> None:
        self.first: i64 = first
        self.entries = entries
        self._positions = positions

    def position(self, index: i64) -> i64:
        positions = self._positions
        return self.first + index if positions is None else i64(positions[index])

    def index(self, position: i64) -> i64:
        """Return the index of the first entry at this position or behind it."""
        positions = self._positions
        return max(position - self.first, 0) if positions is None else bisect_left(positions, int(position))


@final
class _Extension:
    """The messages of one call of `extend`: the positions before `end`, and their note."""

    def __init__(self, end: i64, note: Entry) -> None:
        self.end: i64 = end
        self.note = note


@final
class _RestoredExtension:
    """At start-up, an extension whose entries are being restored. `last` is its highest sequence number."""

    def __init__(self) -> None:
        self.last: i64 = -1
        self.entries: list[tuple[int, Entry]] = []


@final
class _RestoredRun:
    """At start-up, the position of a run's first sequence number, and the flags of its messages."""

    def __init__(self, position: i64, redelivered: bool, found: _RestoredExtension) -> None:
        self.position: i64 = position
        self.redelivered = redelivered
        self.found = found


@final
class Lease(Timed, Recoverable, EntryHolder):
    """A lease of messages of one queue. `first` is the lowest unsettled position, `next` that of the next message.

    `fetched` is the position behind the highest one that was fetched. Readers that settle because another part of the
    program says so check it: a batch of which nothing was fetched has not been read.
    """

    def __init__(self, record: LeaseRecord, queue: EntryQueue, leases: "LeaseRegistry") -> None:
        super().__init__()
        self.record = record
        self.queue = queue
        self.epoch: i64 = record.id << _EPOCHS_BITS
        self.first: i64 = 0
        self.next: i64 = 0
        self.fetched: i64 = 0
        # The body bytes of the messages that the last call of `extend` leased.
        self.extended_bytes: i64 = 0
        # The lease timed out, and its messages went back to the queue.
        self._has_lapsed = False
        self._leases = leases
        self._pages = leases.pages
        self._access = LeaseAccess(queue, leases.pages)
        self._notes = Notes(record.id, leases.journal)
        self._leased_pages: list[_LeasedPage] = []
        self._extensions: deque[_Extension] = deque()
        self._state: Entry | None = None
        self._used_ms: i64 = 0
        # Used at start-up only.
        self._restored_runs: Runs[_RestoredRun] = Runs()
        self._restoring: deque[_RestoredExtension] = deque()

    @property
    def count(self) -> i64:
        """The number of leased messages."""
        count: i64 = 0
        for part in self._leased_pages:
            count += part.page.count
        return count

    @property
    def _name(self) -> str:
        return f"lease '{self.record.name}' of queue '{self.queue.name}' in vhost '{self.queue.vhost}'"

    # -- epochs and timeout -------------------------------------------------------------------------------------

    def open(self, epoch: i64, timeout_ms: i64) -> None:
        """Take over the lease for an epoch of 0, else continue it.

        Raises PreconditionFailed if the epoch is not the newest.
        """
        if epoch != 0:
            self._check(epoch)
        else:
            self.epoch += 1
            self._has_lapsed = False
            self._begin_group()
            self._write_state()
            self._end_group()
        if timeout_ms != self.record.timeout_ms:
            self.record = replace(self.record, timeout_ms=int(timeout_ms))
            self._leases.definitions.put_lease(self.record)
            self._leases.timers.cancel(self)
        self.used()

    def _check(self, epoch: i64) -> None:
        if epoch != self.epoch:
            raise PreconditionFailed(
                f"the {self._name} has been taken over by another reader with the same consumer name"
            )
        if self._has_lapsed:
            raise PreconditionFailed(
                f"the {self._name} has timed out: it was not used for {self.record.timeout_ms} ms, and its messages "
                "went back to the queue"
            )

    def used(self) -> None:
        """Note that a client called: the timeout starts anew."""
        self.queue.used()
        self._used_ms = self._leases.now_ms
        if self.record.timeout_ms > 0 and self.due_ms == NEVER:
            self._leases.timers.at(self._used_ms + self.record.timeout_ms, self)

    def on_due(self, now_ms: i64) -> None:
        if self._used_ms == 0:
            # The clock did not run while the broker was down.
            self._used_ms = now_ms
        due_ms = self._used_ms + self.record.timeout_ms
        if due_ms > now_ms:
            self._leases.timers.at(due_ms, self)
        elif self._leased_pages:
            self._has_lapsed = True
            self._begin_group()
            self._return_messages()
            self._write_state()
            self._end_group()

    # -- messages -----------------------------------------------------------------------------------------------

    def extend(self, epoch: i64, max_messages: i64, max_bytes: i64) -> i64:
        """Lease ready messages, up to `max_messages` and `max_bytes` (0: as many as one call may). Returns how many.

        The result may be sent once this batch is durable. Raises PreconditionFailed after too many calls without
        `settle`, and the errors of `open`.
        """
        self._check(epoch)
        self.used()
        if max_messages > 0 and len(self._extensions) >= LEASE_EXTENSIONS_MAX:
            raise PreconditionFailed(
                f"the {self._name} was extended {LEASE_EXTENSIONS_MAX} times without a settle: settle what was read"
            )
        most: i64 = LEASE_EXTEND_MAX_BYTES
        if 0 < max_bytes < most:
            most = max_bytes
        acquired = self._access.acquire(min(max_messages, LEASE_EXTEND_MAX_MESSAGES), most)
        self.extended_bytes = 0
        if acquired.count == 0:
            return 0
        start = self.next
        for page in acquired.packed:
            self.extended_bytes += page.body_bytes
            self._leased_pages.append(_LeasedPage(self.next, page))
            self.next += page.count
            self._join_last_pages()
        self._extensions.append(_Extension(self.next, self._notes.write(_extension(start, acquired.runs))))
        return self.next - start

    def _join_last_pages(self) -> None:
        """Join small pages, which would cost more than their contents.

        A message moves as often as the page's size doubles.
        """
        parts = self._leased_pages
        while len(parts) > 1:
            last, before = parts[-1], parts[-2]
            count = last.page.count + before.page.count
            size = last.page.body_bytes + before.page.body_bytes
            if count > BLOCK_ENTRIES or size > BLOCK_BYTES or last.page.count * 2 < before.page.count:
                return
            if before.positions is not None or before.end != last.first:
                return
            try:
                entries = self._pages.read(before.page) + self._pages.read(last.page)
            except StorageError:
                # The error is reported to the reader that fetches them.
                return
            self._pages.repack(before.page, entries)
            self._pages.drop(last.page)
            parts.pop()

    def read(self, position: i64) -> LeasedEntries | None:
        """Return the packed entries at this position, or the next ones behind it.

        Returns None if there are none. Raises InternalError if they cannot be read.
        """
        parts = self._leased_pages
        at: i64 = bisect_right(parts, int(position), key=attrgetter("first")) - 1
        if at < 0 or parts[at].end <= position:
            at += 1
        if at >= len(parts):
            return None
        part = parts[at]
        try:
            return LeasedEntries(part.first, self._pages.read(part.page), part.positions)
        except StorageError as error:
            raise InternalError(str(error)) from error

    def fetched_before(self, position: i64) -> bool:
        """Record that messages before this position are being fetched. Returns True if that was written to the journal.

        It is written only when the first unsettled position is fetched, and so once per batch, however often that is
        fetched.
        """
        is_first = self.fetched <= self.first < position
        if position > self.fetched:
            self.fetched = position
        if is_first:
            self._begin_group()
            self._write_state()
            self._end_group()
        return is_first

    def settle(self, epoch: i64, up_to: i64) -> None:
        """Settle all positions before `up_to` at once. Does nothing if they are settled already.

        Raises PreconditionFailed for a position that was not leased, and the errors of `open`. Raises InternalError if
        leased messages cannot be read: nothing is settled then, except on a queue that has to handle each message,
        which may have settled the first ones.
        """
        self._check(epoch)
        self.used()
        if up_to > self.next:
            raise PreconditionFailed(
                f"position {up_to} of the {self._name} was not leased yet: the next one is {self.next}"
            )
        if up_to <= self.first:
            return
        self._begin_group()
        try:
            self._settle_pages(up_to)
            self.first = up_to
        except StorageError as error:
            raise InternalError(str(error)) from error
        finally:
            self._drop_extensions()
            self._write_state()
            self._end_group()

    def _settle_pages(self, up_to: i64) -> None:
        """Settle all pages before `up_to`.

        Reads everything first, so that a read error comes before the first settlement.
        """
        parts = self._leased_pages
        done = 0
        while done < len(parts) and parts[done].end <= up_to:
            done += 1
        split: _LeasedPage | None = None
        entries: list[Entry] = []
        if done < len(parts) and parts[done].first < up_to:
            split = parts[done]
            entries = self._pages.read(split.page)
        ranges = [self._access.journal_ranges(part.page) for part in parts[:done]]
        settled = 0
        try:
            for part, of_page in zip(parts[:done], ranges, strict=True):
                self._access.settle_page(part.page, of_page)
                self.first = part.end
                settled += 1
        finally:
            del parts[:settled]
        if split is not None:
            self._settle_begin(split, entries, up_to)

    def _settle_begin(self, part: _LeasedPage, entries: list[Entry], up_to: i64) -> None:
        """Settle the entries of a page that are before `up_to`."""
        positions = part.positions
        count: i64 = up_to - part.first
        if positions is not None:
            count = bisect_left(positions, int(up_to))
            part.positions = positions[count:]
        for entry in entries[:count]:
            self.queue.settle(entry)
        self._pages.repack(part.page, entries[count:])
        part.first = up_to if part.positions is None else i64(part.positions[0])

    # -- release ------------------------------------------------------------------------------------------------

    def release(self, epoch: i64) -> i64:
        """Return leased messages to the queue, and delete the lease. An epoch of 0 releases it whoever has it.

        Returns how many messages go back. Raises the errors of `open`.
        """
        if epoch != 0:
            self._check(epoch)
        count = self.count
        self._forget()
        self._leases.definitions.delete_lease(self.record)
        self._begin_group()
        self._return_messages()
        self._drop_state()
        self._end_group()
        return count

    def _forget(self) -> None:
        self._leases.timers.cancel(self)
        self._leases.forget(self)

    def _return_messages(self) -> None:
        """Give the leased messages back to the queue."""
        self.first = self.next
        self._drop_extensions()
        parts = self._leased_pages
        self._leased_pages = []
        LeaseReturn(self._access, [part.page for part in parts]).begin()

    def queue_gone(self, queue: Queue) -> None:
        """Discard the lease: its definition was deleted with the queue's."""
        self._forget()
        self._begin_group()
        for part in self._leased_pages:
            self._access.abandon_page(part.page)
        self._leased_pages = []
        self.first = self.next
        self._drop_extensions()
        self._drop_state()
        self._end_group()

    # -- notes --------------------------------------------------------------------------------------------------

    def _begin_group(self) -> None:
        self._notes.begin_group()

    def _end_group(self) -> None:
        self._notes.end_group()

    def _write_state(self) -> None:
        self._drop_state()
        note = BytesWriter()
        note.append(u8(_STATE))
        write_i64_be(note, self.epoch)
        write_i64_be(note, self.first)
        note.append(u8(self._has_lapsed))
        write_i64_be(note, self.fetched)
        self._state = self._notes.write(note.getvalue())

    def _drop_state(self) -> None:
        state, self._state = self._state, None
        if state is not None:
            self._notes.drop(state)

    def _drop_extensions(self) -> None:
        """Drop the notes of extensions that are settled completely."""
        extensions = self._extensions
        while extensions and extensions[0].end <= self.first:
            self._notes.drop(extensions.popleft().note)

    # -- start-up -----------------------------------------------------------------------------------------------

    def restore(self, entry: Entry) -> None:
        """Restore a note, before the entries of any queue."""
        body = entry.message.body
        if body[0] == _STATE:
            self._restore_state(entry, body)
            return
        found = _RestoredExtension()
        position = read_i64_be(body, 1)
        at: i64 = _RUNS_AT
        while at < len(body):
            first = read_i64_be(body, at)
            length = i64(read_i32_be(body, at + 8))
            count = -length if length < 0 else length
            self._restored_runs.add(first, count, _RestoredRun(position, length < 0, found))
            self.queue.sequence_owners.claim(first, count, self)
            found.last = max(found.last, first + count - 1)
            position += count
            at += _RUN_BYTES
        self._restoring.append(found)
        self._extensions.append(_Extension(position, entry))
        self.next = max(self.next, position)

    def _restore_state(self, entry: Entry, body: bytes) -> None:
        self._drop_state()
        self._state = entry
        self.epoch = read_i64_be(body, 1)
        self.first = read_i64_be(body, 9)
        self._has_lapsed = body[_LAPSED_AT] != 0
        self.fetched = read_i64_be(body, _FETCHED_AT) if len(body) >= _STATE_BYTES else _NOT_NOTED

    def claimed(self, queue: Queue, entry: Entry) -> None:
        run = self._restored_runs.find(entry.seq)
        assert run is not None
        place = run.value
        # A position has the same contents after a restart, including this flag.
        entry.redelivered = place.redelivered
        place.found.entries.append((int(place.position + entry.seq - run.first), entry))
        # Sequence numbers arrive in order, so that extensions are complete one after the other if they were acquired in
        # order.
        while self._restoring[0].last < entry.seq:
            self._pack(self._restoring.popleft())

    def _pack(self, found: _RestoredExtension) -> None:
        """Pack an extension whose entries have all been found. Messages that were not persistent are missing."""
        found.entries.sort(key=_position_of)
        block: list[Entry] = []
        positions: list[int] = []
        size: i64 = 0
        for position, entry in found.entries:
            block.append(entry)
            positions.append(position)
            size += len(entry.message.body)
            if len(block) >= BLOCK_ENTRIES or size >= BLOCK_BYTES:
                self._add_page(block, positions)
                block = []
                positions = []
                size = 0
        if block:
            self._add_page(block, positions)

    def _add_page(self, block: list[Entry], positions: list[int]) -> None:
        is_whole = positions[-1] - positions[0] + 1 == len(positions)
        self._leased_pages.append(_LeasedPage(positions[0], self._pages.pack(block), None if is_whole else positions))

    def start_at(self, seq: i64) -> None:
        self._notes.start_at(seq)
        while self._restoring:
            self._pack(self._restoring.popleft())
        self._restored_runs = Runs()
        self._leased_pages.sort(key=attrgetter("first"))
        self.next = max(self.next, self.first)
        if self.fetched == _NOT_NOTED:
            self.fetched = self.next
        self._begin_group()
        self._drop_extensions()
        self._end_group()
        if self.record.timeout_ms > 0:
            # The timer fires as soon as the broker knows the time.
            self._leases.timers.at(1, self)


def _extension(position: i64, runs: list[int]) -> bytes:
    note = BytesWriter()
    note.append(u8(_EXTENSION))
    write_i64_be(note, position)
    for at in range(0, len(runs), 2):
        write_i64_be(note, runs[at])
        write_i32_be(note, i32(runs[at + 1]))
    return note.getvalue()


def _position_of(found: tuple[int, Entry]) -> int:
    return found[0]
