"""What goes through a segment in small windows finds what reading it as a whole finds, whatever became of the file."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flintmq.storage import segment_reader
from flintmq.storage.block import (
    KIND_JOURNAL,
    TYPE_JOURNAL,
    TYPE_MARK,
    TYPE_SEAL,
    FileHeader,
    decode_header,
    encode_header,
    find_magic,
    frame_block,
    mark_payload,
    next_block,
    scan_blocks,
)
from flintmq.storage.files import RealDisk
from flintmq.storage.segment_reader import SegmentReader

MAGIC = b"\xa7\x01\x02\x03"
NUMBER = 1
NAME = f"{NUMBER:020d}.journal"


@st.composite
def segments(draw: st.DrawFn) -> bytes:
    """Blocks of all sizes with marks between them, perhaps a seal, what an earlier life left, and damage."""
    data = encode_header(FileHeader(KIND_JOURNAL, NUMBER, 0, MAGIC))
    for size in draw(st.lists(st.integers(0, 300), max_size=12)):
        if draw(st.booleans()):
            mark = mark_payload(len(data), draw(st.sampled_from([NUMBER, NUMBER, 2])))
            # Those of format 1 are shorter.
            data += b"".join(frame_block(MAGIC, TYPE_MARK, (mark[: draw(st.sampled_from([8, 16]))],)))
        # With pieces of magic in it.
        data += b"".join(frame_block(MAGIC, TYPE_JOURNAL, ((MAGIC[:3] * 100)[:size],)))
    if draw(st.booleans()):
        data += b"".join(frame_block(MAGIC, TYPE_SEAL, ()))
    data += draw(st.sampled_from([b"", bytes(50), b"".join(frame_block(b"else", TYPE_JOURNAL, (bytes(80),)))]))
    spoiled = bytearray(data)
    for at in draw(st.lists(st.integers(0, len(data) - 1), max_size=4)):
        spoiled[at] ^= draw(st.integers(1, 255))
    return bytes(spoiled[: draw(st.integers(64, len(data)))] if draw(st.booleans()) else spoiled)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(segments(), st.integers(32, 200), st.booleans())
def test_windows_find_what_the_whole_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, window: int, whole: bool
) -> None:
    """The same blocks, the same damage, the same end."""
    try:
        header = decode_header(data, "file")
    except Exception:  # noqa: BLE001 - a version that is damaged and has the right checksum: both refuse it
        return
    monkeypatch.setattr(segment_reader, "WINDOW_BYTES", window)
    path = tmp_path / NAME
    path.write_bytes(data)
    file = RealDisk().open_to_read(path)
    reader = SegmentReader(file, NAME)
    magic = header.block_magic if header else find_magic(data, NUMBER)
    assert reader.magic == magic
    if len(magic) == 4:
        assert reader.holds_blocks() == (next_block(data, 64, magic) >= 0)
        expected = scan_blocks(data, magic, NAME, whole, header is None)
        reader.damage.clear()
        blocks = list(reader.blocks(reader.size if whole else reader.synced_position()))
        assert [block.type for block in blocks] == expected.types
        assert [block.start for block in blocks] == expected.starts
        assert [block.length for block in blocks] == expected.lengths
        for block in blocks:
            assert block.data[block.at : block.at + block.length] == data[block.start : block.start + block.length]
        assert [repr(damage) for damage in reader.damage] == [repr(damage) for damage in expected.damage]
        assert (reader.end, reader.sealed) == (expected.end, expected.sealed)
    file.close()
