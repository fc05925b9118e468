"""The index of a stream chunk: where decoding a record at a time finds everything too."""

from array import array
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from flintmq.base.errors import SyntaxFault
from flintmq.wire.amqp091.chunk import REDELIVERED, RUN_BYTES, ChunkRecord, decode_chunk, push_record, push_run
from flintmq.wire.amqp091.chunk_index import BOUNDS, index_chunk
from flintmq.wire.amqp091.tables import encode_address

NAMES = st.text(max_size=60)
RECORDS = st.lists(
    st.builds(
        ChunkRecord,
        offset=st.integers(0, 2**62),
        timestamp_ms=st.integers(0, 2**50),
        exchange=NAMES,
        routing_key=NAMES,
        properties=st.binary(max_size=40),
        body=st.binary(max_size=300),
        redelivered=st.booleans(),
    ),
    max_size=8,
)
EMPTY = ChunkRecord(0, 0, "", "", b"", b"")


def chunk_of(records: list[ChunkRecord]) -> bytes:
    w = BytesWriter()
    for record in records:
        address = encode_address(record.exchange, record.routing_key)
        flags = REDELIVERED if record.redelivered else 0
        push_record(w, record.offset, record.timestamp_ms, flags, address, record.properties, record.body)
    return w.getvalue()


def records_at(data: bytes) -> list[ChunkRecord]:
    """The records, read where the index says."""
    index = index_chunk(data)
    offsets = array("q", index.offsets)
    timestamps = array("q", index.timestamps_us)
    bounds = array("i", index.bounds)
    assert len(offsets) == len(timestamps) == len(index.flags) == len(bounds) / BOUNDS == index.count
    elements = [data[start:end] for start, end in pairwise(bounds)]
    found = []
    for row in range(index.count):
        exchange, _, key, _, properties, _, body = elements[row * BOUNDS : row * BOUNDS + BOUNDS - 1]
        milliseconds, rest = divmod(timestamps[row], 1000)
        assert rest == 0
        redelivered = index.flags[row] == REDELIVERED
        found.append(
            ChunkRecord(offsets[row], milliseconds, exchange.decode(), key.decode(), properties, body, redelivered)
        )
    return found


@given(RECORDS)
def test_finds_what_decoding_finds(records: list[ChunkRecord]) -> None:
    """The index leads to the same records as decoding them one by one."""
    assert records_at(chunk_of(records)) == records


@given(RECORDS, st.integers(0, 2**40))
def test_runs(records: list[ChunkRecord], first: int) -> None:
    """Records in a run follow each other: its head says where they begin."""
    w = BytesWriter()
    push_run(w, first, len(records))
    w.write(b"".join(chunk_of([record])[RUN_BYTES:] for record in records))
    expected = [replace(record, offset=first + at) for at, record in enumerate(records)]
    assert decode_chunk(w.getvalue()) == records_at(w.getvalue()) == expected


@given(RECORDS.filter(bool), st.data())
def test_truncated_chunk(records: list[ChunkRecord], data: st.DataObject) -> None:
    """A chunk cut anywhere either ends with a whole record, or is refused as decoding refuses it."""
    whole = chunk_of(records)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    try:
        expected = decode_chunk(cut)
    except SyntaxFault:
        with pytest.raises(SyntaxFault):
            index_chunk(cut)
    else:
        assert records_at(cut) == expected


@pytest.mark.parametrize("record", [EMPTY, ChunkRecord(1, 2, "e" * 255, "k" * 255, b"p", b"")])
def test_every_cut_within_a_record_is_refused(record: ChunkRecord) -> None:
    """No length is believed before the bytes it promises were seen to be there."""
    whole = chunk_of([record])
    for size in range(1, len(whole)):
        with pytest.raises(SyntaxFault):
            index_chunk(whole[:size])


@pytest.mark.parametrize("position", [RUN_BYTES + 14, RUN_BYTES + 18])
def test_huge_lengths(position: int) -> None:
    """A length of nearly 4 GiB, of properties or of a body, is no negative number."""
    data = bytearray(chunk_of([EMPTY]))
    data[position : position + 4] = b"\xff\xff\xff\xf0"
    with pytest.raises(SyntaxFault):
        index_chunk(bytes(data))


def test_more_records_than_there_are() -> None:
    """What a run promises is looked for, and not allocated."""
    w = BytesWriter()
    push_run(w, 0, -1)
    w.write(chunk_of([EMPTY])[RUN_BYTES:])
    for read in (index_chunk, decode_chunk):
        with pytest.raises(SyntaxFault):
            read(w.getvalue())


def test_names_that_are_none() -> None:
    """A name that is not UTF-8 is refused by who needs it as text."""
    data = bytearray(chunk_of([ChunkRecord(0, 0, "xx", "", b"", b"")]))
    data[RUN_BYTES + 12] = 0xFF
    with pytest.raises(SyntaxFault):
        decode_chunk(bytes(data))


def test_no_records() -> None:
    """An empty chunk has an empty index."""
    assert index_chunk(b"").count == 0
