"""The bytes of a stream block."""

from flintmq.storage.stream.encoder import StreamEncoder
from tests.unit.storage.nodes import message


def test_block_snapshot() -> None:
    """A block is its first offset, the highest time before it, its count, and its records' contents."""
    encoder = StreamEncoder(0x10, 0x0A)
    encoder.append(message(b"a", 0x0B))
    encoder.append(message(b"b", 0x09))
    first = encoder.take()
    encoder.append(message(b"", 0x0C))
    second = encoder.take()
    assert b"".join(first[0].parts).hex(" ") == (
        "00 00 00 00 00 00 00 10 00 00 00 00 00 00 00 0a 00 00 00 02 "
        "07 01 00 00 00 00 00 00 00 0b 00 02 65 78 00 03 6b 65 79 00 00 00 02 70 70 00 00 00 01 61 "
        "07 01 00 00 00 00 00 00 00 09 00 02 65 78 00 03 6b 65 79 00 00 00 02 70 70 00 00 00 01 62"
    )
    assert b"".join(second[0].parts)[:20].hex(" ") == "00 00 00 00 00 00 00 12 00 00 00 00 00 00 00 0b 00 00 00 01"
    assert (first[0].first_offset, first[0].count, second[0].first_offset) == (0x10, 2, 0x12)
