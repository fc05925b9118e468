"""Records of a stream, or of a lease, packed as the body of stream.fetch-ok and lease.fetch-ok.

One record: offset (int64), timestamp in ms (int64), flags (octet), exchange and routing key (short strings), length and
bytes of the properties, length and bytes of the body (uint32 each). Big endian, nothing between records.
"""

from dataclasses import dataclass
from typing import Final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64, u8

from flintmq.base.errors import SyntaxFault
from flintmq.wire.amqp091.tables import pull_shortstr

# A flag of a record: somebody may have had the message before.
REDELIVERED: Final = 1


@dataclass
class ChunkRecord:
    offset: int
    timestamp_ms: int
    exchange: str
    routing_key: str
    properties: bytes
    body: bytes
    redelivered: bool = False


def push_record(
    w: BytesWriter, offset: i64, timestamp_ms: i64, flags: i64, address: bytes, properties: bytes, body: bytes
) -> None:
    """`address` is the exchange and the routing key, encoded already."""
    write_i64_be(w, offset)
    write_i64_be(w, timestamp_ms)
    w.append(u8(flags))
    w.write(address)
    write_i32_be(w, i32(len(properties)))
    w.write(properties)
    write_i32_be(w, i32(len(body)))
    w.write(body)


def decode_chunk(data: bytes) -> list[ChunkRecord]:
    """All records of a chunk; raises SyntaxFault when it ends within one."""
    records: list[ChunkRecord] = []
    pos: i64 = 0
    end: i64 = len(data)
    last_address = b""
    exchange = ""
    routing_key = ""
    while pos < end:
        if end - pos < 19:
            raise SyntaxFault("stream chunk ends within a record")
        offset: i64 = read_i64_be(data, pos)
        timestamp: i64 = read_i64_be(data, pos + 8)
        flags: i64 = data[pos + 16]
        start: i64 = pos + 17
        middle: i64 = start + 1 + data[start]
        if middle >= end:
            raise SyntaxFault("stream chunk ends within a record")
        stop: i64 = middle + 1 + data[middle]
        address = data[start:stop]
        if address != last_address:
            exchange = pull_shortstr(data, start)[0]
            routing_key = pull_shortstr(data, middle)[0]
            last_address = address
        properties = _pull_block(data, stop, end)
        pos = stop + 4 + len(properties)
        body = _pull_block(data, pos, end)
        pos += 4 + len(body)
        redelivered = flags & REDELIVERED != 0
        records.append(ChunkRecord(offset, timestamp, exchange, routing_key, properties, body, redelivered))
    return records


def _pull_block(data: bytes, pos: i64, end: i64) -> bytes:
    if end - pos < 4:
        raise SyntaxFault("stream chunk ends within a record")
    size: i64 = i64(read_i32_be(data, pos)) & 0xFFFFFFFF
    if size > end - pos - 4:
        raise SyntaxFault("stream chunk ends within a record")
    return data[pos + 4 : pos + 4 + size]
