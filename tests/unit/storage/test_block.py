"""Blocks: their bytes, and what can be found in a file that was torn or damaged."""

from zlib import crc32

import pytest

from flintmq.base.errors import StorageError
from flintmq.storage.block import (
    BLOCK_HEAD_BYTES,
    HEADER_BYTES,
    KIND_JOURNAL,
    TYPE_JOURNAL,
    TYPE_MARK,
    TYPE_SEAL,
    FileHeader,
    Scan,
    block_end,
    decode_header,
    encode_header,
    find_magic,
    frame_block,
    mark_payload,
    scan_blocks,
)

MAGIC = b"\xfa\xce\x00\x01"
NUMBER = 3
HEADER = encode_header(FileHeader(KIND_JOURNAL, NUMBER, 0, MAGIC))
PAYLOADS = [b"first", b"second block", b"", b"x" * 300]
BLOCKS = [b"".join(frame_block(MAGIC, TYPE_JOURNAL, (payload,))) for payload in PAYLOADS]
SEAL = b"".join(frame_block(MAGIC, TYPE_SEAL, ()))


def _mark(synced: int, magic: bytes = MAGIC, number: int = NUMBER) -> bytes:
    return b"".join(frame_block(magic, TYPE_MARK, (mark_payload(synced, number),)))


def _payloads(data: bytes, found: Scan) -> list[bytes]:
    return [data[start : start + length] for start, length in zip(found.starts, found.lengths, strict=True)]


def test_block_snapshot() -> None:
    """A block is magic, length, CRC over all the rest, type, payload."""
    framed = b"".join(frame_block(MAGIC, TYPE_JOURNAL, (b"ab", b"c")))
    assert framed.hex(" ", 4) == "face0001 00000003 aebb9ec1 03616263"


def test_header_snapshot() -> None:
    """A header is file magic, version, kind, number, extra, block magic, CRC, and zeros up to 64 bytes."""
    header = encode_header(FileHeader(KIND_JOURNAL, 5, 6, MAGIC))
    assert (
        header.rstrip(b"\x00").hex(" ", 4)
        == "464c494e 544d5100 00000004 00000001 00000000 00000005 00000000 00000006 face0001 83aa5dd1"
    )
    assert len(header) == HEADER_BYTES


def test_header_comes_back() -> None:
    """An encoded header is decoded unchanged."""
    header = decode_header(HEADER, "file")
    assert header is not None
    assert (header.kind, header.number, header.extra, header.block_magic) == (KIND_JOURNAL, 3, 0, MAGIC)


@pytest.mark.parametrize("position", range(40))
def test_header_damage_is_seen(position: int) -> None:
    """No flipped bit in a header goes unnoticed."""
    assert decode_header(_flip(HEADER, position), "file") is None


def test_header_of_another_version_is_refused() -> None:
    """A file of a later format is not guessed at."""
    fields = HEADER[:11] + b"\x09" + HEADER[12:36]
    forged = (fields + crc32(fields).to_bytes(4)).ljust(HEADER_BYTES, b"\x00")
    with pytest.raises(StorageError, match="storage format 9, this FlintMQ reads and writes 4"):
        decode_header(forged, "file")


def test_header_of_the_version_before_is_read() -> None:
    """Files of the previous version are read: they lack only newer features."""
    fields = HEADER[:11] + b"\x02" + HEADER[12:36]
    header = decode_header((fields + crc32(fields).to_bytes(4)).ljust(HEADER_BYTES, b"\x00"), "file")
    assert header is not None
    assert header.number == 3


def test_scan_finds_every_block() -> None:
    """An undamaged file gives its payloads in order and ends behind the last."""
    data = HEADER + b"".join(BLOCKS)
    found = scan_blocks(data, MAGIC, "file", synced_whole=False)
    assert _payloads(data, found) == PAYLOADS
    assert (found.damage, found.end, found.sealed) == ([], len(data), False)


def test_torn_at_every_byte() -> None:
    """Wherever the tail is torn, exactly the complete blocks before it are found."""
    data = HEADER + b"".join(BLOCKS)
    ends = [HEADER_BYTES]
    for block in BLOCKS:
        ends.append(ends[-1] + len(block))
    for size in range(HEADER_BYTES, len(data)):
        found = scan_blocks(data[:size], MAGIC, "file", synced_whole=False)
        whole = sum(end <= size for end in ends[1:])
        assert _payloads(data, found) == PAYLOADS[:whole], size
        assert (found.damage, found.end) == ([], ends[whole]), size


def test_earlier_life_of_a_file_is_not_seen() -> None:
    """Blocks from a file's earlier use have another magic, and end the scan."""
    old = b"".join(b"".join(frame_block(b"OLD!", TYPE_JOURNAL, (payload,))) for payload in PAYLOADS * 3)
    written = HEADER + BLOCKS[0] + BLOCKS[1]
    data = written + old[len(written) :]
    found = scan_blocks(data, MAGIC, "file", synced_whole=False)
    assert _payloads(data, found) == PAYLOADS[:2]
    assert (found.damage, found.end) == ([], len(written))


def test_blocks_behind_a_tear_do_not_count() -> None:
    """In what was not known to be synced, nothing behind the first broken block is used: its cause may be lost."""
    data = HEADER + BLOCKS[0] + _flip(BLOCKS[1], 15) + BLOCKS[3]
    found = scan_blocks(data, MAGIC, "file", synced_whole=False)
    assert _payloads(data, found) == PAYLOADS[:1]
    assert (found.damage, found.end) == ([], HEADER_BYTES + len(BLOCKS[0]))


