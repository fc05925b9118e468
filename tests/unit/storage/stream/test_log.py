"""Streams: appended, read by offset and by time, while being written, after restarts, and damaged."""

import random
from pathlib import Path

import pytest

from flintmq.base.errors import StorageError
from flintmq.broker.ports import StreamLog
from flintmq.storage.block import HEADER_BYTES
from flintmq.storage.content import ContentReader
from flintmq.storage.stream.index import INDEX_STEP_BYTES
from tests.unit.storage.nodes import CODEC, CODECS, OpenNode, Record, crashed_copy, message, records

STREAM = 5


def _open(path: Path, segment: int = 1 << 26) -> tuple[OpenNode, StreamLog]:
    node = OpenNode(path, segment=segment)
    return node, node.storage.open_stream(STREAM)


def _body(offset: int) -> bytes:
    return b"record %d " % offset * (1 + offset % 40)


def _append(stream: StreamLog, count: int) -> None:
    for _ in range(count):
        offset = stream.next_offset
        assert stream.append(message(_body(offset), 1000 + 10 * offset)) == offset


def _offsets(found: list[Record]) -> list[int]:
    assert all(message.body == _body(offset) for offset, message in found)
    return [offset for offset, _ in found]


def _files(path: Path) -> list[Path]:
    return sorted((path / "streams" / str(STREAM)).glob("*.stream"))


def _everything(stream: StreamLog) -> list[int]:
    return _offsets(records(stream, 0))


def test_staged_records_count(tmp_path: Path) -> None:
    """A record has its offset as soon as it was appended, and can be read once it is durable."""
    node, stream = _open(tmp_path)
    assert (stream.first_offset, stream.next_offset, records(stream, 0)) == (0, 0, [])
    _append(stream, 3)
    assert (stream.first_offset, stream.next_offset, records(stream, 0)) == (0, 3, [])
    node.sync()
    assert _everything(stream) == [0, 1, 2]
    node.close()


def test_unreadable_file(tmp_path: Path) -> None:
    """A file that somebody took away is a typed error that names it, for reading by offset and by time."""
    node, stream = _open(tmp_path)
    _append(stream, 3)
    node.close()
    node, stream = _open(tmp_path)
    (file,) = _files(tmp_path)
    file.unlink()
    for _ in range(2):
        with pytest.raises(StorageError, match=f"{file} cannot be read"):
            records(stream, 0)
    with pytest.raises(StorageError, match=f"{file} cannot be read"):
        stream.offset_at(1)
    node.close()


def test_bytes_behind_an_offset(tmp_path: Path) -> None:
    """How far so many bytes reach is known to a step of the index, over segments, also of an earlier run."""
    node, stream = _open(tmp_path, segment=300_000)
    assert stream.offset_behind(0, 1000) == 0
    for _ in range(200):
        _append(stream, 30)
        node.sync()
    assert len(_files(tmp_path)) > 2
    node.close()
    node, stream = _open(tmp_path, segment=300_000)
    for start in (0, 17, 1500, 5999):
        for size in (1, 50_000, 200_000, 450_000):
            end = stream.offset_behind(start, size)
            between = sum(len(_body(offset)) for offset in range(start, end))
            assert end == 6000 or size - INDEX_STEP_BYTES <= between <= size + 2 * INDEX_STEP_BYTES
            assert start < end <= 6000
    assert stream.offset_behind(0, 1 << 40) == 6000
    node.close()


def test_durable_offset(tmp_path: Path) -> None:
    """Records count as durable once they are synced, also those of an earlier run."""
    node, stream = _open(tmp_path, segment=2_000)
    for count in (3, 40, 100):
        before = stream.durable_offset
        _append(stream, count)
        assert stream.durable_offset == before
        node.sync()
        assert stream.durable_offset == stream.next_offset == before + count
    node.close()
    node, stream = _open(tmp_path)
    assert stream.durable_offset == 143
    node.close()


def test_read_across_files(tmp_path: Path) -> None:
    """Any range is read whole, wherever its parts are: old segments or the last one."""
    node, stream = _open(tmp_path, segment=50_000)
    for _ in range(20):
        _append(stream, 50)
        node.sync()
    assert len(_files(tmp_path)) > 3
    for ahead_bytes in (1, 1_000, 100_000):
        assert _offsets(records(stream, 0, ahead_bytes=ahead_bytes)) == list(range(1000))
    for offset in range(0, 1000, 7):
        assert _offsets(records(stream, offset, 5)) == list(range(offset, min(offset + 5, 1000)))
    node.close()


