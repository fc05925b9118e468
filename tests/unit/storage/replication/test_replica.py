"""A follower's directory, after any operation of the leader, is one that recovery can start from."""

import random
import shutil
from pathlib import Path

import pytest

from flintmq.storage.backup.backup import Backup
from flintmq.storage.backup.hard_links import HardLinks
from flintmq.storage.backup.manifest import BackupFile, Progress
from flintmq.storage.backup.restore import restore
from flintmq.storage.definitions.database import DefinitionDatabase
from flintmq.storage.files import RealDisk
from flintmq.storage.replication import operation
from flintmq.storage.replication.disk import is_replicated, logs_statements
from flintmq.storage.replication.log import OperationLog
from flintmq.storage.replication.replica import Replica
from tests.sim.database import DatabaseFile
from tests.sim.disk import SimulatedDisk
from tests.unit.storage.nodes import OpenNode


class Leading:
    """A leader's storage, and its log of operations."""

    def __init__(self, path: Path, segment: int = 4096) -> None:
        self.log = OperationLog()
        self.log.on_append = lambda: None
        self.log.hold("a")
        self.log.require(frozenset({"a"}))
        self.node = OpenNode(path, segment=segment, database=logs_statements(self.log), log=self.log)


def following(path: Path) -> Replica:
    path.mkdir(exist_ok=True)
    return Replica(RealDisk(), path, lambda: DefinitionDatabase(path / "definitions.sqlite"))


def contents(path: Path) -> dict[str, bytes]:
    files = [file for file in path.rglob("*") if file.is_file()]
    names = {file.relative_to(path).as_posix(): file for file in files}
    return {name: file.read_bytes() for name, file in names.items() if is_replicated(name)}


def test_every_prefix_is_a_state_after_a_crash(tmp_path: Path) -> None:
    """At each sync the follower has all messages that the leader had synced by then, and the files are the same."""
    leading = Leading(tmp_path / "leader")
    log, node = leading.log, leading.node
    expected: list[tuple[int, int]] = []
    for number in range(60):
        entries = node.publish(b"x" * 200 + str(number).encode())
        node.storage.commit()
        if number % 3:
            node.storage.journal.settle(1, entries[0])
        node.storage.commit()
        while log.newest == (expected[-1][0] if expected else 0):
            pass
        expected.append((log.newest, number))
    log.require(frozenset())
    node.close()
    replica = following(tmp_path / "follower")
    kept = log.after(0, log.newest)
    assert kept is not None
    syncs = 0
    for each in kept:
        syncs += replica.run(each)
        if syncs % 20 == 0:
            copy = tmp_path / "copy"
            shutil.copytree(tmp_path / "follower", copy)
            OpenNode(copy, segment=4096).close()
            shutil.rmtree(copy)
    replica.close()
    assert syncs > 60
    assert contents(tmp_path / "leader") == contents(tmp_path / "follower")
    again = OpenNode(tmp_path / "follower", segment=4096)
    assert [body[200:] for body in again.bodies()] == [str(number).encode() for number in range(0, 60, 3)]
    again.close()