def test_damage_before_a_mark_hides_nothing() -> None:
    """A mark proves that what it covers was synced: a broken block there is reported, and later ones are used."""
    synced = HEADER_BYTES + sum(map(len, BLOCKS[:3]))
    whole = HEADER + b"".join(BLOCKS[:3]) + _mark(synced) + BLOCKS[3]
    second = HEADER_BYTES + len(BLOCKS[0])
    for position in range(second, second + len(BLOCKS[1])):
        data = _flip(whole, position)
        found = scan_blocks(data, MAGIC, "file", synced_whole=False)
        assert _payloads(data, found) == [PAYLOADS[0], PAYLOADS[2], PAYLOADS[3]], position
        assert [damage.position for damage in found.damage] == [second]
        assert found.end == len(data)


def test_any_bit_flip_in_a_sealed_file_costs_one_block() -> None:
    """Any flipped bit in a fully synced file is reported, and costs one block."""
    whole = HEADER + b"".join(BLOCKS) + SEAL
    for position in range(HEADER_BYTES, len(whole)):
        data = _flip(whole, position)
        found = scan_blocks(data, MAGIC, "file", synced_whole=True)
        assert len(found.damage) == 1, position
        assert "file at byte" in str(found.damage[0])
        assert len(found.starts) >= len(PAYLOADS) - 1
        assert set(_payloads(data, found)) <= set(PAYLOADS)


def test_missing_seal_is_damage() -> None:
    """A file that is not the last must end with its seal, or something is missing."""
    found = scan_blocks(HEADER + BLOCKS[0], MAGIC, "file", synced_whole=True)
    assert [damage.reason for damage in found.damage] == ["the file ends without its seal"]


def test_nothing_follows_a_seal() -> None:
    """A sealed file ends there, whatever an earlier life left behind."""
    data = HEADER + BLOCKS[0] + SEAL + BLOCKS[1]
    found = scan_blocks(data, MAGIC, "file", synced_whole=True)
    assert (_payloads(data, found), found.sealed, found.damage) == (PAYLOADS[:1], True, [])


def test_block_with_an_absurd_length_is_no_block() -> None:
    """A length beyond the file is not believed."""
    data = MAGIC + b"\xff\xff\xff\xff" + bytes(BLOCK_HEAD_BYTES)
    assert block_end(data, 0, MAGIC) == 0


def test_a_block_torn_behind_its_magic_is_not_the_one_before() -> None:
    """A file that is written over has old blocks where new ones come: the new magic does not make them new."""
    old = b"".join(frame_block(b"OLD!", TYPE_JOURNAL, (b"settled",)))
    new = b"".join(frame_block(MAGIC, TYPE_JOURNAL, (b"another",)))
    for torn in range(1, len(new)):
        data = new[:torn] + old[torn:]
        assert block_end(data, 0, MAGIC) == 0
        assert block_end(data, 0, b"OLD!") == 0


def test_the_last_mark_says_what_was_synced() -> None:
    """Broken blocks before it are damage, behind it a tear."""
    data = HEADER + BLOCKS[0]
    data = _flip(data, HEADER_BYTES + 14) + _mark(len(data)) + _flip(BLOCKS[1], 14)
    found = scan_blocks(data, MAGIC, "file", synced_whole=False)
    assert len(found.damage) == 1
    assert found.end == HEADER_BYTES + len(BLOCKS[0]) + len(_mark(0))


@pytest.mark.parametrize("tail", [SEAL, _mark(HEADER_BYTES + len(BLOCKS[0])) + BLOCKS[1]])
def test_magic_survives_the_header(tail: bytes) -> None:
    """When the header's sector is lost, the magic is found in the marks or the seal, past an earlier life's."""
    old = b"".join(frame_block(b"OLD!", TYPE_SEAL, ()))
    data = bytes(HEADER_BYTES + 8) + BLOCKS[0] + tail + _mark(HEADER_BYTES) + old
    assert find_magic(data, NUMBER) == MAGIC


def test_magic_is_that_of_the_present_life() -> None:
    """However much an earlier life left, marks say which file they are of."""
    seal = b"".join(frame_block(b"OLD!", TYPE_SEAL, ()))
    old = b"".join(frame_block(b"OLD!", TYPE_JOURNAL, (b"old",))) + _mark(100, b"OLD!", 2) * 5 + seal * 3
    assert find_magic(bytes(HEADER_BYTES) + _mark(64) + BLOCKS[0] + old, NUMBER) == MAGIC
    assert find_magic(bytes(HEADER_BYTES) + old, NUMBER) == b""
    assert scan_blocks(bytes(HEADER_BYTES) + old, b"", "file", synced_whole=True).types == []


def test_magic_of_a_file_without_marks_is_that_of_its_first_block() -> None:
    """A first round of blocks has no mark yet; its first block begins with the magic."""
    assert find_magic(bytes(HEADER_BYTES) + BLOCKS[0] + BLOCKS[1], NUMBER) == MAGIC


def _flip(data: bytes, position: int) -> bytes:
    flipped = bytearray(data)
    flipped[position] ^= 0x10
    return bytes(flipped)
