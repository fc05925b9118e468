"""Backups of a storage that is being written to, in small segments that come and go all the time."""

import os
import time
from pathlib import Path

import pytest

from flintmq.base.errors import StorageError
from flintmq.broker.ports import QueueRecord
from flintmq.cluster.state import NodeState
from flintmq.storage.backup.backup import Backup, BackupResult
from flintmq.storage.backup.hard_links import HardLinks
from flintmq.storage.backup.manifest import Manifest, check
from flintmq.storage.backup.restore import restore
from flintmq.storage.definitions.database import DefinitionDatabase
from flintmq.storage.files import RealDisk
from tests.unit.storage.background_load import STREAM, moving
from tests.unit.storage.nodes import OpenNode, segments

SEGMENT = 20_000


def quiet(_: int) -> None:
    """Ignore the progress."""


def back_up(node: OpenNode, to: Path) -> BackupResult:
    return Backup(node.path, to, "0").take(quiet)


def numbers(bodies: list[bytes]) -> list[int]:
    return [int(body.partition(b":")[0]) for body in bodies]


def left_in(directory: Path) -> tuple[list[int], int]:
    """The numbers on all queues that are defined, and the end of the stream."""
    database = DefinitionDatabase(directory / "definitions.sqlite")
    definitions = database.load()
    queues = tuple(queue.id for queue in definitions.queues)
    database.close()
    found = OpenNode(directory, (1, *queues), segment=SEGMENT)
    left = [number for queue in (1, *queues) for number in numbers(found.bodies(queue))]
    end = found.storage.open_stream(STREAM).next_offset
    assert found.storage.damage == []
    assert all(reader.offset <= end for reader in definitions.reader_offsets)
    found.close()
    return sorted(left), end


@pytest.mark.parametrize(("slowness", "segment"), [(0, SEGMENT), (0.001, SEGMENT), (0.03, 100 * SEGMENT)])
def test_a_backup_is_one_moment(
    disk_path: Path, monkeypatch: pytest.MonkeyPatch, slowness: float, segment: int
) -> None:
    """Messages that move between queues are on exactly one of them, everything confirmed before is there, and nothing
    is damaged, also if a snapshot takes longer than the broker needs to change everything.
    """
    link = HardLinks._link

    def link_slowly(pins: HardLinks, path: str, inode: int) -> bool:
        time.sleep(slowness)
        return link(pins, path, inode)

    monkeypatch.setattr(HardLinks, "_link", link_slowly)
    node = OpenNode(disk_path / "data", segment=segment)
    with moving(node) as mover:
        for number in range(5):
            mover.go_on(100)
            confirmed = mover.confirmed
            taken = back_up(node, disk_path / f"backup{number}")
            oldest = mover.oldest
            assert not taken.manifest.damage
            restored = disk_path / f"restored{number}"
            restore(disk_path / f"backup{number}", restored, taken.manifest, quiet)
            left, end = left_in(restored)
            if left:
                assert left == list(range(left[0], left[-1] + 1))
                assert left[0] <= oldest
            assert max([-1, *left]) >= confirmed
            assert end > confirmed
    assert len(segments(node.path)) < 20
    assert list(node.path.glob(".backup-*")) == []
    node.close()


def test_a_backup_of_a_stopped_broker(tmp_path: Path) -> None:
    """The backup has the same files and definitions, and its manifest matches."""
    node = OpenNode(tmp_path / "data", segment=SEGMENT)
    for _ in range(100):
        node.publish(bytes(1_000))
    node.storage.definitions.put_queue(QueueRecord(1, "/", "q", False, {}))
    node.sync()
    node.close()
    back_up(node, tmp_path / "backup")
    manifest = Manifest.load(tmp_path / "backup")
    assert check(tmp_path / "backup", manifest, quiet) == []
    found = OpenNode(tmp_path / "backup", segment=SEGMENT)
    assert len(found.bodies()) == 100
    assert [queue.name for queue in found.storage.definitions.load().queues] == ["q"]
    found.close()


