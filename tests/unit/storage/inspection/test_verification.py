"""Verification of intact, torn and damaged directories."""

import random
from pathlib import Path

import pytest

from flintmq.base.errors import StorageError
from flintmq.broker.ports import QueueRecord, TerminusRecord
from flintmq.storage import segment_reader
from flintmq.storage.block import TYPE_JOURNAL, frame_block
from flintmq.storage.inspection import verification
from flintmq.storage.inspection.directory import DataDirectory
from flintmq.storage.inspection.dump import Dump
from flintmq.storage.inspection.report import OPEN, SEALED, TORN, FileReport, Report
from flintmq.storage.inspection.verification import Verification
from tests.unit.storage.background_load import moving
from tests.unit.storage.nodes import CODECS, OpenNode, crashed_copy, message, segments

STREAM = 3


def verify(path: Path) -> Report:
    return Verification(path).run(lambda _: None)


def by_path(report: Report) -> dict[str, FileReport]:
    return {file.path: file for file in report.files}


def filled(path: Path) -> OpenNode:
    """Several segments of 1,000 messages, the first 300 settled, and a stream of 50 records."""
    node = OpenNode(path, segment=20_000)
    for queue_id, name in ((1, "q"), (2, "r"), (STREAM, "s")):
        node.storage.definitions.put_queue(QueueRecord(queue_id, "/", name, False, {}))
    stream = node.storage.open_stream(STREAM)
    entries = []
    for number in range(50):
        for _ in range(20):
            entries += node.publish(bytes(number))
        stream.append(message(bytes(1_000)))
        node.sync()
    for entry in entries[1:300]:
        node.storage.journal.settle(1, entry)
    node.sync()
    return node


def test_what_is_in_each_file(tmp_path: Path) -> None:
    """Messages, live ones and dead ones add up; a stopped broker leaves every file sealed."""
    node = filled(tmp_path)
    node.close()
    report = verify(tmp_path)
    assert (report.messages, report.stream_records, report.damage) == (701, 50, [])
    journal = [file for file in report.files if file.kind == "journal" and file.blocks]
    assert len(journal) > 3
    assert sum(file.messages for file in journal) == sum(file.live + file.dead for file in journal) == 1_000
    assert (journal[0].live, journal[0].dead) == (41, 299)
    assert {file.state for file in journal} == {SEALED}
    assert sum(file.live for file in report.files if file.kind == "stream") == 50
    assert report.definitions is not None
    assert report.definitions["queues"] == 3


def test_messages_of_deleted_queues_are_dead(tmp_path: Path) -> None:
    """Messages of deleted queues are not recovered, and count as dead."""
    node = filled(tmp_path)
    node.storage.definitions.delete_queue("/", "q")
    node.close()
    assert verify(tmp_path).messages == 0


def test_notes_are_no_messages(tmp_path: Path) -> None:
    """Notes of a terminus are live in their file but on no queue; a replaced message is counted once."""
    node = OpenNode(tmp_path)
    node.storage.definitions.put_queue(QueueRecord(1, "/", "q"))
    node.storage.definitions.put_terminus(TerminusRecord(2, "/", "u", "c", "l", "source", 2, "never", 0, b""))
    entry = node.publish(b"before")[0]
    node.publish(b"note", 2)
    node.sync()
    node.storage.journal.replace(1, entry, message(b"after"))
    node.sync()
    node.close()
    report = verify(tmp_path)
    assert (report.messages, report.damage) == (1, [])
    assert sum(file.live for file in report.files) == 2
    assert [line["seq"] for line in Dump(tmp_path, CODECS).messages("q", "/")] == [entry.seq]
    again = OpenNode(tmp_path)
    assert again.bodies(1) == [b"after"]
    again.close()


def test_a_killed_broker_left_nothing_damaged(tmp_path: Path) -> None:
    """The files that were written to are open; what was torn behind their end is told from damage, and counted."""
    node = filled(tmp_path / "data")
    crashed = crashed_copy(node, tmp_path / "crashed")
    node.close()
    report = verify(crashed)
    assert (report.messages, report.damage) == (701, [])
    tail = next(file for file in reversed(report.files) if file.kind == "journal" and file.blocks)
    assert tail.state == OPEN
    path = crashed / tail.path
    magic = path.read_bytes()[32:36]
    data = bytearray(path.read_bytes())
    # A block that is broken, and one behind it with two messages, of which nobody was told that they are safe.
    record = b"\x01" + bytes(4) + b"\x07\x01" + bytes(8) + bytes(4) + bytes(8)
    torn = b"".join(frame_block(magic, TYPE_JOURNAL, (b"x",)))[:-1] + b"y"
    data[tail.end :] = torn + b"".join(frame_block(magic, TYPE_JOURNAL, (record * 2,)))
    path.write_bytes(data)
    found = by_path(verify(crashed))[tail.path]
    assert (found.state, found.lost_blocks, found.lost_messages, found.damage) == (TORN, 1, 2, [])


