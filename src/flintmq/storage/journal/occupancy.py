"""Occupancy: which slots of each segment are live, so which segments can be removed, and which must be compacted first.

A slot is one entry of one message record, counted from 0 in each segment. The home of an entry is the segment and slot
that it had when the broker started, or its first ones, if it is younger. An entry is identified by its home: packed
entries cannot be changed, so the home stays the same when compaction writes the entry again elsewhere. The settled bit
is stored at the home. The present location of a record is known only per range of slots, to count what each file holds.
"""

from bisect import bisect_left, bisect_right
from typing import Final, final

from mypy_extensions import i64

from flintmq.storage.journal.bits import Bits, Counts

# Compaction starts if there are this many segments and less than one part in COMPACT_LIVE_DIVISOR of their bytes is
# live. So the disk holds at most four times what lives, plus four segments. Three quarters of what was written since
# the last compaction is then dead, so compaction adds at most a third to the written bytes.
COMPACT_MIN_SEGMENTS: Final = 4
COMPACT_LIVE_DIVISOR: Final = 4

# Each slot in a list of live slots takes this many times the one bit that a bitmap needs; the shorter form is used.
_LISTED_BITS: Final = 64 * 8
_NO_END: Final = 1 << 62


@final
class Segment:
    """A segment of the journal. `live` counts its own slots that are not settled, wherever their records are now.
    `held` counts the records in its file that belong to live slots of any segment.

    `weight` is the approximate size in bytes of the messages of all its slots, `held_weight` that of the records held.
    A message counts once per slot, so only the ratio of the two is meaningful.
    """

    def __init__(self, number: i64, is_own: bool) -> None:
        self.number: i64 = number
        # True if the segment was begun since the broker started, so that the homes in its records are present ones.
        self.is_own = is_own
        self.size: i64 = 0
        self.total: i64 = 0
        self.live: i64 = 0
        self.held: i64 = 0
        self.weight: i64 = 0
        self.held_weight: i64 = 0
        # True once its file was removed.
        self.is_gone = False
        # True if not all of its records could be read for compaction.
        self.is_stuck = False
        # True if it has return records; no other segment repeats them.
        self.has_returns = False
        self.returns: Counts | None = None
        self._settled = Bits()
        # The live slots as a list, if they are few; otherwise None.
        self._live_slots: list[int] | None = None
        # The records of the slots from `_ends[i - 1]` to before `_ends[i]` are in the segment `_places[i]`.
        self._ends: list[int] = []
        self._places: list[Segment] = []

    @property
    def is_needed(self) -> bool:
        """Whether a restart must read its file even if a checkpoint lists the live slots."""
        return not self.is_gone and (self.held > 0 or self.has_returns)

    @property
    def is_listed(self) -> bool:
        return self._live_slots is not None

    def listed(self) -> list[int]:
        """The live slots in ascending order; only if `is_listed`."""
        assert self._live_slots is not None
        return self._live_slots

    def settled_bits(self) -> bytes:
        return self._settled.bits_before(self.total)

    def is_live(self, slot: i64) -> bool:
        left = self._live_slots
        if left is not None:
            i = bisect_left(left, slot)
            return i < len(left) and left[i] == slot
        return not self._settled.has(slot)

    def settle(self, first: i64, end: i64, weight: i64 = -1) -> None:
        """Settle the slots from `first` to before `end`. `weight` is their size in bytes; -1 if unknown."""
        each: i64 = weight // (end - first) if weight >= 0 and end > first else -1
        if not self._ends:
            count = self._mark(first, end)
            self.live -= count
            self.release_records(count, each)
            return
        while first < end:
            i = bisect_right(self._ends, first)
            stop = min(end, self._ends[i])
            count = self._mark(first, stop)
            self.live -= count
            self._places[i].release_records(count, each)
            first = stop
        if self.is_gone:
            self.shrink()

    def release_records(self, count: i64, each: i64) -> None:
        """Remove `count` records from those held, each of `each` bytes; -1 stands for the average size."""
        if count >= self.held:
            self.held_weight = 0
        elif each < 0:
            self.held_weight -= self.held_weight // self.held * count
        else:
            self.held_weight = max(self.held_weight - each * count, 0)
        self.held -= count

    def _mark(self, first: i64, end: i64) -> i64:
        """Mark slots as settled; return how many of them were live."""
        left = self._live_slots
        if left is None:
            return self._settled.add_run(first, end)
        i = bisect_left(left, first)
        j = bisect_left(left, end)
        del left[i:j]
        return j - i

    def shrink(self) -> None:
        """After the file was removed: replace the bitmap by a list of the live slots, if the list is shorter."""
        if self.live == 0 or self._live_slots is not None or self.live * _LISTED_BITS >= self.total:
            return
        left: list[int] = []
        slot: i64 = 0
        while slot < self.total:
            if not self._settled.has(slot):
                left.append(slot)
            slot += 1
        self._live_slots = left
        self._settled = Bits()
        if self.returns is not None:
            self.returns.keep(left)

    # -- records that move --------------------------------------------------------------------------------------

    def add(self, count: i64, weight: i64) -> None:
        """Add the slots of a message record; `weight` is its size in bytes per slot."""
        self.total += count
        self.live += count
        self.held += count
        self.weight += weight * count
        self.held_weight += weight * count

    def add_moved(self, count: i64, weight: i64) -> None:
        """Add `count` records of moved entries. Their homes are elsewhere, so their slots here are no homes."""
        self.weight += weight * count
        self.held_weight += weight * count
        self._settled.add_run(self.total, self.total + count)
        self.total += count
        self.held += count

    def moved(self, slot: i64, source: "Segment", target: "Segment", weight: i64) -> None:
        """Record that the record of a live entry was written again, from `source` to `target`.

        In each segment, the slots of one home are in ascending order. So the slots before this one in `source` were
        moved already, or are settled.
        """
        source.release_records(1, weight)
        ends = self._ends
        places = self._places
        if not ends:
            ends.append(_NO_END)
            places.append(self)
        i: i64 = bisect_right(ends, slot)
        if i > 0 and places[i - 1] is target:
            i -= 1
            ends[i] = slot + 1
        else:
            ends.insert(i, slot + 1)
            places.insert(i, target)
        # Nothing lives in the remains of ranges whose file was removed; merge them, or their number would grow without
        # limit.
        if ends[i + 1] == slot + 1:
            del ends[i + 1]
            del places[i + 1]
        while i + 1 < len(ends) and places[i + 1].is_gone:
            ends[i] = ends[i + 1]
            del ends[i + 1]
            del places[i + 1]
        while i > 0 and places[i - 1].is_gone:
            i -= 1
            del ends[i]
            del places[i]

    # -- start-up -----------------------------------------------------------------------------------------------

    def restore_all_settled(self, total: i64, weight: i64) -> None:
        self.total = total
        self.weight = weight
        self._settled.add_run(0, total)

    def restore_live(self, slot: i64, weight: i64) -> None:
        self._settled.remove(slot)
        self.live += 1
        self.held += 1
        self.held_weight += weight

    def set_returns(self, slot: i64, returns: i64) -> None:
        if self.returns is None:
            self.returns = Counts()
        self.returns.set(slot, returns)