@pytest.mark.parametrize("seed", range(20))
def test_a_follower_loses_power(tmp_path: Path, seed: int) -> None:
    """Recovery finds every message whose operations the follower had made up to a sync, and none that never was."""
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    leading = Leading(tmp_path / "leader")
    log, node = leading.log, leading.node
    # The operation with which each message, and each settlement, is durable.
    published: dict[int, int] = {}
    settled: dict[int, int] = {}
    for number in range(40):
        (entry,) = node.publish(b"x" * chance.randrange(2_000) + b" " + str(number).encode())
        node.storage.commit()
        log.require(frozenset())
        node.sync()
        published[number] = log.newest
        if chance.random() < 0.7:
            node.storage.journal.settle(1, entry)
            settled[number] = log.newest
    node.close()
    kept = log.after(0, log.newest)
    assert kept is not None
    disk = SimulatedDisk(seed)
    root = Path("/data")
    disk.make_directory(root)
    definitions = DatabaseFile(chance, disk, root / "definitions.sqlite")
    replica = Replica(disk, root, lambda: definitions.open(root / "definitions.sqlite"))
    definitions.open(root / "definitions.sqlite").make()
    made = chance.randrange(len(kept) // 4, len(kept))
    durable = 0
    for number, each in enumerate(kept[:made], 1):
        if replica.run(each):
            durable = number
    disk.lose_power()
    recovered = OpenNode(root, disk=disk, segment=4096, database=definitions.open)
    found = {int(body.rpartition(b" ")[2]) for body in recovered.bodies()}
    recovered.close()
    assert found <= {number for number, at in published.items() if at - 20 < made}
    safe = {number for number, at in published.items() if at <= durable and number not in settled}
    assert safe <= found


def test_a_file_that_was_renamed_while_it_was_copied(tmp_path: Path) -> None:
    """The copy has it under its new name, or it is missing until it is created or removed."""
    replica = following(tmp_path)
    replica.is_copying = True
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "1.journal").touch()

    def rename(old: str, new: str) -> None:
        replica.run(operation.encode(operation.RENAME, f"journal/{old}", 0, [f"journal/{new}".encode()]))

    rename("spare", "1.journal")
    assert replica.missing == set()
    rename("spare", "2.journal")
    assert replica.missing == {"journal/2.journal"}
    rename("2.journal", "spare")
    assert replica.missing == {"journal/spare"}
    replica.run(operation.encode(operation.CREATE, "journal/spare"))
    rename("spare", "3.journal")
    assert replica.missing == set()
    rename("spare", "4.journal")
    replica.run(operation.encode(operation.UNLINK, "journal/4.journal"))
    assert replica.missing == set()
    # This one was listed: the file that it replaced may have been copied before.
    replica.vanished.add("journal/draft")
    rename("draft", "1.journal")
    assert replica.missing == {"journal/1.journal"}
    replica.close()


def test_a_file_that_was_copied_in_place_of_an_earlier_one_of_its_name(tmp_path: Path) -> None:
    """An earlier one was there when the copying began, and was renamed. The copy has a later one under that name."""
    replica = following(tmp_path)
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "3.journal").write_bytes(b"the third segment")
    (tmp_path / "journal" / "spare").write_bytes(b"to be the fourth segment")
    replica.is_copying = True

    def change(kind: int, name: str, data: bytes = b"") -> None:
        replica.run(operation.encode(kind, f"journal/{name}", 0, [data]))

    change(operation.RENAME, "spare", b"journal/3.journal")
    assert replica.missing == set()
    change(operation.CREATE, "spare")
    assert replica.missing == {"journal/3.journal"}
    # What begins and ends under a name while the files are copied is whole, and so is a name that is not used again.
    replica.missing.clear()
    change(operation.RENAME, "spare", b"journal/4.journal")
    change(operation.RENAME, "3.journal", b"journal/spare")
    change(operation.CREATE, "spare")
    change(operation.RENAME, "spare", b"journal/5.journal")
    assert replica.missing == set()
    replica.close()


@pytest.mark.parametrize("kind", [operation.WRITE, operation.WRITE_THROUGH, operation.SYNC, operation.TRUNCATE])
def test_what_a_file_was_before_it_was_renamed_is_not_made_again(tmp_path: Path, kind: int) -> None:
    """The copy has the file under its new name, with all that was written under the old one."""
    replica = following(tmp_path)
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "1.journal").write_bytes(b"copied as a whole")
    change = operation.encode(kind, "journal/spare", 7, [b"as"])
    replica.is_copying = True
    replica.run(change)
    replica.run(operation.encode(operation.RENAME, "journal/spare", 0, [b"journal/1.journal"]))
    replica.sync()
    assert contents(tmp_path) == {"journal/1.journal": b"copied as a whole"}
    replica.is_copying = False
    with pytest.raises(FileNotFoundError):
        replica.run(change)
    replica.close()