def test_every_flipped_byte_is_found(tmp_path: Path) -> None:
    """In a stopped broker's segments: as damage, or as a last file that is not sealed any more."""
    filled(tmp_path).close()
    chance = random.Random(7)  # noqa: S311 - a repeatable sample
    intact = by_path(verify(tmp_path))
    ends = {path: file.end for path, file in intact.items() if file.state == SEALED}
    places = [(path, chance.randrange(end)) for path, end in ends.items() for _ in range(12)]
    # Headers and ends are where special cases are.
    places += [(path, at) for path, end in ends.items() for at in (0, 9, 38, 50, end - 1)]
    for path, at in places:
        file = tmp_path / path
        data = file.read_bytes()
        flipped = bytes([data[at] ^ 1 << chance.randrange(8)])
        file.write_bytes(data[:at] + flipped + data[at + 1 :])
        found = by_path(verify(tmp_path))
        assert found[path].damage or found[path].state != SEALED, f"{path} at {at}"
        assert all(not report.damage for other, report in found.items() if other != path)
        file.write_bytes(data)
    assert verify(tmp_path).damage == []


def test_a_file_of_another_number_is_damage(tmp_path: Path) -> None:
    """A segment under another one's name is not taken for it."""
    filled(tmp_path).close()
    first, second = segments(tmp_path)[:2]
    second.write_bytes(first.read_bytes())
    assert "not what its name says" in repr(by_path(verify(tmp_path))[f"journal/{second.name}"].damage)


def test_damaged_definitions_are_reported(tmp_path: Path) -> None:
    """The rest of the directory is read all the same."""
    filled(tmp_path).close()
    (tmp_path / "definitions.sqlite").write_bytes(bytes(5_000))
    report = verify(tmp_path)
    assert report.definitions is None
    assert report.stream_records == 50
    assert [damage.file for damage in report.damage] == [str(tmp_path / "definitions.sqlite")]
    assert str(tmp_path / "definitions.sqlite") in report.damage[0].reason


def test_what_was_set_aside_is_shown(tmp_path: Path) -> None:
    """Damage that a start has met is in the quarantine, and in the file as long as that is there."""
    filled(tmp_path).close()
    file = segments(tmp_path)[1]
    data = bytearray(file.read_bytes())
    data[200] ^= 1
    file.write_bytes(data)
    node = OpenNode(tmp_path, (1, 2), segment=20_000)
    node.storage.quarantine_damage()
    node.close()
    report = verify(tmp_path)
    assert [found.kind for found in report.files if found.path.startswith("quarantine/")] == ["quarantine"]
    assert [damage.file for damage in report.damage] == [str(file)]


def test_nothing_is_written(tmp_path: Path) -> None:
    """Verification writes neither to the files of a stopped broker nor beside them."""
    node = filled(tmp_path / "data")
    crashed = crashed_copy(node, tmp_path / "crashed")
    node.close()
    for path in (tmp_path / "data", crashed):
        before = {file: (file.stat().st_mtime_ns, file.stat().st_size) for file in path.rglob("*")}
        verify(path)
        assert {file: (file.stat().st_mtime_ns, file.stat().st_size) for file in path.rglob("*")} == before


def test_a_running_broker_is_read_as_it_is(tmp_path: Path) -> None:
    """The file that a running broker writes is not reported as torn, and the broker keeps its lock."""
    node = filled(tmp_path)
    report = verify(tmp_path)
    assert report.is_running
    assert (report.messages, report.damage) == (701, [])
    assert "written to" in {file.state for file in report.files}
    node.publish(b"more")
    node.sync()
    node.close()


def test_what_is_gone_before_it_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A running broker may remove a segment as soon as its name was read."""
    node = OpenNode(tmp_path, segment=20_000)
    for _ in range(50):
        node.publish(bytes(1_000))
        node.sync()

    def look(path: Path) -> DataDirectory:
        found = DataDirectory(path)
        segments(path)[0].unlink()
        return found

    monkeypatch.setattr(verification, "DataDirectory", look)
    assert verify(tmp_path).damage == []
    node.close()


def test_what_a_broker_writes_over_is_no_damage(disk_path: Path) -> None:
    """Segments that come and go while they are read are passed over, and neither command calls that damage."""
    node = OpenNode(disk_path, segment=20_000)
    with moving(node) as mover:
        for _ in range(10):
            mover.go_on(20)
            assert verify(disk_path).damage == []
            dump = Dump(disk_path, CODECS)
            assert all(line["queue"] for line in dump.messages(None, "/"))
            assert dump.damage == []
    node.close()


def test_a_file_that_is_written_over_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was removed before it was overwritten is not reported."""
    monkeypatch.setattr(segment_reader, "WINDOW_BYTES", 1_000)
    node = filled(tmp_path)
    first = segments(tmp_path)[0]
    spare = first.with_name("spare")

    def write_over(_: int) -> None:
        if first.exists():
            first.rename(spare)
            spare.write_bytes(bytes(spare.stat().st_size))

    report = Verification(tmp_path).run(write_over)
    assert report.damage == []
    assert f"journal/{first.name}" not in by_path(report)
    spare.rename(first)
    node.close()


def test_what_is_no_data_directory(tmp_path: Path) -> None:
    """Other directories are refused with a message."""
    with pytest.raises(StorageError, match="there is no directory"):
        verify(tmp_path / "none")
    with pytest.raises(StorageError, match="is not a data directory of FlintMQ"):
        verify(tmp_path)