@final
class Occupancy:
    """All segments of the journal, oldest first; the last one is being written."""

    def __init__(self) -> None:
        self.current = Segment(0, True)
        # The segment that compaction empties; None if there is none.
        self.emptying: Segment | None = None
        # Segments with a file, by number.
        self._files: dict[int, Segment] = {}
        # The segments of `_files`, and removed segments that are the home of a live entry.
        self._homes: dict[int, Segment] = {}
        # The segment of the last settlement is cached: settlements come in runs.
        self._recent = self.current
        # The number of batches since the last decision which segment to empty.
        self._batches_since_choice: i64 = 0

    def restore(self, number: i64) -> Segment:
        """Add a segment that recovery reads."""
        return self._add(Segment(number, False))

    def open(self, number: i64) -> Segment:
        """Begin a new segment after all others."""
        if self.emptying is None:
            self._choose()
        return self._add(Segment(number, True))

    def _add(self, segment: Segment) -> Segment:
        self.current = segment
        self._files[segment.number] = segment
        self._homes[segment.number] = segment
        return segment

    def segments(self) -> list[Segment]:
        """The segments with a file, oldest first."""
        return list(self._files.values())

    def homes(self) -> list[Segment]:
        """The segments with a file, and those that are the home of a live entry."""
        return list(self._homes.values())

    def forget(self) -> None:
        """Drop everything that recovery has added."""
        self._files.clear()
        self._homes.clear()

    def home(self, number: i64) -> Segment | None:
        """The segment with this number; None if it is not the home of any live entry."""
        return self._homes.get(number)

    def settle(self, number: i64, first: i64, end: i64, weight: i64 = -1) -> None:
        """Settle the entries whose home is a slot from `first` to before `end` of segment `number`. `weight` is their
        size in bytes; -1 if unknown.
        """
        segment = self._recent
        if segment.number != number:
            found = self._homes.get(number)
            if found is None:
                return
            segment = found
            self._recent = found
        segment.settle(first, end, weight)
        if segment.live == 0 and segment.is_gone:
            self._forget(segment)

    def returned(self, number: i64, slot: i64, returns: i64) -> None:
        home = self._homes.get(number)
        if home is not None:
            home.set_returns(slot, returns)

    def _forget(self, segment: Segment) -> None:
        self._homes.pop(segment.number, None)
        if self._recent is segment:
            self._recent = self.current

    def drop_dead(self) -> int:
        """Drop the oldest segments that hold nothing live; return the newest of them, 0 if there is none. Called for
        each batch.

        Only the oldest segments may be removed: a later segment may hold the settlements of an earlier one.
        """
        dead: list[Segment] = []
        for segment in self._files.values():
            if segment.held > 0 or segment is self.current:
                break
            dead.append(segment)
        if not dead:
            self._batches_since_choice += 1
            # The decision costs time per segment, so it is made only once per that many batches.
            if self.emptying is None and self._batches_since_choice >= len(self._files):
                self._choose()
            return 0
        for segment in dead:
            segment.is_gone = True
            del self._files[segment.number]
            if segment.live == 0:
                self._forget(segment)
            else:
                segment.shrink()
            if segment is self.emptying:
                self.emptying = None
        if self.emptying is None:
            self._choose()
        return dead[-1].number

    def _choose(self) -> None:
        """Decide to empty the oldest segment if too little of the journal is live: no later segment can be removed
        before it.
        """
        self._batches_since_choice = 0
        if len(self._files) < COMPACT_MIN_SEGMENTS:
            return
        size = 0.0
        live_size = 0.0
        for segment in self._files.values():
            size += float(segment.size)
            if segment.weight > 0:
                live_size += float(segment.size) * float(segment.held_weight) / float(segment.weight)
        oldest = next(iter(self._files.values()))
        if live_size * COMPACT_LIVE_DIVISOR < size and not oldest.is_stuck:
            self.emptying = oldest

    def give_up_emptying(self) -> None:
        """Stop emptying a segment that could not be read completely; it stays."""
        if self.emptying is not None:
            self.emptying.is_stuck = True
            self.emptying = None
