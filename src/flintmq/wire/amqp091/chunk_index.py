"""Where the fields of a chunk's records are, for readers that want columns instead of an object per record."""

from typing import Final, final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from flintmq.base.errors import SyntaxFault

# Positions kept for a record: where exchange, routing key, properties and body start and end.
BOUNDS: Final = 8
# The bytes of a record whose strings, properties and body are all empty.
RECORD_MIN_BYTES: Final = 27
MICROSECONDS: Final = 1_000


@final
class ChunkIndex:
    """Columns of `count` records, little endian: `offsets` and `timestamps_us` (int64), `flags` (octets),
    `bounds` (int32).

    `bounds` are positions in the chunk and never descend: the bytes between position i and position i + 1 are, for
    i modulo BOUNDS, 0 the exchange, 2 the routing key, 4 the properties, 6 the body, and lengths in between.
    """

    def __init__(self, count: int, offsets: bytes, timestamps_us: bytes, flags: bytes, bounds: bytes) -> None:
        self.count = count
        self.offsets = offsets
        self.timestamps_us = timestamps_us
        self.flags = flags
        self.bounds = bounds


def index_chunk(data: bytes) -> ChunkIndex:
    """The index of a whole chunk (see chunk.py); raises SyntaxFault when it ends within a record."""
    offsets = BytesWriter()
    timestamps = BytesWriter()
    flags = BytesWriter()
    bounds = BytesWriter()
    count: i64 = 0
    pos: i64 = 0
    end: i64 = len(data)
    while pos < end:
        if end - pos < RECORD_MIN_BYTES:
            raise SyntaxFault("stream chunk ends within a record")
        write_i64_le(offsets, read_i64_be(data, pos))
        write_i64_le(timestamps, read_i64_be(data, pos + 8) * MICROSECONDS)
        flags.append(data[pos + 16])
        exchange: i64 = pos + 18
        exchange_end: i64 = exchange + data[pos + 17]
        # Behind the exchange: a length octet for the routing key and two lengths of four bytes.
        if end - exchange_end < 9:
            raise SyntaxFault("stream chunk ends within a record")
        key_end: i64 = exchange_end + 1 + data[exchange_end]
        if end - key_end < 8:
            raise SyntaxFault("stream chunk ends within a record")
        properties_end: i64 = key_end + 4 + (i64(read_i32_be(data, key_end)) & 0xFFFF_FFFF)
        if end - properties_end < 4:
            raise SyntaxFault("stream chunk ends within a record")
        pos = properties_end + 4 + (i64(read_i32_be(data, properties_end)) & 0xFFFF_FFFF)
        if pos > end:
            raise SyntaxFault("stream chunk ends within a record")
        write_i32_le(bounds, i32(exchange))
        write_i32_le(bounds, i32(exchange_end))
        write_i32_le(bounds, i32(exchange_end + 1))
        write_i32_le(bounds, i32(key_end))
        write_i32_le(bounds, i32(key_end + 4))
        write_i32_le(bounds, i32(properties_end))
        write_i32_le(bounds, i32(properties_end + 4))
        write_i32_le(bounds, i32(pos))
        count += 1
    return ChunkIndex(count, offsets.getvalue(), timestamps.getvalue(), flags.getvalue(), bounds.getvalue())