def test_while_files_are_copied_nothing_is_synced_before_the_end(tmp_path: Path) -> None:
    """There may be more to make again than the leader goes on with meanwhile. What was renamed is synced, too."""
    disk = SimulatedDisk()
    disk.make_directory(tmp_path / "journal")
    calls: list[str] = []
    disk.trouble = lambda what, _: calls.append(what)
    replica = Replica(disk, tmp_path, lambda: DefinitionDatabase(tmp_path / "definitions.sqlite"))
    replica.is_copying = True
    for kind, number, data in (
        (operation.CREATE, 0, b""),
        (operation.WRITE, 0, b"one"),
        (operation.SYNC, 0, b""),
        (operation.WRITE_THROUGH, 3, b"two"),
        (operation.RENAME, 0, b"journal/1.journal"),
    ):
        replica.run(operation.encode(kind, "journal/spare", number, [data]))
    assert "sync" not in calls
    assert "write-through" not in calls
    replica.sync()
    replica.run(operation.encode(operation.SYNC_DIRECTORY, "journal"))
    disk.lose_power()
    assert disk.content(tmp_path / "journal/1.journal") == b"onetwo"
    replica.close()


def test_a_file_of_a_directory_that_is_gone(tmp_path: Path) -> None:
    """It was removed while the files were copied. It is removed again by a later operation."""
    replica = following(tmp_path)
    replica.is_copying = True
    replica.run(operation.encode(operation.WRITE, "streams/5/0001.stream", 0, [b"lost"]))
    replica.run(operation.encode(operation.CREATE, "streams/5/draft"))
    replica.run(operation.encode(operation.UNLINK, "streams/5/draft"))
    replica.run(operation.encode(operation.REMOVE_DIRECTORY, "streams/5"))
    assert not (tmp_path / "streams" / "5").exists()
    replica.close()


def test_a_backup_of_a_follower_whose_segments_are_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the files are copied, all messages of the backup are acknowledged, and others take their places."""
    leading = Leading(tmp_path / "leader")
    log, node = leading.log, leading.node
    replica = following(tmp_path / "follower")
    made = 0

    def repeat() -> None:
        nonlocal made
        log.require(frozenset())
        node.sync()
        for each in log.after(made, log.newest) or ():
            replica.run(each)
        made = log.newest

    entries = [node.publish(b"x" * 1000 + b" %d" % number)[0] for number in range(20)]
    repeat()
    copy_files = Backup._copy_files

    def copy_late(work: Backup, links: HardLinks, ends: dict[str, int], progress: Progress) -> list[BackupFile]:
        for entry in entries:
            node.storage.journal.settle(1, entry)
            repeat()
        for _ in range(20):
            node.storage.journal.settle(1, node.publish(bytes(1000))[0])
            repeat()
        return copy_files(work, links, ends, progress)

    monkeypatch.setattr(Backup, "_copy_files", copy_late)
    taken = Backup(tmp_path / "follower", tmp_path / "backup", "0").take(lambda _: None)
    node.close()
    replica.close()
    assert not taken.manifest.damage
    restore(tmp_path / "backup", tmp_path / "restored", taken.manifest, lambda _: None)
    found = OpenNode(tmp_path / "restored", segment=4096)
    assert [int(body[1000:]) for body in found.bodies()] == list(range(20))
    found.close()


@pytest.mark.parametrize("is_linked", [True, False])
def test_a_file_that_is_created_again(tmp_path: Path, *, is_linked: bool) -> None:
    """Its place on the disk is used again, unless a backup has linked it."""
    replica = following(tmp_path)
    spare = tmp_path / "journal" / "spare"
    spare.parent.mkdir()
    spare.write_bytes(b"an old segment")
    place = spare.stat().st_ino
    linked = tmp_path / "linked"
    if is_linked:
        linked.hardlink_to(spare)
    replica.run(operation.encode(operation.CREATE, "journal/spare"))
    replica.run(operation.encode(operation.WRITE, "journal/spare", 0, [b"a new one"]))
    replica.close()
    if is_linked:
        assert linked.read_bytes() == b"an old segment"
        assert spare.read_bytes() == b"a new one"
    else:
        assert spare.read_bytes() == b"a new onegment"
        assert spare.stat().st_ino == place