def test_what_a_broken_off_backup_left_goes(tmp_path: Path) -> None:
    """The links of a killed backup are removed by the next one; those of one that is at work stay."""
    node = OpenNode(tmp_path / "data")
    node.publish(b"x")
    node.sync()
    abandoned = node.path / ".backup-1"
    abandoned.mkdir()
    (abandoned / "1").hardlink_to(segments(node.path)[0])
    working = HardLinks(node.path)
    assert working.update()
    (node.path / f".backup-{os.getpid()}").rename(node.path / ".backup-2")
    back_up(node, tmp_path / "backup")
    assert [path.name for path in node.path.glob(".backup-*")] == [".backup-2"]
    node.close()


def test_a_failed_backup_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed backup leaves neither a part of it, nor links in the broker's directory."""
    node = OpenNode(tmp_path / "data")
    node.publish(b"x")
    node.sync()

    def fail(*_: object) -> str:
        raise OSError(28, "No space left on device", "file")

    monkeypatch.setattr("flintmq.storage.backup.manifest.copy_file", fail)
    with pytest.raises(StorageError, match="file: No space left on device"):
        back_up(node, tmp_path / "backup")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]
    assert list(node.path.glob(".backup-*")) == []
    node.close()


def test_what_cannot_be_backed_up_or_to(tmp_path: Path) -> None:
    """Each refusal says what is wrong and what to do, and nothing was touched."""
    node = OpenNode(tmp_path / "data")
    node.close()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "new.partial").mkdir()
    for directory, destination, words in (
        (tmp_path / "none", tmp_path / "new", "is not a data directory"),
        (node.path, tmp_path / "full", "not empty"),
        (node.path, node.path / "backup", "outside"),
        (node.path, tmp_path / "new", "remove this directory"),
    ):
        with pytest.raises(StorageError, match=words):
            Backup(directory, destination, "0")


def note(directory: Path, *, is_whole: bool) -> None:
    """Write what a node of a cluster notes when it begins to copy the leader's files, and when it has them."""
    state = NodeState(RealDisk(), directory, "c", "b")
    state.is_whole = is_whole
    state.save()


def test_a_node_that_copies_the_files_of_its_leader(tmp_path: Path) -> None:
    """It has to be whole: the refusal says what to do, and leaves nothing."""
    node = OpenNode(tmp_path / "data")
    node.publish(b"x")
    node.sync()
    note(node.path, is_whole=False)
    with pytest.raises(StorageError, match=r"wait until the node is in sync .*, or back up another node"):
        back_up(node, tmp_path / "backup")
    (node.path / ".cluster.json").write_bytes(b"{")
    with pytest.raises(StorageError, match=r"cluster\.json cannot be read .* back up another node"):
        back_up(node, tmp_path / "backup")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]
    (node.path / ".cluster.json").unlink()
    note(node.path, is_whole=True)
    back_up(node, tmp_path / "backup")
    node.close()


@pytest.mark.parametrize(("has_ended", "words"), [(False, "wait until the node is in sync"), (True, "try again")])
def test_a_node_that_begins_to_copy_while_files_are_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_ended: bool, words: str
) -> None:
    """The links may be of files before and after that, also if the copy is complete by now."""
    node = OpenNode(tmp_path / "data")
    node.publish(b"x")
    node.sync()
    note(node.path, is_whole=True)
    update = HardLinks.update

    def update_meanwhile(links: HardLinks) -> bool:
        time.sleep(0.02)
        note(node.path, is_whole=False)
        if has_ended:
            note(node.path, is_whole=True)
        return update(links)

    monkeypatch.setattr(HardLinks, "update", update_meanwhile)
    with pytest.raises(StorageError, match=words):
        back_up(node, tmp_path / "backup")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]
    assert list(node.path.glob(".backup-*")) == []
    node.close()
