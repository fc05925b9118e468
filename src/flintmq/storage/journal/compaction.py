"""Compaction, the event loop's half: it decides which chunk of which segment is to be written again, and what of it.

The sync thread reads and verifies one chunk per batch; the event loop stages its live entries again. Neither ever holds
more than a chunk.
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

# A batch examines at least this much of a segment, which takes some tenths of a millisecond. A larger batch examines
# twice as much as it writes, so that a segment is emptied before the next one is full. That takes less time than the
# writes did.
STEP_BYTES: Final = 256 * 1024
# The maximum size of a chunk. A chunk grows with the bytes that were written since the last one: batches that wait
# share one sync and one chunk.
CHUNK_MAX_BYTES: Final = 32 * 1024 * 1024
_READ_FACTOR: Final = 2


@final
class CompactionRequest:
    """A request to read the blocks of a segment from `position` on that fit into `size` bytes, but at least one."""

    def __init__(self, segment: int, position: int, size: int) -> None:
        self.segment = segment
        self.position = position
        self.size = size


@final
class Chunk:
    """Consecutive blocks of a segment."""

    def __init__(self, segment: int, blocks: Blocks, following: int, is_broken: bool) -> None:
        self.segment = segment
        self.blocks = blocks
        # The position of the next chunk in the segment; 0 at the end of the segment.
        self.following = following
        # True if the block at `following` cannot be read.
        self.is_broken = is_broken


@final
class LiveEntries:
    """The live entries of one record, and their home segment."""

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
        # The current chunk, the index of its next block, and the slot of the first entry there.
        self._chunk: Chunk | None = None
        self._block: i64 = 0
        self._slot: i64 = 0
        # The position of the next chunk (0 if there is none), and the bytes that were written since one was requested.
        self._position: i64 = 0
        self._is_asked = False
        self._written: i64 = 0

    def next_request(self, batch_bytes: i64) -> CompactionRequest | None:
        """The next read for the sync thread; None if there is nothing to read. Called at the end of each batch."""
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
        """Whether compaction has work for a batch that would otherwise be empty."""
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
        """The blocks that a batch of this size has to examine; None if no chunk has been read yet."""
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
            # Chunks of another segment are dropped: that segment has been removed.
            if chunk.segment == segment.number:
                self._chunk = chunk
                self._block = 0
                self._position = 0 if chunk.is_broken else chunk.following
                self._is_asked = False
        return self._chunk

    def live_entries(self, data: bytes, position: i64) -> LiveEntries | None:
        """The live entries of the message record at `position`, or None. Called for each record, in order."""
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
        """Record that the live entry with this slot was written again, as a record of `weight` bytes."""
        source = self._segment
        assert source is not None
        home.moved(slot, source, target, weight)

    def finish_blocks(self) -> None:
        """End the examination of the blocks that `blocks` returned."""
        chunk = self._chunk
        segment = self._segment
        if chunk is None or segment is None or self._block < len(chunk.blocks.starts):
            return
        self._chunk = None
        if chunk.is_broken or (chunk.following == 0 and segment.held > 0):
            self._occupancy.give_up_emptying()
