"""Which entries live in which segment of the journal: what may be removed, and what must move so that more may be."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.broker.message import Entry

# Moving starts when so many segments are there and less than one part in so many of their bytes is live. Then the
# disk holds at most four times what lives, plus four segments; and as three quarters of what was written since the
# last move is dead, moving adds at most a third to what is written.
COMPACT_MIN_SEGMENTS: Final = 4
COMPACT_LIVE_DIVISOR: Final = 4
# How much of a segment one batch looks at and moves: some tenths of a millisecond.
COMPACT_STEP_ENTRIES: Final = 1_024
COMPACT_STEP_BYTES: Final = 256 * 1024


@final
class SegmentUse:
    """The live entries of a segment, with a gap (None) where one was settled; `slot` is an entry's place here."""

    def __init__(self, number: i64) -> None:
        self.number: i64 = number
        self.size: i64 = 0
        self.total: i64 = 0
        self.live: i64 = 0
        self.entries: list[Entry | None] = []
        self.queue_ids: list[int] = []

    def add(self, queue_id: int, entry: Entry) -> None:
        entry.segment = self.number
        entry.slot = len(self.entries)
        self.entries.append(entry)
        self.queue_ids.append(queue_id)
        self.live += 1

    def restore(self, queue_id: int, entry: Entry) -> None:
        """Put back an entry that recovery found, where it stood among the `total` entries of the segment.

        So the entries of one message stay neighbours, and one record should they move.
        """
        if not self.entries:
            self.entries = [None] * self.total
            self.queue_ids = [0] * self.total
        self.entries[entry.slot] = entry
        self.queue_ids[entry.slot] = queue_id
        self.live += 1

    def remove(self, entry: Entry) -> None:
        self.entries[entry.slot] = None
        self.live -= 1


@final
class Occupancy:
    """All segments, oldest first; the last is being written."""

    def __init__(self) -> None:
        self.current = SegmentUse(0)
        self._uses: dict[int, SegmentUse] = {}
        # The segment removed from last: settlements come in runs.
        self._recent = self.current
        self._emptying: SegmentUse | None = None
        self._position: i64 = 0

    def restore(self, number: i64) -> SegmentUse:
        """Add a segment that recovery reads."""
        self.current = SegmentUse(number)
        self._uses[number] = self.current
        return self.current

    def open(self, number: i64) -> SegmentUse:
        """Begin a segment behind all others."""
        if self._emptying is None:
            self._choose()
        return self.restore(number)

    def use(self, number: i64) -> SegmentUse:
        return self._uses[number]

    def remove(self, entry: Entry) -> None:
        segment = entry.segment
        use = self._recent
        if use.number != segment:
            use = self._uses[segment]
            self._recent = use
        use.remove(entry)

    def remove_run(self, segment: i64, first: i64, length: i64) -> None:
        use = self._uses[segment]
        slot = first
        while slot < first + length:
            use.entries[slot] = None
            slot += 1
        use.live -= length

    def drop_dead(self) -> int:
        """The newest segment that can go, with all before it; 0 if none can.

        Only a prefix may go: a later segment may hold the settlements of an earlier one.
        """
        dead = 0
        for number, use in self._uses.items():
            if use.live > 0 or use is self.current:
                break
            dead = number
        if dead == 0:
            return 0
        for number in [number for number in self._uses if number <= dead]:
            del self._uses[number]
        if self._emptying is not None and self._emptying.number <= dead:
            self._emptying = None
            self._choose()
        return dead

    def _choose(self) -> None:
        """Empty the oldest segment when too little of the whole is live: it holds up all behind it."""
        if len(self._uses) < COMPACT_MIN_SEGMENTS:
            return
        size: i64 = 0
        live_size: i64 = 0
        for use in self._uses.values():
            size += use.size
            if use.total > 0:
                live_size += use.size // use.total * use.live
        if live_size * COMPACT_LIVE_DIVISOR < size:
            self._emptying = next(iter(self._uses.values()))
            self._position = 0

    def next_to_move(self) -> list[tuple[int, Entry]]:
        """Some entries of the segment being emptied, with their queues: the caller writes them again."""
        use = self._emptying
        if use is None:
            return []
        found: list[tuple[int, Entry]] = []
        size: i64 = 0
        end = min(self._position + COMPACT_STEP_ENTRIES, i64(len(use.entries)))
        while self._position < end and size < COMPACT_STEP_BYTES:
            entry = use.entries[self._position]
            if entry is not None:
                found.append((use.queue_ids[self._position], entry))
                size += len(entry.message.body)
            self._position += 1
        return found
