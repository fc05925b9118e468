"""Where the blocks of a segment are, by offset and by time; and the file that says so of a sealed segment.

The file `<first offset>.index` has a header like a segment's, with the block magic of the segment it speaks of, and
then: where the blocks end i64, the offset behind the last record i64, the highest receive time up to there i64 (Unix
ms), the number of steps u32, and of each step the offset i64 and the position i64 of its first block, and the highest
receive time before that i64; at last the CRC-32 of all behind the header. It can always be made again from the segment.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import Final, final

from isal.isal_zlib import crc32

from flintmq.storage.block import HEADER_BYTES, KIND_STREAM_INDEX, FileHeader, decode_header, encode_header

# One step (24 bytes) for so many bytes of records: a reader that begins anywhere passes over half of that on average.
INDEX_STEP_BYTES: Final = 65_536

_ENDS: Final = Struct(">qqqI")
_CRC: Final = Struct(">I")
# Where the fields end that say how far a segment goes.
ENDS_END: Final = HEADER_BYTES + _ENDS.size


@final
class SegmentIndex:
    """Steps of one segment; of the last segment they grow while others read them.

    `next_offset` and `highest` are what is known at the end: the offset behind the last record, and the highest receive
    time of all records up to there, those of earlier segments included.
    """

    def __init__(self, magic: bytes, first_offset: int, highest_before: int, steps: "array[int] | None" = None) -> None:
        self.magic = magic
        self.first_offset = first_offset
        self.highest_before = highest_before
        self.end = HEADER_BYTES
        self.next_offset = first_offset
        self.highest = highest_before
        # Of every block that begins a step: its offset, its position, and the highest receive time before it.
        steps = array("q") if steps is None else steps
        self._offsets = steps[0::3]
        self._positions = steps[1::3]
        self._highest = steps[2::3]

    def add(self, position: int, first_offset: int, highest_before: int) -> None:
        """Blocks come in order; those within a step are not noted."""
        if not self._positions or position - self._positions[-1] >= INDEX_STEP_BYTES:
            self._positions.append(position)
            self._highest.append(highest_before)
            # Last: readers look up offsets first.
            self._offsets.append(first_offset)

    def position_of(self, offset: int) -> int:
        """Where to start reading for this offset."""
        step = bisect_right(self._offsets, offset) - 1
        return self._positions[step] if step >= 0 else HEADER_BYTES

    def offset_of(self, position: int) -> int:
        """The first offset of the step that begins at this position, or next behind it; of none, what comes behind."""
        step = bisect_left(self._positions, position, hi=len(self._offsets))
        return self._offsets[step] if step < len(self._offsets) else self.next_offset

    def search(self, timestamp_ms: int) -> int:
        """An offset not behind the first record received at or after this time, and a step before it at most."""
        step = bisect_right(self._highest, timestamp_ms - 1, hi=len(self._offsets)) - 1
        return self._offsets[step] if step >= 0 else self.first_offset

    def encode(self) -> bytes:
        header = encode_header(FileHeader(KIND_STREAM_INDEX, self.first_offset, self.highest_before, self.magic))
        steps = array("q")
        for step in zip(self._offsets, self._positions, self._highest, strict=True):
            steps.extend(step)
        _to_big_endian(steps)
        payload = _ENDS.pack(self.end, self.next_offset, self.highest, len(self._offsets)) + steps.tobytes()
        return header + payload + _CRC.pack(crc32(payload))


def decode_index(data: bytes, file: str) -> SegmentIndex | None:
    """None for what is damaged, or not whole. Raises StorageError for a format not ours."""
    header = decode_header(data[:HEADER_BYTES], file)
    payload = data[HEADER_BYTES:-4]
    if header is None or header.kind != KIND_STREAM_INDEX or len(payload) < _ENDS.size:
        return None
    if _CRC.pack(crc32(payload)) != data[-4:]:
        return None
    steps = array("q")
    steps.frombytes(payload[_ENDS.size :])
    _to_big_endian(steps)
    index = SegmentIndex(header.block_magic, header.number, header.extra, steps)
    index.end, index.next_offset, index.highest, _ = _ENDS.unpack_from(payload)
    return index


def stored_end(data: bytes) -> int:
    """The offset behind the last record by the first bytes of an index, which nothing verifies; -1 for too few."""
    if len(data) < ENDS_END:
        return -1
    _, next_offset, _, _ = _ENDS.unpack_from(data, HEADER_BYTES)
    return int(next_offset)


def missing_records(first: int, end: int) -> str:
    """Why a segment that is missing is damage."""
    return f"the segment is missing, with {end - first} records from offset {first} on"


def _to_big_endian(numbers: "array[int]") -> None:
    """From the machine's order, or back."""
    if sys.byteorder == "little":
        numbers.byteswap()
