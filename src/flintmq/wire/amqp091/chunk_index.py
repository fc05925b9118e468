"""The positions of all fields in a chunk, for readers that build columns instead of an object per record."""

from typing import Final, final

from librt.strings import BytesWriter, read_i64_be, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from flintmq.base.errors import SyntaxFault
from flintmq.wire.amqp091.chunk import RUN_BYTES, length_at, parts_at

# Positions per record: the start and end of exchange, routing key, properties and body.
BOUNDS: Final = 8
MICROSECONDS: Final = 1_000


@final
class ChunkIndex:
    """Columns of `count` records, little endian.

    `offsets` and `timestamps_us` are int64, `flags` octets, `bounds` int32. `bounds` are positions in the chunk and
    never descend: the bytes between position i and position i + 1 are, for i modulo BOUNDS, 0 the exchange, 2 the
    routing key, 4 the properties, 6 the body, and lengths in between.
    """

    def __init__(self, count: int, offsets: bytes, timestamps_us: bytes, flags: bytes, bounds: bytes) -> None:
        self.count = count
        self.offsets = offsets
        self.timestamps_us = timestamps_us
        self.flags = flags
        self.bounds = bounds


def index_chunk(data: bytes) -> ChunkIndex:
    """Return the index of a whole chunk (see chunk.py). Raises SyntaxFault if the chunk ends within a record."""
    offsets = BytesWriter()
    timestamps = BytesWriter()
    flags = BytesWriter()
    bounds = BytesWriter()
    count: i64 = 0
    pos: i64 = 0
    end: i64 = len(data)
    while pos < end:
        if end - pos < RUN_BYTES:
            raise SyntaxFault("stream chunk ends within a run")
        offset: i64 = read_i64_be(data, pos)
        left: i64 = length_at(data, pos + 8)
        pos += RUN_BYTES
        count += left
        while left > 0:
            key_at, properties_at, body_at, stop = parts_at(data, pos, end)
            write_i64_le(offsets, offset)
            write_i64_le(timestamps, read_i64_be(data, pos + 2) * MICROSECONDS)
            flags.append(data[pos + 1])
            write_i32_le(bounds, i32(pos + 12))
            write_i32_le(bounds, i32(key_at))
            write_i32_le(bounds, i32(key_at + 2))
            write_i32_le(bounds, i32(properties_at))
            write_i32_le(bounds, i32(properties_at + 4))
            write_i32_le(bounds, i32(body_at))
            write_i32_le(bounds, i32(body_at + 4))
            write_i32_le(bounds, i32(stop))
            pos = stop
            offset += 1
            left -= 1
    return ChunkIndex(count, offsets.getvalue(), timestamps.getvalue(), flags.getvalue(), bounds.getvalue())
