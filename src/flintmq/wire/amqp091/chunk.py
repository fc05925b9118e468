"""Chunks: records of a stream or lease, packed as the body of stream.fetch-ok and lease.fetch-ok.

A chunk consists of runs: the offset of the first record (int64), the number of records (uint32), and their contents in
the storage's layout (docs/storage-format.md), so that a stream's records are sent as they were read. Contents: format
(octet), flags (octet), timestamp in ms (int64), exchange and routing key (lengths of two bytes), properties and body
(lengths of four bytes). The format is always that of AMQP 0-9-1. Big endian, no padding.
"""

from dataclasses import dataclass
from typing import Final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, read_i64_be, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i32, i64, u8

from flintmq.base.errors import SyntaxFault

# The bytes before the records of a run.
RUN_BYTES: Final = 12
# The bytes of a record whose strings, properties and body are all empty.
RECORD_MIN_BYTES: Final = 22
# The format of AMQP 0-9-1.
FORMAT: Final = 1
# A flag of a record: the message may have been delivered before.
REDELIVERED: Final = 2


@dataclass
class ChunkRecord:
    offset: int
    timestamp_ms: int
    exchange: str
    routing_key: str
    properties: bytes
    body: bytes
    redelivered: bool = False


def push_run(w: BytesWriter, offset: i64, count: i64) -> None:
    """Append the head of a run of `count` records."""
    write_i64_be(w, offset)
    write_i32_be(w, i32(count))


def push_record(
    w: BytesWriter, offset: i64, timestamp_ms: i64, flags: i64, address: bytes, properties: bytes, body: bytes
) -> None:
    """Append a record. `address` is the exchange and the routing key, encoded as short strings."""
    _begin_record(w, offset, timestamp_ms, flags)
    key_at: i64 = 1 + i64(address[0])
    # The high byte of a length of two bytes.
    w.append(0)
    w.write(address[:key_at])
    w.append(0)
    w.write(address[key_at:])
    _end_record(w, properties, body)


def push_long_record(
    w: BytesWriter, offset: i64, timestamp_ms: i64, flags: i64, names: list[bytes], properties: bytes, body: bytes
) -> None:
    """Append a record whose exchange and routing key need not be short strings: a record has room for longer names."""
    _begin_record(w, offset, timestamp_ms, flags)
    for name in names:
        write_i16_be(w, i16(len(name)))
        w.write(name)
    _end_record(w, properties, body)


def _begin_record(w: BytesWriter, offset: i64, timestamp_ms: i64, flags: i64) -> None:
    push_run(w, offset, 1)
    w.append(FORMAT)
    w.append(u8(flags))
    write_i64_be(w, timestamp_ms)


def _end_record(w: BytesWriter, properties: bytes, body: bytes) -> None:
    write_i32_be(w, i32(len(properties)))
    w.write(properties)
    write_i32_be(w, i32(len(body)))
    w.write(body)


def decode_chunk(data: bytes) -> list[ChunkRecord]:
    """Return all records of a chunk. Raises SyntaxFault if the chunk ends within a record."""
    records: list[ChunkRecord] = []
    pos: i64 = 0
    end: i64 = len(data)
    while pos < end:
        if end - pos < RUN_BYTES:
            raise SyntaxFault("stream chunk ends within a run")
        offset: i64 = read_i64_be(data, pos)
        left: i64 = length_at(data, pos + 8)
        pos += RUN_BYTES
        while left > 0:
            key_at, properties_at, body_at, stop = parts_at(data, pos, end)
            records.append(
                ChunkRecord(
                    offset,
                    read_i64_be(data, pos + 2),
                    _text(data, pos + 12, key_at),
                    _text(data, key_at + 2, properties_at),
                    data[properties_at + 4 : body_at],
                    data[body_at + 4 : stop],
                    data[pos + 1] & REDELIVERED != 0,
                )
            )
            pos = stop
            offset += 1
            left -= 1
    return records


def parts_at(data: bytes, pos: i64, end: i64) -> tuple[i64, i64, i64, i64]:
    """Return the positions of the lengths of routing key, properties and body of the record at `pos`, and its end.

    Raises SyntaxFault if the record ends behind `end`.
    """
    if end - pos >= RECORD_MIN_BYTES:
        key_at: i64 = pos + 12 + (i64(read_i16_be(data, pos + 10)) & 0xFFFF)
        if end - key_at >= 10:
            properties_at: i64 = key_at + 2 + (i64(read_i16_be(data, key_at)) & 0xFFFF)
            if end - properties_at >= 8:
                body_at: i64 = properties_at + 4 + length_at(data, properties_at)
                if end - body_at >= 4:
                    stop: i64 = body_at + 4 + length_at(data, body_at)
                    if stop <= end:
                        return key_at, properties_at, body_at, stop
    raise SyntaxFault("stream chunk ends within a record")


def length_at(data: bytes, pos: i64) -> i64:
    return i64(read_i32_be(data, pos)) & 0xFFFF_FFFF


def _text(data: bytes, start: i64, stop: i64) -> str:
    try:
        return data[start:stop].decode()
    except UnicodeDecodeError as error:
        raise SyntaxFault("stream chunk: a name is not UTF-8") from error
