"""Order of a queue whose messages are not in queue order in the journal, because compaction moved some of them.

Such messages are read once more, in queue order. They are dealt out to runs with ascending sequence numbers. There are
few runs, because compaction moves messages in order, too. Memory holds the sequence number of each message, and the
position of each block.
"""

import heapq
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i64_be
from mypy_extensions import i32, i64

from flintmq.base.errors import StorageError
from flintmq.broker.message import ContentCodec, Entry
from flintmq.storage.content import ContentReader
from flintmq.storage.journal.occupancy import Occupancy, Segment
from flintmq.storage.journal.records import (
    ENTRIES_AT,
    ENTRY_BYTES,
    MOVED_ENTRY_BYTES,
    RECORD_MESSAGE,
    RECORD_MOVED,
    content_position,
    record_end,
)
from flintmq.storage.journal.source import BlockSource

# The fields of a block: segment, begin and end of the payload, slot of its first entry, number of its messages in the
# run.
_BLOCK_FIELDS: Final = 5


@final
class Run:
    def __init__(self) -> None:
        self.seqs = BytesWriter()
        self._blocks = BytesWriter()
        self._segment: i64 = 0
        self._start: i64 = 0
        self._end: i64 = 0
        self._first_slot: i64 = 0
        self._count: i64 = 0

    def add(self, seq: i64, segment: i64, start: i64, end: i64, first_slot: i64) -> None:
        if start != self._start or segment != self._segment:
            self._end_block()
            self._segment = segment
            self._start = start
            self._end = end
            self._first_slot = first_slot
        self._count += 1
        write_i64_be(self.seqs, seq)

    def _end_block(self) -> None:
        if self._count > 0:
            write_i64_be(self._blocks, self._segment)
            write_i64_be(self._blocks, self._start)
            write_i64_be(self._blocks, self._end)
            write_i64_be(self._blocks, self._first_slot)
            write_i64_be(self._blocks, self._count)
        self._count = 0

    def blocks(self) -> bytes:
        self._end_block()
        return self._blocks.getvalue()


@final
class Runs:
    """The live entries of one queue, in the order of the journal."""

    def __init__(self, queue_id: i64) -> None:
        self._queue_id: i64 = queue_id
        self._runs: list[Run] = []
        # The last sequence number of each run, in ascending order.
        self._lasts: list[int] = []

    def add(self, seq: i64, segment: i64, start: i64, end: i64, first_slot: i64) -> None:
        """Add a message with its block. It is appended to the run whose last sequence number is the closest below its
        own.
        """
        i = bisect_left(self._lasts, seq) - 1
        if i < 0:
            i = 0
            self._runs.insert(0, Run())
            self._lasts.insert(0, seq)
        self._lasts[i] = seq
        self._runs[i].add(seq, segment, start, end, first_slot)

    def entries(
        self, source: BlockSource, occupancy: Occupancy, codecs: dict[int, ContentCodec]
    ) -> Iterator[tuple[int, Entry]]:
        """The entries in the order of their sequence numbers, each with its number."""
        runs = [self._read(run, source, occupancy, ContentReader(codecs)) for run in self._runs]
        self._runs = []
        return heapq.merge(*runs)

    def _read(
        self, run: Run, source: BlockSource, occupancy: Occupancy, content: ContentReader
    ) -> Iterator[tuple[int, Entry]]:
        seqs = run.seqs.getvalue()
        blocks = run.blocks()
        at: i64 = 0
        first: i64 = 0
        while at < len(blocks):
            segment = read_i64_be(blocks, at)
            data = source.load_block(segment, read_i64_be(blocks, at + 8), read_i64_be(blocks, at + 16))
            last = first + 8 * read_i64_be(blocks, at + 32)
            home = occupancy.home(segment)
            assert home is not None
            found = self._read_block(data, seqs[first:last], home, read_i64_be(blocks, at + 24), content)
            if len(found) < (last - first) // 8:
                raise StorageError(f"segment {segment} of the journal changed while it was read: check the disk")
            for slot, entry in found:
                entry.segment = segment
                entry.slot = slot
                if home.returns is not None:
                    entry.returns = i32(home.returns.get(entry.slot))
                yield entry.seq, entry
            first = last
            at += 8 * _BLOCK_FIELDS

    def _read_block(
        self, data: bytes, seqs: bytes, home: Segment, first_slot: i64, content: ContentReader
    ) -> list[tuple[int, Entry]]:
        """The live entries of a block with these sequence numbers, and their slots."""
        found: list[tuple[int, Entry]] = []
        position: i64 = 0
        slot = first_slot
        wanted: i64 = 0
        while wanted < len(seqs) and position < len(data):
            record = data[position]
            if record == RECORD_MESSAGE or record == RECORD_MOVED:
                stride: i64 = ENTRY_BYTES if record == RECORD_MESSAGE else MOVED_ENTRY_BYTES
                at = position + ENTRIES_AT
                end = at + stride * i64(read_i32_be(data, position + 1))
                while at < end:
                    if (
                        wanted < len(seqs)
                        and read_i64_be(data, at) == self._queue_id
                        and read_i64_be(data, at + 8) == read_i64_be(seqs, wanted)
                        # A replaced message and its replacement may be in one block; only one of them is live.
                        and home.is_live(slot)
                    ):
                        entry = Entry(content.read(data, content_position(data, position)), read_i64_be(seqs, wanted))
                        found.append((slot, entry))
                        wanted += 8
                    slot += 1
                    at += stride
            position = record_end(data, position)
        return found