def test_large_bodies(tmp_path: Path) -> None:
    """A record larger than one read of the disk comes whole."""
    node, stream = _open(tmp_path)
    bodies = [b"a" * 10, b"b" * 1_000_000, b"c" * 10, b"d" * 200_000]
    for body in bodies:
        stream.append(message(body))
    node.sync()
    assert [message.body for _, message in records(stream, 0)] == bodies
    assert records(stream, 3)[0][1].body == bodies[3]
    node.close()


@pytest.mark.parametrize(("room", "ahead_bytes"), [(1, 1), (700, 5_000), (1 << 20, 1 << 20)])
def test_runs_are_what_reading_one_by_one_finds(tmp_path: Path, room: int, ahead_bytes: int) -> None:
    """Runs of records cover any range, each record once, in the bytes that they have on the disk."""
    node, stream = _open(tmp_path, segment=50_000)
    for _ in range(6):
        _append(stream, 50)
        node.sync()
    reader = ContentReader(CODECS)
    for start, end in ((0, 300), (7, 8), (33, 181), (299, 300), (300, 300)):
        cursor = stream.cursor(start, ahead_bytes)
        found: list[Record] = []
        while contents := cursor.run(end, room, True, CODEC.format):
            assert len(contents) <= room or cursor.run_count == 1
            position = 0
            for offset in range(cursor.offset - cursor.run_count, cursor.offset):
                found.append((offset, reader.read(contents, position)))
                position = reader.position
            assert position == len(contents)
        assert _offsets(found) == list(range(start, end))
        assert cursor.next(end) is None
    node.close()


def test_a_run_ends_before_what_has_no_place_in_it(tmp_path: Path) -> None:
    """A message of another format, and one that does not fit, are left to who reads one by one."""
    node, stream = _open(tmp_path)
    for body in (b"a", b"b" * 100, b"c"):
        stream.append(message(body))
    node.sync()
    cursor = stream.cursor(0, 1_000)
    assert (cursor.run(3, 1_000, True, CODEC.format + 1), cursor.run_count, cursor.offset) == (b"", 0, 0)
    found = cursor.next(3)
    assert found is not None
    assert (found.body, cursor.offset) == (b"a", 1)
    assert cursor.run(3, 100, False, CODEC.format) == b""
    assert cursor.run(3, 100, True, CODEC.format).endswith(b"b" * 100)
    assert (cursor.run(3, 100, False, CODEC.format)[-1:], cursor.offset) == (b"c", 3)
    node.close()


def test_restart(tmp_path: Path) -> None:
    """After a restart everything is there, and offsets go on."""
    for round_number in range(4):
        node, stream = _open(tmp_path, segment=20_000)
        assert stream.next_offset == 200 * round_number
        assert _everything(stream) == list(range(200 * round_number))
        _append(stream, 200)
        node.close()
    node, stream = _open(tmp_path)
    assert _everything(stream) == list(range(800))
    assert node.storage.damage == []
    node.close()


def test_search_by_time(tmp_path: Path) -> None:
    """The first record received at or after a time is found, also after a restart."""
    node, stream = _open(tmp_path, segment=100_000)
    for _ in range(15):
        _append(stream, 100)
        node.sync()
    for _ in range(2):
        for offset in range(0, 1500, 37):
            assert stream.offset_at(1000 + 10 * offset) == offset
            assert stream.offset_at(1000 + 10 * offset - 9) == offset
        assert stream.offset_at(0) == 0
        assert stream.offset_at(1000 + 10 * 1500) == 1500
        node.close()
        node, stream = _open(tmp_path)
    node.close()


def test_search_by_time_when_the_clock_goes_back(tmp_path: Path) -> None:
    """Times that are not in order are still found at their first record."""
    node, stream = _open(tmp_path, segment=30_000)
    chance = random.Random(7)  # noqa: S311 - a repeatable test
    times = [chance.randrange(1000, 2000) + 5 * i for i in range(400)]
    for i, time in enumerate(times):
        stream.append(message(b"x" * 500, time))
        if i % 20 == 0:
            node.sync()
    node.close()
    node, stream = _open(tmp_path)
    assert len(_files(tmp_path)) > 3
    for wanted in range(900, 4200, 50):
        expected = next((i for i, time in enumerate(times) if time >= wanted), len(times))
        assert stream.offset_at(wanted) == expected
    node.close()


