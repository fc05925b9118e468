"""Which slots of each segment hold something live: what may be removed, and what must move so that more may be.

A slot is one entry of one message record, counted from 0 in each segment. An entry is known by the segment and the
slot it had when the broker started, or first, if that was later: its home. Entries may be packed away where nobody can
change them, so this stays true when compaction writes the entry again elsewhere. The settled bit is the home's; where
the record is meanwhile is known for ranges of slots, and only to count what every file still holds.
"""

from bisect import bisect_left, bisect_right
from typing import Final, final

from mypy_extensions import i64

from flintmq.storage.journal.bits import Bits, Counts

# Moving starts when so many segments are there and less than one part in so many of their bytes is live. Then the
# disk holds at most four times what lives, plus four segments; and as three quarters of what was written since the
# last move is dead, moving adds at most a third to what is written.
COMPACT_MIN_SEGMENTS: Final = 4
COMPACT_LIVE_DIVISOR: Final = 4

# A list of the slots that live takes so many times the bits of a bitmap for each: it is made where it is shorter.
_LISTED_BITS: Final = 64 * 8
_NO_END: Final = 1 << 62


@final
class Segment:
    """`live` counts its slots that are not settled, wherever their records are; `held` the records in its file that
    are those of live slots, wherever these are at home.

    `weight` is about how many bytes the messages of all its slots have, `held_weight` those of the records held. A
    message weighs once for each of its slots, so only what part the one is of the other says something.
    """

    def __init__(self, number: i64, is_own: bool) -> None:
        self.number: i64 = number
        # Whether it was begun since the broker started: homes that its records speak of are those of now.
        self.is_own = is_own
        self.size: i64 = 0
        self.total: i64 = 0
        self.live: i64 = 0
        self.held: i64 = 0
        self.weight: i64 = 0
        self.held_weight: i64 = 0
        # Its file was removed.
        self.is_gone = False
        # Not all of its records could be read when they were to be moved.
        self.is_stuck = False
        # Messages of any segment came back by what it says: nothing else has that.
        self.has_returns = False
        self.returns: Counts | None = None
        self._settled = Bits()
        # The slots that are not settled, where they are few.
        self._live_slots: list[int] | None = None
        # The slots before `_ends[i]`, and not before the end that precedes it, have their records in `_places[i]`.
        self._ends: list[int] = []
        self._places: list[Segment] = []

    @property
    def is_needed(self) -> bool:
        """Whether its file has what a restart must read, told by a checkpoint what lives."""
        return not self.is_gone and (self.held > 0 or self.has_returns)

    @property
    def is_listed(self) -> bool:
        return self._live_slots is not None

    def listed(self) -> list[int]:
        """The slots that live."""
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
        """The slots from `first` to before `end` are settled. They weigh this; -1 where it is not known."""
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
        """So many of the records held live no more, each of this weight; of the average one where it is -1."""
        if count >= self.held:
            self.held_weight = 0
        elif each < 0:
            self.held_weight -= self.held_weight // self.held * count
        else:
            self.held_weight = max(self.held_weight - each * count, 0)
        self.held -= count

    def _mark(self, first: i64, end: i64) -> i64:
        """Returns how many were live until now."""
        left = self._live_slots
        if left is None:
            return self._settled.add_run(first, end)
        i = bisect_left(left, first)
        j = bisect_left(left, end)
        del left[i:j]
        return j - i

    def shrink(self) -> None:
        """The file is gone: keep a list of the slots that live, if that is shorter than the bits."""
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
        """The next slots are those of a message, which weighs so much for each."""
        self.total += count
        self.live += count
        self.held += count
        self.weight += weight * count
        self.held_weight += weight * count

    def add_moved(self, count: i64, weight: i64) -> None:
        """So many records of entries with homes elsewhere are written here. Their slots are nobody's home."""
        self.weight += weight * count
        self.held_weight += weight * count
        self._settled.add_run(self.total, self.total + count)
        self.total += count
        self.held += count

    def moved(self, slot: i64, source: "Segment", target: "Segment", weight: i64) -> None:
        """The record of a live entry was written again.

        In each segment, the slots of one home stand in their order: those before this one in `source` have moved
        already, or are settled.
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
        # Nothing lives in what is left of ranges whose file is gone: without this they would become more and more.
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
    """All segments, oldest first; the last is being written."""

    def __init__(self) -> None:
        self.current = Segment(0, True)
        # What compaction is to write again.
        self.emptying: Segment | None = None
        # Those that have a file.
        self._files: dict[int, Segment] = {}
        # These, and those where a live entry is at home.
        self._homes: dict[int, Segment] = {}
        # The one settled in last: settlements come in runs.
        self._recent = self.current
        # Batches since all segments were last looked at.
        self._batches_since_choice: i64 = 0

    def restore(self, number: i64) -> Segment:
        """Add a segment that recovery reads."""
        return self._add(Segment(number, False))

    def open(self, number: i64) -> Segment:
        """Begin a segment behind all others."""
        if self.emptying is None:
            self._choose()
        return self._add(Segment(number, True))

    def _add(self, segment: Segment) -> Segment:
        self.current = segment
        self._files[segment.number] = segment
        self._homes[segment.number] = segment
        return segment

    def segments(self) -> list[Segment]:
        """Those that have a file."""
        return list(self._files.values())

    def homes(self) -> list[Segment]:
        """Those that have a file, or where a live entry is at home."""
        return list(self._homes.values())

    def forget(self) -> None:
        """What recovery has put here."""
        self._files.clear()
        self._homes.clear()

    def home(self, number: i64) -> Segment | None:
        """None where nothing is at home that lives."""
        return self._homes.get(number)

    def settle(self, number: i64, first: i64, end: i64, weight: i64 = -1) -> None:
        """Entries at home in this segment, from slot `first` to before `end`, have left their queues. They weigh this;
        -1 where it is not known.
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
        """The newest segment that can go, with all before it; 0 if none can. Called for each batch.

        Only a prefix may go: a later segment may hold the settlements of an earlier one.
        """
        dead: list[Segment] = []
        for segment in self._files.values():
            if segment.held > 0 or segment is self.current:
                break
            dead.append(segment)
        if not dead:
            self._batches_since_choice += 1
            # So that it costs each batch no more than a look at one of them.
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
        """Empty the oldest segment when too little of the whole is live: it holds up all behind it."""
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
        """Not all of the segment could be read: it stays."""
        if self.emptying is not None:
            self.emptying.is_stuck = True
            self.emptying = None
