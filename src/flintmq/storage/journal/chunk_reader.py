"""Reads a segment again, one chunk at a time: for compaction, on the sync thread."""

from typing import final

from flintmq.storage.block import BLOCK_HEAD_BYTES, TYPE_JOURNAL, TYPE_SEAL, block_end
from flintmq.storage.files import DiskFile
from flintmq.storage.journal.compaction import Chunk
from flintmq.storage.journal.source import Blocks


@final
class ChunkReader:
    """Reads the blocks of a segment. `gaps` maps the start of each part that recovery skipped to its end: slots are
    counted without them.
    """

    def __init__(self, number: int, file: DiskFile, magic: bytes, gaps: dict[int, int]) -> None:
        self.number = number
        self._file = file
        self._magic = magic
        self._gaps = gaps

    def read(self, position: int, size: int) -> Chunk:
        """Read the blocks from `position` on that fit into `size` bytes, but at least one block."""
        data = self._file.read_at(position, size)
        starts: list[int] = []
        ends: list[int] = []
        at = 0
        while True:
            gap_end = self._gaps.get(position + at)
            if gap_end is not None:
                at = gap_end - position
                continue
            end = block_end(data, at, self._magic)
            if not end:
                if starts:
                    # The next chunk begins with the block that is incomplete here, or broken.
                    return self._chunk(position, data, starts, ends, position + at)
                position += at
                at = 0
                data = self._read_block(position, size)
                end = block_end(data, 0, self._magic)
                if not end:
                    following = 0 if position >= self._file.size() else position
                    return Chunk(self.number, Blocks(data, position, [], []), following, following > 0)
            if data[at + 12] == TYPE_SEAL:
                return self._chunk(position, data, starts, ends, 0)
            if data[at + 12] == TYPE_JOURNAL:
                starts.append(at + BLOCK_HEAD_BYTES)
                ends.append(end)
            at = end

    def _chunk(self, position: int, data: bytes, starts: list[int], ends: list[int], following: int) -> Chunk:
        return Chunk(self.number, Blocks(data, position, starts, ends), following, False)

    def _read_block(self, position: int, size: int) -> bytes:
        """Read `size` bytes from `position` on, or more if the block there is longer."""
        head = self._file.read_at(position, BLOCK_HEAD_BYTES)
        return self._file.read_at(position, max(size, BLOCK_HEAD_BYTES + int.from_bytes(head[4:8], "big")))

    def read_block(self, start: int, end: int) -> bytes | None:
        """Read the payload from `start` to before `end` of one block; None if the block has changed."""
        data = self._file.read_at(start - BLOCK_HEAD_BYTES, end - start + BLOCK_HEAD_BYTES)
        return data[BLOCK_HEAD_BYTES:] if block_end(data, 0, self._magic) == len(data) else None

    def close(self) -> None:
        self._file.close()
