"""Starting and ending a node's storage."""

import errno
import shutil
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from flintmq.base.errors import StorageError
from flintmq.broker.message import Entry
from flintmq.broker.ports import QueueRecord
from flintmq.storage.files import DiskLock
from flintmq.storage.node import NodeStorage
from tests.unit.storage.disks import FaultyDisk
from tests.unit.storage.nodes import CODECS, OpenNode, message, segments


class _NoRoomDisk(FaultyDisk):
    def lock(self, path: Path) -> DiskLock:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))


class _KeepingDisk(FaultyDisk):
    """Removes nothing."""

    def unlink(self, path: Path) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))


def test_second_broker_is_refused(tmp_path: Path) -> None:
    """Two brokers cannot share a directory; once the first has closed, the second may have it."""
    node = OpenNode(tmp_path)
    with pytest.raises(StorageError, match="in use by another broker"):
        OpenNode(tmp_path)
    node.close()
    OpenNode(tmp_path).close()


def test_refused_start_lets_go_of_the_directory(tmp_path: Path) -> None:
    """A start that failed does not keep the next one out."""
    OpenNode(tmp_path).close()
    definitions = (tmp_path / "definitions.sqlite").read_bytes()
    (tmp_path / "definitions.sqlite").write_bytes(b"garbage" * 1000)
    with pytest.raises(StorageError, match=r"definitions\.sqlite"):
        OpenNode(tmp_path)
    (tmp_path / "definitions.sqlite").write_bytes(definitions)
    OpenNode(tmp_path).close()


def test_a_file_is_no_data_directory(tmp_path: Path) -> None:
    """A path that is a file, or goes through one, is refused in words."""
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StorageError, match="is not a directory: choose one for the data"):
            OpenNode(path)


def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """Missing rights are found out at the start and said."""
    with pytest.raises(StorageError, match=r"cannot be used \(Permission denied\): choose a directory"):
        OpenNode(tmp_path, disk=_NoRoomDisk())


def test_journal_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """An I/O error while recovering stops the start and names the file."""
    with pytest.raises(StorageError, match=r"cannot be read \(Input/output error\): check the disk"):
        OpenNode(tmp_path, disk=FaultyDisk(fail_at=2))


@pytest.mark.parametrize("cuts", [False, True])
@pytest.mark.parametrize("times", [1, sys.maxsize])
def test_a_start_that_fails_does_no_damage(tmp_path: Path, times: int, cuts: bool) -> None:
    """Whichever call of the disk fails, once or from then on: the next start finds everything, and no damage.

    The journal has a segment that was created in advance, which a start removes.
    """
    node = OpenNode(tmp_path / "data", segment=4_000)
    node.publish(b"x" * 3_000)
    node.sync()
    node.close()
    assert len(segments(tmp_path / "data")) == 2
    disk = FaultyDisk()
    shutil.copytree(tmp_path / "data", tmp_path / "healthy")
    OpenNode(tmp_path / "healthy", disk=disk, segment=4_000).close()
    for number in range(len(disk.calls)):
        path = tmp_path / str(number)
        shutil.copytree(tmp_path / "data", path)
        with suppress(StorageError):
            OpenNode(path, disk=FaultyDisk(number, times=times, cuts=cuts), segment=4_000).close()
        node = OpenNode(path, segment=4_000)
        assert (len(node.bodies()), node.storage.damage) == (1, []), disk.calls[number]
        node.close()


def test_a_start_that_cannot_make_room_is_refused(tmp_path: Path) -> None:
    """The file is named, and the directory is free for the next start."""
    OpenNode(tmp_path, reserve=4_096).close()
    with pytest.raises(StorageError, match=r"reserve cannot be read \(Read-only file system\): check the disk"):
        OpenNode(tmp_path, disk=_KeepingDisk(), reserve=4_096)
    OpenNode(tmp_path, reserve=4_096).close()


def test_directory_is_made(tmp_path: Path) -> None:
    """A data directory that does not exist yet is made, with its parents."""
    OpenNode(tmp_path / "a" / "b").close()
    assert (tmp_path / "a" / "b" / "lock").exists()


def test_close_keeps_what_was_staged(tmp_path: Path) -> None:
    """Closing commits and syncs what nobody committed, and may be done twice."""
    node = OpenNode(tmp_path)
    node.storage.definitions.put_queue(QueueRecord(1, "/", "q"))
    node.publish(b"staged")
    node.storage.journal.settle(1, node.publish(b"settled")[0])
    node.close()
    node.close()
    node = OpenNode(tmp_path)
    assert node.bodies() == [b"staged"]
    assert node.storage.definitions.load().next_queue_id == 2
    node.close()


def test_pages_that_cannot_be_removed_do_not_keep_a_node_from_closing(tmp_path: Path) -> None:
    """All else is closed, so that the directory can be opened again; the next start removes the pages."""
    node = OpenNode(tmp_path, disk=_KeepingDisk())
    node.publish(b"m")
    page = tmp_path / "pages" / "1.pages"
    page.parent.mkdir()
    page.touch()
    node.close()
    node = OpenNode(tmp_path)
    assert (node.bodies(), node.storage.damage, page.exists()) == ([b"m"], [], False)
    node.close()


def test_clean_close_makes_all_of_the_last_segment_known_as_synced(tmp_path: Path) -> None:
    """After a clean close, a broken last block is damage and not taken for a tear."""
    node = OpenNode(tmp_path)
    node.publish(b"last")
    node.sync()
    end = segments(tmp_path)[0].stat().st_size
    node.close()
    data = bytearray(segments(tmp_path)[0].read_bytes())
    data[end - 1] ^= 1
    segments(tmp_path)[0].write_bytes(data)
    node = OpenNode(tmp_path)
    assert (node.bodies(), len(node.storage.damage)) == ([], 1)
    node.close()


def test_restarts_leave_nothing_behind(tmp_path: Path) -> None:
    """Opening and closing again and again does not pile up files."""
    for _ in range(5):
        OpenNode(tmp_path).close()
    assert len(list((tmp_path / "journal").iterdir())) <= 2
    assert len(CODECS) == 1


@pytest.mark.parametrize("kind", ["journal", "notes", "stream"])
def test_definitions_older_than_the_data_are_refused(tmp_path: Path, kind: str) -> None:
    """Definitions that have not given an id that the data mentions are refused, and nothing is changed."""
    node = OpenNode(tmp_path)
    node.storage.definitions.put_queue(QueueRecord(1, "/", "q"))
    node.publish(b"m", 1)
    node.sync()
    if kind == "stream":
        node.storage.open_stream(2).append(message(b"m"))
    else:
        sent = message(b"m")
        node.storage.journal.append(sent, [2 if kind == "journal" else -2], [Entry(sent, 1)])
    node.sync()
    node.close()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.suffix in (".journal", ".stream")}
    for _ in range(2):
        storage = NodeStorage(tmp_path, CODECS, lambda: None)
        queue_ids = {queue.id for queue in storage.definitions.load().queues}
        with pytest.raises(StorageError, match=r"definitions.sqlite is older than the messages .* id 2.*restore it"):
            storage.recover(queue_ids, set())
        storage.close()
        assert {path: path.read_bytes() for path in before} == before
