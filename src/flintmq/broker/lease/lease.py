"""A lease: messages of a queue that wait, in an order of their own, for one reader who may come back for them.

What is leased has positions: 0, 1, 2... for ever, none of them given twice. So a batch is a range of positions, and it
can be read as often as need be, until all before a position is settled as one. Who opens the lease takes it over: only
the newest epoch may extend and settle.

In the journal a lease is notes: where it stands, and which numbers of the queue have which positions. They are written
in one group with what happens to the messages. What is leased is packed, however much it is.
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
from flintmq.broker.queue.ready import BLOCK_BYTES, BLOCK_ENTRIES
from flintmq.broker.queue.runs import Runs
from flintmq.broker.timers import NEVER, Timed

if TYPE_CHECKING:
    from flintmq.broker.lease.registry import Leases

# Epochs of one lease begin with its id, so that they are above those of any lease that had its name before.
_EPOCHS_BITS: Final = 32
# The first octet of a note says what it tells. Where the lease stands: its epoch and first position (int64), whether it
# has lapsed, and the position behind the highest one that was fetched (int64; older notes end before it). Or what was
# leased at once: the first position (int64), and runs of numbers: the first (int64) and how many (int32), which is
# negative where somebody may have had them before.
_STATE: Final = 0x53
_EXTENSION: Final = 0x45
_LAPSED_AT: Final = 17
_FETCHED_AT: Final = 18
_STATE_BYTES: Final = 26
# As old notes have it: all that was leased by then may have been fetched.
_UNKNOWN: Final = -1
_RUNS_AT: Final = 9
_RUN_BYTES: Final = 12


@final
class _Part:
    """A page of leased entries, from position `first` on. `positions` are all of them, where some are missing."""

    def __init__(self, first: i64, page: Page, positions: list[int] | None = None) -> None:
        self.first: i64 = first
        self.page = page
        self.positions = positions

    @property
    def end(self) -> i64:
        """Behind the last one."""
        positions = self.positions
        return self.first + self.page.count if positions is None else i64(positions[-1]) + 1


@final
class Leased:
    """Entries one behind the other, the first of them at position `first`; `positions` as a part has them."""

    def __init__(self, first: i64, entries: list[Entry], positions: list[int] | None) -> None:
        self.first: i64 = first
        self.entries = entries
        self._positions = positions

    def position(self, index: i64) -> i64:
        positions = self._positions
        return self.first + index if positions is None else i64(positions[index])

    def index(self, position: i64) -> i64:
        """Of the first entry at this position, or behind it."""
        positions = self._positions
        return max(position - self.first, 0) if positions is None else bisect_left(positions, int(position))


@final
class _Extension:
    """What was leased at once: the positions before `end`, and the note that says so."""

    def __init__(self, end: i64, note: Entry) -> None:
        self.end: i64 = end
        self.note = note


@final
class _Found:
    """At start-up: an extension whose entries are being found. `last` is the highest number it speaks of."""

    def __init__(self) -> None:
        self.last: i64 = -1
        self.entries: list[tuple[int, Entry]] = []


@final
class _Place:
    """At start-up: which position the first number of a run has, and what else is known of it."""

    def __init__(self, position: i64, redelivered: bool, found: _Found) -> None:
        self.position: i64 = position
        self.redelivered = redelivered
        self.found = found


@final
class Lease(Timed, Recoverable, EntryHolder):
    """`first` is the lowest position that is not settled, `next` the one that the next message gets.

    `fetched` is behind the highest position that somebody has fetched, for readers who settle on the word of others: a
    batch of which nothing was fetched has not been read, whoever says that it is done.
    """

    def __init__(self, record: LeaseRecord, queue: EntryQueue, leases: "Leases") -> None:
        super().__init__()
        self.record = record
        self.queue = queue
        self.epoch: i64 = record.id << _EPOCHS_BITS
        self.first: i64 = 0
        self.next: i64 = 0
        self.fetched: i64 = 0
        # Of the messages that were leased by the last call, the bodies.
        self.extended_bytes: i64 = 0
        # Nobody has called for so long that what it held has gone back.
        self._has_lapsed = False
        self._leases = leases
        self._pages = leases.pages
        self._notes = Notes(record.id, leases.journal)
        self._parts: list[_Part] = []
        self._extensions: deque[_Extension] = deque()
        self._state: Entry | None = None
        self._used_ms: i64 = 0
        # While the broker starts.
        self._places: Runs[_Place] = Runs()
        self._finding: deque[_Found] = deque()

    @property
    def count(self) -> i64:
        """Messages that are leased."""
        count: i64 = 0
        for part in self._parts:
            count += part.page.count
        return count

    @property
    def _name(self) -> str:
        return f"lease '{self.record.name}' of queue '{self.queue.name}' in vhost '{self.queue.vhost}'"

    # -- who has it ---------------------------------------------------------------------------------------------

    def open(self, epoch: i64, timeout_ms: i64) -> None:
        """Take over (0), or go on. Raises PreconditionFailed for an epoch that is over."""
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
                f"the {self._name} has timed out: nobody called for {self.record.timeout_ms} ms, and what it held has "
                "gone back to the queue"
            )

    def used(self) -> None:
        """Somebody has called for it."""
        self.queue.used()
        self._used_ms = self._leases.now_ms
        if self.record.timeout_ms > 0 and self.due_ms == NEVER:
            self._leases.timers.at(self._used_ms + self.record.timeout_ms, self)

    def on_due(self, now_ms: i64) -> None:
        if self._used_ms == 0:
            # Nobody knows how long it was before the restart.
            self._used_ms = now_ms
        due_ms = self._used_ms + self.record.timeout_ms
        if due_ms > now_ms:
            self._leases.timers.at(due_ms, self)
        elif self._parts:
            self._has_lapsed = True
            self._begin_group()
            self._give_up()
            self._write_state()
            self._end_group()

    # -- messages -----------------------------------------------------------------------------------------------

    def extend(self, epoch: i64, max_messages: i64, max_bytes: i64) -> i64:
        """Lease what is ready, up to so many messages and bytes (0: as many as is done at once); returns how many.

        That may be told once this batch is durable. Raises what `open` does.
        """
        self._check(epoch)
        self.used()
        if max_messages > 0 and len(self._extensions) >= LEASE_EXTENSIONS_MAX:
            raise PreconditionFailed(
                f"the {self._name} was extended {LEASE_EXTENSIONS_MAX} times and not settled: settle what was read"
            )
        most: i64 = LEASE_EXTEND_MAX_BYTES
        if 0 < max_bytes < most:
            most = max_bytes
        acquired = self.queue.acquire(self._pages, min(max_messages, LEASE_EXTEND_MAX_MESSAGES), most)
        self.extended_bytes = 0
        if acquired.count == 0:
            return 0
        start = self.next
        for page in acquired.packed:
            self.extended_bytes += page.body_bytes
            self._parts.append(_Part(self.next, page))
            self.next += page.count
            self._join_last()
        self._extensions.append(_Extension(self.next, self._notes.write(_extension(start, acquired.runs))))
        return self.next - start

    def _join_last(self) -> None:
        """Many small parts would cost more than what is in them. A message is moved as often as its page doubles."""
        parts = self._parts
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
                # Who fetches them is told.
                return
            self._pages.repack(before.page, entries)
            self._pages.drop(last.page)
            parts.pop()

    def read(self, position: i64) -> Leased | None:
        """What is leased at this position or behind it, as far as it is packed together. Raises InternalError."""
        parts = self._parts
        at: i64 = bisect_right(parts, int(position), key=attrgetter("first")) - 1
        if at < 0 or parts[at].end <= position:
            at += 1
        if at >= len(parts):
            return None
        part = parts[at]
        try:
            return Leased(part.first, self._pages.read(part.page), part.positions)
        except StorageError as error:
            raise InternalError(str(error)) from error

    def fetched_before(self, position: i64) -> bool:
        """Somebody gets what is before this position; True where the journal is told.

        It is told of the first of what is not settled only, and so once a batch, however often that is fetched.
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
        """All positions before this one are done with, as one; what was before is no matter.

        Raises PreconditionFailed for a position that was not leased, and what `open` does; InternalError where what is
        leased cannot be read: nothing is settled then, but of a queue that has to look at each message the beginning.
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
            self._settle_parts(up_to)
            self.first = up_to
        except StorageError as error:
            raise InternalError(str(error)) from error
        finally:
            self._drop_extensions()
            self._write_state()
            self._end_group()

    def _settle_parts(self, up_to: i64) -> None:
        """Everything that is to be read is read first: an error comes before the first of it is settled."""
        parts = self._parts
        done = 0
        while done < len(parts) and parts[done].end <= up_to:
            done += 1
        split: _Part | None = None
        entries: list[Entry] = []
        if done < len(parts) and parts[done].first < up_to:
            split = parts[done]
            entries = self._pages.read(split.page)
        places = [self.queue.places_of(self._pages, part.page) for part in parts[:done]]
        settled = 0
        try:
            for part, place in zip(parts[:done], places, strict=True):
                self.queue.settle_page(self._pages, part.page, place)
                self.first = part.end
                settled += 1
        finally:
            del parts[:settled]
        if split is not None:
            self._settle_begin(split, entries, up_to)

    def _settle_begin(self, part: _Part, entries: list[Entry], up_to: i64) -> None:
        """Of a page with these entries, what is before a position within it."""
        positions = part.positions
        count: i64 = up_to - part.first
        if positions is not None:
            count = bisect_left(positions, int(up_to))
            part.positions = positions[count:]
        for entry in entries[:count]:
            self.queue.settle(entry)
        self._pages.repack(part.page, entries[count:])
        part.first = up_to if part.positions is None else i64(part.positions[0])

    # -- the end ------------------------------------------------------------------------------------------------

    def release(self, epoch: i64) -> i64:
        """What is leased goes back to the queue, and nothing is known of the lease any more; 0: whoever has it.

        Returns how many messages go back. Raises what `open` does.
        """
        if epoch != 0:
            self._check(epoch)
        count = self.count
        self._forget()
        self._leases.definitions.delete_lease(self.record)
        self._begin_group()
        self._give_up()
        self._drop_state()
        self._end_group()
        return count

    def _forget(self) -> None:
        self._leases.timers.cancel(self)
        self._leases.forget(self)

    def _give_up(self) -> None:
        """What is leased is on the queue again, for everybody."""
        self.first = self.next
        self._drop_extensions()
        parts = self._parts
        self._parts = []
        LeaseReturn(self.queue, self._pages, [part.page for part in parts]).begin()

    def queue_gone(self, queue: Queue) -> None:
        """Its definition has gone with that of the queue."""
        self._forget()
        self._begin_group()
        for part in self._parts:
            self.queue.abandon_page(self._pages, part.page)
        self._parts = []
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
        """Of which nothing is leased any more."""
        extensions = self._extensions
        while extensions and extensions[0].end <= self.first:
            self._notes.drop(extensions.popleft().note)

    # -- start-up -----------------------------------------------------------------------------------------------

    def restore(self, entry: Entry) -> None:
        """A note, before the entries of any queue."""
        body = entry.message.body
        if body[0] == _STATE:
            self._restore_state(entry, body)
            return
        found = _Found()
        position = read_i64_be(body, 1)
        at: i64 = _RUNS_AT
        while at < len(body):
            first = read_i64_be(body, at)
            length = i64(read_i32_be(body, at + 8))
            count = -length if length < 0 else length
            self._places.add(first, count, _Place(position, length < 0, found))
            self.queue.claim(first, count, self)
            found.last = max(found.last, first + count - 1)
            position += count
            at += _RUN_BYTES
        self._finding.append(found)
        self._extensions.append(_Extension(position, entry))
        self.next = max(self.next, position)

    def _restore_state(self, entry: Entry, body: bytes) -> None:
        self._drop_state()
        self._state = entry
        self.epoch = read_i64_be(body, 1)
        self.first = read_i64_be(body, 9)
        self._has_lapsed = body[_LAPSED_AT] != 0
        self.fetched = read_i64_be(body, _FETCHED_AT) if len(body) >= _STATE_BYTES else _UNKNOWN

    def claimed(self, queue: Queue, entry: Entry) -> None:
        run = self._places.find(entry.seq)
        assert run is not None
        place = run.value
        # A position has one content, whatever happens to the broker.
        entry.redelivered = place.redelivered
        place.found.entries.append((int(place.position + entry.seq - run.first), entry))
        # Numbers come in order, so that extensions are whole one by one where they were taken in order.
        while self._finding[0].last < entry.seq:
            self._pack(self._finding.popleft())

    def _pack(self, found: _Found) -> None:
        """All that is left of an extension was found: what was not persistent is missing."""
        found.entries.sort(key=_position_of)
        block: list[Entry] = []
        positions: list[int] = []
        size: i64 = 0
        for position, entry in found.entries:
            block.append(entry)
            positions.append(position)
            size += len(entry.message.body)
            if len(block) >= BLOCK_ENTRIES or size >= BLOCK_BYTES:
                self._add_part(block, positions)
                block = []
                positions = []
                size = 0
        if block:
            self._add_part(block, positions)

    def _add_part(self, block: list[Entry], positions: list[int]) -> None:
        is_whole = positions[-1] - positions[0] + 1 == len(positions)
        self._parts.append(_Part(positions[0], self._pages.pack(block), None if is_whole else positions))

    def start_at(self, seq: i64) -> None:
        self._notes.start_at(seq)
        while self._finding:
            self._pack(self._finding.popleft())
        self._places = Runs()
        self._parts.sort(key=attrgetter("first"))
        self.next = max(self.next, self.first)
        if self.fetched == _UNKNOWN:
            self.fetched = self.next
        self._begin_group()
        self._drop_extensions()
        self._end_group()
        if self.record.timeout_ms > 0:
            # As soon as there is a clock.
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