def test_reading_while_it_is_written(tmp_path: Path) -> None:
    """A reader sees every record exactly once, whatever the sync thread does."""
    node, stream = _open(tmp_path, segment=30_000)
    seen: list[int] = []
    followed: list[int] = []
    cursor = stream.cursor(0, 1_000)
    for _ in range(300):
        _append(stream, 10)
        node.storage.commit()
        seen += _offsets(records(stream, len(seen), 7))
        reading = cursor.next(stream.durable_offset)
        while reading is not None:
            followed.append(cursor.offset - 1)
            reading = cursor.next(stream.durable_offset)
    while len(seen) < 3000:
        seen += _offsets(records(stream, len(seen), 100))
    while cursor.next(stream.durable_offset) is not None:
        followed.append(cursor.offset - 1)
    assert followed == seen
    assert seen == list(range(3000))
    node.close()


def test_torn_at_every_byte(tmp_path: Path) -> None:
    """Wherever a crash tears the last write, the records of earlier batches are there, and offsets continue."""
    node, stream = _open(tmp_path / "node")
    sizes = []
    for _ in range(3):
        _append(stream, 2)
        node.sync()
        sizes.append(_files(node.path)[0].stat().st_size)
    crashed = crashed_copy(node, tmp_path / "crashed")
    node.close()
    whole = _files(crashed)[0].read_bytes()
    name = _files(crashed)[0]
    for size in range(sizes[0], len(whole) + 1):
        for leftover in name.parent.iterdir():
            leftover.unlink()
        name.write_bytes(whole[:size])
        node, stream = _open(crashed)
        count = 2 * sum(size >= end for end in sizes)
        assert _everything(stream) == list(range(count)), size
        assert node.storage.damage == []
        _append(stream, 1)
        node.close()
        node, stream = _open(crashed)
        assert _everything(stream) == list(range(count + 1)), size
        node.close()


