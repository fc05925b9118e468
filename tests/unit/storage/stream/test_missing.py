"""Segments of a stream that are gone: offsets are contiguous, so a start and `storage verify` notice."""

from pathlib import Path

import pytest

from flintmq.broker.ports import QueueRecord
from flintmq.storage.inspection.verification import Verification
from tests.unit.storage.nodes import OpenNode, crashed_copy, message

STREAM = 5


def _filled(path: Path) -> OpenNode:
    """A stream of 30 records in some ten segments."""
    node = OpenNode(path, segment=3_000)
    node.storage.definitions.put_queue(QueueRecord(STREAM, "/", "s", arguments={"x-queue-type": "stream"}))
    stream = node.storage.open_stream(STREAM)
    for _ in range(30):
        stream.append(message(bytes(1_000)))
        node.sync()
    return node


def _segments(path: Path, suffix: str = "stream") -> list[Path]:
    return sorted((path / "streams" / str(STREAM)).glob(f"*.{suffix}"))


def _found(path: Path) -> tuple[list[tuple[str, str]], int]:
    """The damage according to verification and to a start, which must agree; and the offset of the next record."""
    verified = [(Path(damage.file).name, damage.reason) for damage in Verification(path).run(lambda _: None).damage]
    node = OpenNode(path, segment=3_000)
    following = node.storage.open_stream(STREAM).next_offset
    started = [(Path(damage.file).name, damage.reason) for damage in node.storage.damage]
    node.close()
    assert sorted(verified) == sorted(started)
    return started, following


@pytest.mark.parametrize("is_killed", [False, True])
def test_nothing_is_missing(tmp_path: Path, is_killed: bool) -> None:
    """Restarts, and segments that limits have removed, leave no gap."""
    node = _filled(tmp_path / "data")
    path = crashed_copy(node, tmp_path / "killed") if is_killed else tmp_path / "data"
    node.close()
    for number in range(3):
        assert _found(path) == ([], 30 + number)
        node = OpenNode(path, segment=3_000)
        node.storage.open_stream(STREAM).append(message(b"more"))
        node.sync()
        node.close()
    _segments(path)[0].unlink()
    # Retention removes the segment first.
    assert _found(path) == ([], 33)


@pytest.mark.parametrize("with_index", [False, True])
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_segment_from_the_middle(tmp_path: Path, is_killed: bool, with_index: bool) -> None:
    """The records of a missing segment are lost, and each start reports it until no older segment is left."""
    node = _filled(tmp_path / "data")
    path = crashed_copy(node, tmp_path / "killed") if is_killed else tmp_path / "data"
    node.close()
    gone, following = _segments(path)[3:5]
    gone.unlink()
    if not with_index:
        gone.with_suffix(".index").unlink()
    count = int(following.stem) - int(gone.stem)
    for _ in range(2):
        ((file, reason),), end = _found(path)
        assert file == gone.name
        assert reason == f"the segment is missing, with {count} records from offset {int(gone.stem)} on"
        assert end == 30


def test_without_indexes(tmp_path: Path) -> None:
    """Lost indexes are created again from the segments, with the same content."""
    _filled(tmp_path).close()
    for index in _segments(tmp_path, "index"):
        index.unlink()
    assert _found(tmp_path) == ([], 30)
    gone = _segments(tmp_path)[3]
    gone.unlink()
    for index in _segments(tmp_path, "index"):
        index.unlink()
    ((file, _),), _ = _found(tmp_path)
    assert file == gone.name


@pytest.mark.parametrize("count", [1, 10])
def test_the_last_segment(tmp_path: Path, count: int) -> None:
    """The index shows that the last segment is missing; its offsets, which readers have seen, are not used again."""
    _filled(tmp_path).close()
    gone = _segments(tmp_path)[-count:]
    for each in gone:
        each.unlink()
    for _ in range(2):
        found, following = _found(tmp_path)
        assert [file for file, _ in found] == [each.name for each in gone]
        assert following == 30
    node = OpenNode(tmp_path, segment=3_000)
    node.storage.open_stream(STREAM).append(message(b"more"))
    node.sync()
    node.close()
    found, following = _found(tmp_path)
    assert following == 31
    # Where nothing older is left, nothing tells any more that there was something: so it is with what limits remove.
    assert [file for file, _ in found] == [each.name for each in gone if count == 1]
