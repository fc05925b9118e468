"""Which piece of which segment is to be written again, and what of it: the event loop's half of compaction.

The sync thread reads a piece for each batch and verifies it; the event loop stages again what still lives. Neither ever
holds more than a piece.
"""

from collections import deque
from typing import Final, final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from flintmq.storage.block import HEADER_BYTES
from flintmq.storage.journal.occupancy import Occupancy, Segment
from flintmq.storage.journal.records import (
    ENTRIES_AT,
    ENTRY_BYTES,
    MOVED_ENTRY_BYTES,
    RECORD_MOVED,
)
from flintmq.storage.journal.source import Blocks

# How much of a segment one batch looks at: some tenths of a millisecond.
PIECE_BYTES: Final = 256 * 1024


@final
class Piece:
    """Some blocks of a segment, one behind the other."""

    def __init__(self, segment: int, blocks: Blocks, following: int, is_broken: bool) -> None:
        self.segment = segment
        self.blocks = blocks
        # Where in the segment the next piece begins; 0 when it ends here.
        self.following = following
        # What follows was to be there, and cannot be read.
        self.is_broken = is_broken


@final
class Survivors:
    """The entries of one record that still live, and their home."""

    def __init__(self, home: Segment) -> None:
        self.home = home
        self.queue_ids: list[int] = []
        self.seqs: list[int] = []
        self.slots: list[int] = []


@final
class Compaction:
    def __init__(self, occupancy: Occupancy, pieces: deque[Piece]) -> None:
        self._occupancy = occupancy
        self._pieces = pieces
        self._segment: Segment | None = None
        # Where the next piece begins, and the slot of its first entry.
        self._position: i64 = 0
        self._slot: i64 = 0
        self._is_asked = False

    def wanted(self) -> tuple[int, int] | None:
        """The segment and position of the piece that the sync thread is to read next; None when there is no such."""
        segment = self._occupancy.emptying
        if segment is None:
            return None
        if segment is not self._segment:
            self._segment = segment
            self._position = HEADER_BYTES
            self._slot = 0
        elif self._is_asked:
            return None
        self._is_asked = True
        return segment.number, self._position

    def next_piece(self) -> Piece | None:
        """What was read since the last time."""
        while self._pieces:
            piece = self._pieces.popleft()
            segment = self._segment
            if segment is not None and segment is self._occupancy.emptying and piece.segment == segment.number:
                self._is_asked = False
                return piece
        return None

    def survivors(self, data: bytes, position: i64) -> Survivors | None:
        """Of the message record at `position`; None when nothing of it lives. Called for each one, in order."""
        segment = self._segment
        assert segment is not None
        count = i64(read_i32_be(data, position + 1))
        first = self._slot
        self._slot = first + count
        at = position + ENTRIES_AT
        stride: i64 = ENTRY_BYTES
        home: Segment | None = segment
        has_slots = False
        if data[position] == RECORD_MOVED:
            stride = MOVED_ENTRY_BYTES
            if segment.is_own:
                has_slots = True
                home = self._occupancy.home(read_i64_be(data, at + stride * count))
        if home is None:
            return None
        found: Survivors | None = None
        i: i64 = 0
        while i < count:
            slot = i64(read_i32_be(data, at + 16)) if has_slots else first + i
            if home.is_live(slot):
                if found is None:
                    found = Survivors(home)
                found.queue_ids.append(read_i64_be(data, at))
                found.seqs.append(read_i64_be(data, at + 8))
                found.slots.append(slot)
            at += stride
            i += 1
        return found

    def moved(self, home: Segment, slot: i64, target: Segment) -> None:
        """The survivor with this slot is written again."""
        source = self._segment
        assert source is not None
        home.moved(slot, source, target)

    def done(self, piece: Piece) -> None:
        """All of a piece has been looked at."""
        self._position = piece.following
        segment = self._segment
        if piece.is_broken or (piece.following == 0 and segment is not None and segment.held > 0):
            self._occupancy.give_up_emptying()
