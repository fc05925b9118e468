"""Which chunk of which segment is to be written again, and what of it: the event loop's half of compaction.

The sync thread reads a chunk for each batch and verifies it; the event loop stages again what still lives. Neither ever
holds more than a chunk.
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

# How much of a segment one batch looks at, at least: some tenths of a millisecond. Larger batches look at twice as much
# as they write, so that a segment is emptied before another one is full; which takes less than those writes did.
STEP_BYTES: Final = 256 * 1024
# As much is read of what was written since the last time: batches that wait share one sync, and one chunk.
CHUNK_MAX_BYTES: Final = 32 * 1024 * 1024
_READ_FACTOR: Final = 2


@final
class CompactionRequest:
    """The blocks from a position of a segment on that lie in so many bytes, but at least one."""

    def __init__(self, segment: int, position: int, size: int) -> None:
        self.segment = segment
        self.position = position
        self.size = size


@final
class Chunk:
    """Some blocks of a segment, one behind the other."""

    def __init__(self, segment: int, blocks: Blocks, following: int, is_broken: bool) -> None:
        self.segment = segment
        self.blocks = blocks
        # Where in the segment the next chunk begins; 0 when it ends here.
        self.following = following
        # What follows was to be there, and cannot be read.
        self.is_broken = is_broken


@final
class LiveEntries:
    """The entries of one record that still live, and their home."""

    def __init__(self, home: Segment) -> None:
        self.home = home
        self.queue_ids: list[int] = []
        self.seqs: list[int] = []
        self.slots: list[int] = []


@final
class Compaction:
    def __init__(self, occupancy: Occupancy, chunks: deque[Chunk], step_bytes: int) -> None:
        self._occupancy = occupancy
        self._chunks = chunks
        self._step_bytes: i64 = step_bytes
        self._segment: Segment | None = None
        # What is being looked at, which of its blocks is next, and the slot of the first entry there.
        self._chunk: Chunk | None = None
        self._block: i64 = 0
        self._slot: i64 = 0
        # Where the next chunk begins, 0 when there is no other; and what was written since one was asked for.
        self._position: i64 = 0
        self._is_asked = False
        self._written: i64 = 0

    def next_request(self, batch_bytes: i64) -> CompactionRequest | None:
        """What the sync thread is to read next; None when there is nothing. Called at the end of each batch."""
        self._written += batch_bytes
        segment = self._occupancy.emptying
        if segment is None:
            return None
        if segment is not self._segment:
            self._begin(segment)
        if self._is_asked or self._position == 0:
            return None
        size = min(max(self._step_bytes, _READ_FACTOR * self._written), CHUNK_MAX_BYTES)
        self._is_asked = True
        self._written = 0
        return CompactionRequest(segment.number, self._position, size)

    @property
    def has_work(self) -> bool:
        """Whether there is something to do for a batch that would have nothing else."""
        segment = self._occupancy.emptying
        if segment is None:
            return False
        return segment is not self._segment or self._chunk is not None or len(self._chunks) > 0

    def _begin(self, segment: Segment) -> None:
        self._segment = segment
        self._chunk = None
        self._slot = 0
        self._position = HEADER_BYTES
        self._is_asked = False

    def blocks(self, batch_bytes: i64) -> Blocks | None:
        """What a batch of this size is to look at; None when nothing is there yet."""
        chunk = self._next_chunk()
        if chunk is None:
            return None
        blocks = chunk.blocks
        budget = max(self._step_bytes, _READ_FACTOR * batch_bytes)
        first = self._block
        last = first
        while last < len(blocks.starts) and budget > 0:
            budget -= blocks.ends[last] - blocks.starts[last]
            last += 1
        self._block = last
        return Blocks(blocks.data, blocks.offset, blocks.starts[first:last], blocks.ends[first:last])

    def _next_chunk(self) -> Chunk | None:
        segment = self._segment
        if segment is None or segment is not self._occupancy.emptying:
            return None
        while self._chunk is None and self._chunks:
            chunk = self._chunks.popleft()
            # Others are of a segment that is gone by now.
            if chunk.segment == segment.number:
                self._chunk = chunk
                self._block = 0
                self._position = 0 if chunk.is_broken else chunk.following
                self._is_asked = False
        return self._chunk

    def live_entries(self, data: bytes, position: i64) -> LiveEntries | None:
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
        found: LiveEntries | None = None
        i: i64 = 0
        while i < count:
            slot = i64(read_i32_be(data, at + 16)) if has_slots else first + i
            if home.is_live(slot):
                if found is None:
                    found = LiveEntries(home)
                found.queue_ids.append(read_i64_be(data, at))
                found.seqs.append(read_i64_be(data, at + 8))
                found.slots.append(slot)
            at += stride
            i += 1
        return found

    def moved(self, home: Segment, slot: i64, target: Segment, weight: i64) -> None:
        """The survivor with this slot is written again, and weighs this."""
        source = self._segment
        assert source is not None
        home.moved(slot, source, target, weight)

    def finish_blocks(self) -> None:
        """All live_entries of what `blocks` gave have been asked for."""
        chunk = self._chunk
        segment = self._segment
        if chunk is None or segment is None or self._block < len(chunk.blocks.starts):
            return
        self._chunk = None
        if chunk.is_broken or (chunk.following == 0 and segment.held > 0):
            self._occupancy.give_up_emptying()
