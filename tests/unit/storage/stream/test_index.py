"""Indexes of segments: what they say, and that streams open and are read through them."""

import shutil
from pathlib import Path

import pytest

from flintmq.storage.stream.index import INDEX_STEP_BYTES, SegmentIndex, decode_index
from tests.unit.storage.disks import FaultyDisk, FaultyFile
from tests.unit.storage.nodes import OpenNode, message, records


def test_snapshot() -> None:
    """The bytes of an index."""
    index = SegmentIndex(b"\x01\x02\x03\x04", 7, 9)
    index.add(64, 7, 9)
    index.add(100, 8, 9)
    index.add(64 + INDEX_STEP_BYTES, 9, 12)
    index.end, index.next_offset, index.highest = 99_999, 11, 13
    data = index.encode()
    assert data[:36].hex(" ") == (
        "46 4c 49 4e 54 4d 51 00 00 00 00 04 00 00 00 10 00 00 00 00 00 00 00 07 00 00 00 00 00 00 00 09 01 02 03 04"
    )
    assert data[64:].hex(" ") == (
        "00 00 00 00 00 01 86 9f 00 00 00 00 00 00 00 0b 00 00 00 00 00 00 00 0d 00 00 00 02 "
        "00 00 00 00 00 00 00 07 00 00 00 00 00 00 00 40 00 00 00 00 00 00 00 09 "
        "00 00 00 00 00 00 00 09 00 00 00 00 00 01 00 40 00 00 00 00 00 00 00 0c d4 47 1f 89"
    )
    back = decode_index(data, "file")
    assert back is not None
    assert back.encode() == data
    assert [back.position_of(offset) for offset in (0, 7, 8, 9, 50)] == [64, 64, 64, 65600, 65600]
    assert [back.search(time) for time in (0, 9, 10, 12, 13, 99)] == [7, 7, 7, 7, 9, 9]


def test_damage_is_found() -> None:
    """An index with any bit changed, or cut anywhere, is none."""
    index = SegmentIndex(b"\x01\x02\x03\x04", 7, 9)
    index.add(64, 7, 9)
    data = index.encode()
    for position in range(64, len(data)):
        spoiled = bytearray(data)
        spoiled[position] ^= 0x10
        assert decode_index(bytes(spoiled), "file") is None
    for size in range(len(data)):
        assert decode_index(data[:size], "file") is None


class CountingDisk(FaultyDisk):
    """Counts the bytes read, by the ending of the file's name."""

    def __init__(self) -> None:
        super().__init__()
        self.read = {".stream": 0, ".index": 0}

    def open(self, path: Path) -> "CountingFile":
        return CountingFile(self, self._real.open(path))


class CountingFile(FaultyFile):
    def read_at(self, position: int, size: int) -> bytes:
        data = super().read_at(position, size)
        assert isinstance(self._disk, CountingDisk)
        if self.path.suffix in self._disk.read:
            self._disk.read[self.path.suffix] += len(data)
        return data


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stream of some 20 MB in segments of a megabyte, at 100 seconds and so on; it was ended in order."""
    path = tmp_path_factory.mktemp("large")
    node = OpenNode(path, segment=1_000_000)
    stream = node.storage.open_stream(1)
    for offset in range(20_000):
        stream.append(message(b"x" * 1000, 100_000 + offset * 1000))
        if offset % 500 == 0:
            node.sync()
    node.close()
    return path


def test_opening_reads_next_to_nothing(large: Path) -> None:
    """However long a stream is, opening it reads a header, an index, and how far the others go; after a crash, the last
    segment as well.
    """
    disk = CountingDisk()
    node = OpenNode(large, disk=disk)
    stream = node.storage.open_stream(1)
    assert (stream.first_offset, stream.next_offset) == (0, 20_000)
    assert disk.read[".stream"] == 64
    assert disk.read[".index"] < 1_000 + 20 * 100
    node.close()


def test_opening_after_a_crash_reads_the_last_segment(large: Path, tmp_path: Path) -> None:
    """After a crash the last segment has neither an index nor a seal; opening adds both."""
    path = tmp_path / "crashed"
    shutil.copytree(large, path)
    last = max((path / "streams" / "1").glob("*.stream"))
    last.with_suffix(".index").unlink()
    size = last.stat().st_size
    # Without the seal, and a half of the last block.
    last.write_bytes(last.read_bytes()[:-400])
    # What is behind the last mark, the last batch here, is read once more, to be written once more.
    for expected, most in ((size, 2 * size + 600_000), (64, 20_000)):
        disk = CountingDisk()
        node = OpenNode(path, disk=disk)
        stream = node.storage.open_stream(1)
        assert 19_990 < stream.next_offset < 20_000
        assert expected - 5_000 < disk.read[".stream"] < most
        node.close()


@pytest.mark.parametrize("offset", [0, 777, 10_000, 19_999])
def test_beginning_anywhere_reads_little(large: Path, offset: int) -> None:
    """The first message from an offset or a time on takes an index and a step of its segment."""
    for by_time in (False, True):
        disk = CountingDisk()
        node = OpenNode(large, disk=disk)
        stream = node.storage.open_stream(1)
        before = dict(disk.read)
        found = stream.offset_at(100_000 + offset * 1000) if by_time else records(stream, offset, 1, 1)[0][0]
        assert found == offset
        assert disk.read[".stream"] - before[".stream"] < 2 * INDEX_STEP_BYTES + 20_000
        assert disk.read[".index"] - before[".index"] < 2_000
        node.close()


@pytest.mark.parametrize("harm", ["missing", "damaged", "of another segment", "with a damaged header"])
def test_an_index_is_made_again(large: Path, tmp_path: Path, harm: str) -> None:
    """A lost index is created again from its segment."""
    path = tmp_path / "harmed"
    shutil.copytree(large, path)
    indexes = sorted((path / "streams" / "1").glob("*.index"))
    before = [file.read_bytes() for file in indexes]
    for number, file in enumerate(indexes):
        spoiled = bytearray(before[number])
        if harm == "missing":
            file.unlink()
            continue
        if harm == "of another segment":
            spoiled = bytearray(before[number - 1])
        spoiled[10 if harm == "with a damaged header" else -30] ^= harm != "of another segment"
        file.write_bytes(spoiled)
    node = OpenNode(path)
    stream = node.storage.open_stream(1)
    assert [offset for offset, _ in records(stream, 0)] == list(range(20_000))
    assert stream.offset_at(100_000 + 9_999_000) == 9_999
    assert node.storage.damage == []
    node.close()
    assert [file.read_bytes() for file in indexes] == before


def test_orphans_are_removed(large: Path, tmp_path: Path) -> None:
    """An index whose segment is gone is of no use."""
    path = tmp_path / "copy"
    shutil.copytree(large, path)
    first = min((path / "streams" / "1").glob("*.stream"))
    first.unlink()
    node = OpenNode(path)
    assert node.storage.open_stream(1).first_offset > 0
    node.close()
    assert not first.with_suffix(".index").exists()


def test_memory_of_indexes_is_bounded(large: Path) -> None:
    """Readers all over a stream leave the indexes of a few segments in memory."""
    node = OpenNode(large)
    stream = node.storage.open_stream(1)
    for offset in range(0, 20_000, 500):
        assert records(stream, offset, 1)[0][0] == offset
    assert len(stream.files._indexes) <= 8  # type: ignore[attr-defined]
    node.close()
