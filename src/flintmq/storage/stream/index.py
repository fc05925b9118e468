"""Index of a segment: positions of blocks by offset and by time; and the index file of a sealed segment.

The file `<first offset>.index` has a header like a segment's, with the block magic of its segment. Then follow: the end
of the blocks i64, the offset after the last record i64, the highest receive time i64 (Unix ms), the number of steps
u32, and for each step the offset i64 and the position i64 of its first block, and the highest receive time before it
i64; last, the CRC-32 of everything after the header. The file can always be created again from the segment.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import Final, final

from isal.isal_zlib import crc32

from flintmq.storage.block import HEADER_BYTES, KIND_STREAM_INDEX, FileHeader, decode_header, encode_header

# The index has one step (24 bytes) for this many bytes of records: a reader that begins anywhere skips half of that on
# average.
INDEX_STEP_BYTES: Final = 65_536

_ENDS: Final = Struct(">qqqI")
_CRC: Final = Struct(">I")
# The end of the fields that describe the end of a segment.
ENDS_END: Final = HEADER_BYTES + _ENDS.size


@final
class SegmentIndex:
    """The index of one segment. The index of the last segment grows while others read it.

    `end` is the position after the last block, `next_offset` the offset after the last record, and `highest` the
    highest receive time of all records up to there, including earlier segments (Unix ms).
    """

    def __init__(self, magic: bytes, first_offset: int, highest_before: int, steps: "array[int] | None" = None) -> None:
        self.magic = magic
        self.first_offset = first_offset
        self.highest_before = highest_before
        self.end = HEADER_BYTES
        self.next_offset = first_offset
        self.highest = highest_before
        # For each step: the offset and the position of its first block, and the highest receive time before it.
        steps = array("q") if steps is None else steps
        self._offsets = steps[0::3]
        self._positions = steps[1::3]
        self._highest = steps[2::3]

    def add(self, position: int, first_offset: int, highest_before: int) -> None:
        """Add the next block; it is stored only if it begins a step."""
        if not self._positions or position - self._positions[-1] >= INDEX_STEP_BYTES:
            self._positions.append(position)
            self._highest.append(highest_before)
            # The offset is added last, because readers look up offsets first.
            self._offsets.append(first_offset)

    def position_of(self, offset: int) -> int:
        """The position from which to read for this offset."""
        step = bisect_right(self._offsets, offset) - 1
        return self._positions[step] if step >= 0 else HEADER_BYTES

    def offset_of(self, position: int) -> int:
        """The first offset of the step at or after this position, or the offset after the last record."""
        step = bisect_left(self._positions, position, hi=len(self._offsets))
        return self._offsets[step] if step < len(self._offsets) else self.next_offset

    def search(self, timestamp_ms: int) -> int:
        """An offset at most one step before the first record that was received at or after this time, and not after
        it.
        """
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
    """Decode an index file; None if it is damaged or incomplete. Raises StorageError for an unknown format version."""
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
    """The offset after the last record according to the first bytes of an index file, unverified; -1 if there are too
    few.
    """
    if len(data) < ENDS_END:
        return -1
    _, next_offset, _, _ = _ENDS.unpack_from(data, HEADER_BYTES)
    return int(next_offset)


def missing_records(first: int, end: int) -> str:
    """The description of the damage for a missing segment with the offsets from `first` to before `end`."""
    return f"the segment is missing, with {end - first} records from offset {first} on"


def _to_big_endian(numbers: "array[int]") -> None:
    """Convert numbers in place from the machine's byte order to big-endian, or back."""
    if sys.byteorder == "little":
        numbers.byteswap()
