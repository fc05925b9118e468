"""Segments that are gone, and parts of them: damage that a start and `storage verify` both notice."""

from pathlib import Path

import pytest

from flintmq.broker.ports import QueueRecord
from flintmq.storage.inspection.verification import Verification
from tests.unit.storage.nodes import OpenNode, crashed_copy, segments


def _filled(path: Path) -> OpenNode:
    """Several segments, in all of which something lives."""
    node = OpenNode(path, segment=3_000)
    node.storage.definitions.put_queue(QueueRecord(1, "/", "q"))
    for number in range(40):
        node.publish(b"%03d" % number + bytes(400))
        node.sync()
    return node


def _found(path: Path) -> list[tuple[str, str]]:
    """The damage according to verification and to a start, which must agree on files and reasons."""
    verified = [(Path(damage.file).name, damage.reason) for damage in Verification(path).run(lambda _: None).damage]
    node = OpenNode(path, segment=3_000)
    started = [(Path(damage.file).name, damage.reason) for damage in node.storage.damage]
    node.close()
    assert verified == started
    return started


@pytest.mark.parametrize("is_killed", [False, True])
def test_nothing_is_missing(tmp_path: Path, is_killed: bool) -> None:
    """Starts that write nothing leave gaps between numbers, and dead segments go: none of that is damage."""
    node = _filled(tmp_path / "data")
    path = tmp_path / "data"
    if is_killed:
        path = crashed_copy(node, tmp_path / "killed")
    node.close()
    assert _found(path) == []
    for number in range(3):
        node = OpenNode(path, segment=3_000)
        copy = crashed_copy(node, tmp_path / f"copy {number}")
        for entry in node.left[1]:
            node.storage.journal.settle(1, entry)
        node.publish(b"more")
        node.sync()
        node.close()
        assert _found(path) == []
        assert _found(copy) == []


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("count", [1, 2])
def test_a_segment_from_the_middle(tmp_path: Path, is_killed: bool, count: int) -> None:
    """The messages of a missing segment are lost, and each start reports it until no older segment is left."""
    node = _filled(tmp_path / "data")
    path = crashed_copy(node, tmp_path / "killed") if is_killed else tmp_path / "data"
    node.close()
    gone = segments(path)[3 : 3 + count]
    for each in gone:
        each.unlink()
    for _ in range(2):
        ((file, reason),) = _found(path)
        assert file == gone[-1].name
        assert "the segment is missing" in reason
        assert ("others behind segment 3 may be" in reason) == (count > 1)


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("what", ["missing", "empty"])
def test_the_last_segment(tmp_path: Path, is_killed: bool, what: str) -> None:
    """The definitions know which is the newest that was written to."""
    node = _filled(tmp_path / "data")
    path = crashed_copy(node, tmp_path / "killed") if is_killed else tmp_path / "data"
    node.close()
    *_, last = [each for each in segments(path) if b"\x03\x01" in each.read_bytes()[64:]]
    for each in segments(path):
        if each > last:
            each.unlink()
    if what == "missing":
        last.unlink()
    else:
        last.write_bytes(last.read_bytes()[:64])
    ((file, reason),) = _found(path)
    assert file == last.name
    assert "the segment is missing" in reason if what == "missing" else "ends without its seal" in reason


def test_all_segments(tmp_path: Path) -> None:
    """A journal without any segment is reported, because the definitions know that there was one."""
    node = _filled(tmp_path)
    node.close()
    for each in segments(tmp_path):
        each.unlink()
    ((_, reason),) = _found(tmp_path)
    assert "others behind segment 0 may be" in reason


def test_the_end_of_the_last_segment(tmp_path: Path) -> None:
    """A broker that stopped in order has sealed it."""
    node = _filled(tmp_path)
    node.close()
    *_, last = [each for each in segments(tmp_path) if b"\x03\x01" in each.read_bytes()[64:]]
    data = last.read_bytes()
    last.write_bytes(data[: len(data) - 200])
    ((file, reason),) = _found(tmp_path)
    assert file == last.name
    assert "the end of the file is missing" in reason
    # It has been told, and what comes later is whole.
    assert _found(tmp_path) == []