def test_damage_leaves_a_gap(tmp_path: Path) -> None:
    """A broken block costs its records: they are reported and passed over, and all others keep their offsets."""
    node, stream = _open(tmp_path, segment=20_000)
    for _ in range(40):
        _append(stream, 20)
        node.sync()
    node.close()
    for file in _files(tmp_path):
        whole = file.read_bytes()
        for position in (0, 110, len(whole) // 2, len(whole) - 60):
            file.write_bytes(whole)
            _flip(file, position)
            node, stream = _open(tmp_path)
            read = _everything(stream)
            assert len(read) >= 740, position
            assert read == sorted(set(read))
            assert stream.offset_at(0) == read[0]
            assert stream.next_offset >= 800
            missing = set(range(800)) - set(read)
            if missing and max(missing) < 799:
                assert records(stream, min(missing), 1)[0][0] == max(missing) + 1
            assert len(node.storage.damage) >= 1
            node.close()
        file.write_bytes(whole)


def test_offsets_lost_at_the_end_are_not_given_again(tmp_path: Path) -> None:
    """Readers that saw a record which is lost now would skip another one of its offset."""
    node, stream = _open(tmp_path)
    for _ in range(3):
        _append(stream, 5)
        node.sync()
    before = _files(tmp_path)[0].stat().st_size
    _append(stream, 5)
    node.close()
    _flip(_files(tmp_path)[0], before + 100)
    node, stream = _open(tmp_path)
    assert stream.next_offset >= 20
    offset = stream.append(message(b"next"))
    node.close()
    node, stream = _open(tmp_path)
    assert [offset for offset, _ in records(stream, 14)] == [14, offset]
    node.close()


def test_delete_removes_the_files(tmp_path: Path) -> None:
    """A deleted stream leaves nothing, whether it was written, staged, never opened, or cut short while removed."""
    node, stream = _open(tmp_path)
    _append(stream, 10)
    node.sync()
    records(stream, 0, 1)
    _append(stream, 10)
    node.storage.delete_stream(STREAM)
    node.sync()
    other = node.storage.open_stream(6)
    _append(other, 10)
    node.storage.open_stream(7)
    node.storage.delete_stream(7)
    node.sync()
    node.close()
    assert [file.name for file in (tmp_path / "streams").iterdir()] == ["6"]
    node = OpenNode(tmp_path)
    node.storage.delete_stream(6)
    node.sync()
    node.close()
    doomed = tmp_path / "streams" / "9.deleted"
    doomed.mkdir()
    (doomed / "file").touch()
    OpenNode(tmp_path).close()
    assert list((tmp_path / "streams").iterdir()) == []


def test_misplaced_segment_is_refused(tmp_path: Path) -> None:
    """A file that says it begins elsewhere was misplaced by somebody."""
    node, stream = _open(tmp_path)
    _append(stream, 10)
    node.close()
    file = _files(tmp_path)[0]
    file.rename(file.with_name(f"{3:020d}.stream"))
    node = OpenNode(tmp_path)
    with pytest.raises(StorageError, match="is not the stream segment of offset 3"):
        node.storage.open_stream(STREAM)
    node.close()


def _flip(file: Path, position: int) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= 0x04
    file.write_bytes(data)


def test_blocks_that_nobody_wants(tmp_path: Path) -> None:
    """A reader that wants what contains some bytes gets all of that, and is interrupted when it takes long."""
    node, stream = _open(tmp_path, segment=400_000)
    for offset in range(3000):
        stream.append(message(b"wanted" if offset in (0, 700, 701, 2999) else b"x" * 1000))
        if offset % 700 == 699:
            node.sync()
    node.sync()
    cursor = stream.cursor(0, 4_000)
    cursor.wanted = [b"wanted", b"more"]
    found = []
    interruptions = 0
    while cursor.offset < 3000:
        read = cursor.next(3000)
        if read is None:
            assert cursor.has_more
            interruptions += 1
        elif read.body == b"wanted":
            found.append(cursor.offset - 1)
    assert found == [0, 700, 701, 2999]
    assert interruptions > 10
    stream.append(message(b"nothing of that"))
    node.storage.commit()
    assert cursor.next(3000) is None
    assert (cursor.offset, cursor.has_more) == (3000, False)
    node.sync()
    assert cursor.next(3001) is None
    assert cursor.offset == 3001
    node.close()


def test_many_streams_have_few_files_open(tmp_path: Path) -> None:
    """However many streams are written to and read, in turns, descriptors are left for sockets; and nothing is lost."""
    node = OpenNode(tmp_path, segment=20_000)
    streams = [node.storage.open_stream(number) for number in range(200)]
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        for stream in streams:
            _append(stream, 30)
        node.sync()
        for stream in streams:
            assert len(records(stream, 0)) == stream.next_offset
    assert len(list(Path("/proc/self/fd").iterdir())) < before + 140
    node.close()
    node = OpenNode(tmp_path)
    for number in range(200):
        assert _everything(node.storage.open_stream(number)) == list(range(90))
    node.close()


@pytest.mark.parametrize("left", [HEADER_BYTES, HEADER_BYTES + 7, 500])
def test_a_segment_that_was_cut_off(tmp_path: Path, left: int) -> None:
    """A reader gets the rest of a shortened segment and what follows, and the damage is reported."""
    node = OpenNode(tmp_path, segment=1_000)
    stream = node.storage.open_stream(9)
    for number in range(12):
        stream.append(message(b"%d:" % number + bytes(200)))
        node.sync()
    node.close()
    first = min((tmp_path / "streams" / "9").glob("*.stream"))
    with first.open("r+b") as file:
        file.truncate(left)
    node = OpenNode(tmp_path, segment=1_000)
    numbers = [int(record.body.partition(b":")[0]) for _, record in records(node.storage.open_stream(9), 0)]
    behind = int(sorted((tmp_path / "streams" / "9").glob("*.stream"))[1].stem)
    assert numbers[-1] == 11
    assert [number for number in numbers if number >= behind] == list(range(behind, 12))
    assert len(numbers) < 12
    assert [damage.file for damage in node.storage.damage][-1:] == [str(first)]
    node.close()


def test_a_last_segment_with_nothing_intact(tmp_path: Path) -> None:
    """An unreadable last segment stays and is reported, and none of its possible offsets is used again."""
    node = OpenNode(tmp_path)
    stream = node.storage.open_stream(9)
    stream.append(message(b"lost"))
    node.sync()
    node.close()
    (file,) = (tmp_path / "streams" / "9").glob("*.stream")
    data = b"\xff" * 500
    file.write_bytes(data)
    node = OpenNode(tmp_path)
    stream = node.storage.open_stream(9)
    first = stream.next_offset
    assert first > 1
    assert [(damage.position, damage.length) for damage in node.storage.damage] == [(0, 64), (64, 436)]
    assert records(stream, 0) == []
    stream.append(message(b"next"))
    node.sync()
    node.close()
    for _ in range(2):
        node = OpenNode(tmp_path)
        found = [(offset, record.body) for offset, record in records(node.storage.open_stream(9), 0)]
        assert found == [(first, b"next")]
        assert file.read_bytes() == data
        node.close()
