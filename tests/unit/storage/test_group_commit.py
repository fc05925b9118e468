"""When a batch is durable, what is synced for whom, and what happens when the disk fails."""

import errno
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from flintmq.base.errors import StorageFenced
from flintmq.broker.ports import QueueRecord
from flintmq.storage.definitions.database import DefinitionDatabase, connect
from flintmq.storage.files import DiskFile
from flintmq.storage.group_commit import FULL_RETRY_SECONDS, Batch, GroupCommit, Rounds, SyncThread
from tests.unit.storage.disks import FaultyDisk, FaultyFile
from tests.unit.storage.nodes import OpenNode, message, records


class _HeldDisk(FaultyDisk):
    """Syncs of journal files wait until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.free = threading.Event()
        self.free.set()

    def create(self, path: Path) -> DiskFile:
        return _HeldFile(self, super().create(path))


class _HeldFile(FaultyFile):
    def __init__(self, disk: _HeldDisk, real: DiskFile) -> None:
        super().__init__(disk, real)
        self._free = disk.free

    def sync(self) -> None:
        assert self._free.wait(60)
        super().sync()


def _journal_calls(disk: FaultyDisk) -> list[str]:
    return [call.split()[0] for call in disk.calls if call.endswith(".journal")]


def test_durable_only_after_the_sync(tmp_path: Path) -> None:
    """A batch that was written but not synced is not durable."""
    disk = _HeldDisk()
    node = OpenNode(tmp_path, disk=disk)
    disk.free.clear()
    node.publish(b"b")
    number = node.storage.commit()
    _until(lambda: "write" in _journal_calls(disk))
    assert node.storage.durable_batch == number - 1
    assert node.storage.backlog_bytes > 0
    disk.free.set()
    node.wait_for(number)
    assert node.storage.backlog_bytes == 0
    node.close()


def test_batches_that_wait_share_a_sync(tmp_path: Path) -> None:
    """While one sync runs, later batches gather; the next write and sync cover them all."""
    disk = _HeldDisk()
    node = OpenNode(tmp_path, disk=disk)
    disk.free.clear()
    disk.calls.clear()
    node.publish(b"first")
    node.storage.commit()
    _until(lambda: "write" in _journal_calls(disk))
    number = 0
    for i in range(20):
        node.publish(b"%d" % i)
        number = node.storage.commit()
    disk.free.set()
    node.wait_for(number)
    assert _journal_calls(disk) == ["write", "sync", "write", "sync"]
    node.close()


class _Stepped(GroupCommit):
    """Collects batches; the test runs the rounds."""

    def __init__(self, rounds: Rounds) -> None:
        self.rounds = rounds
        self.inbox: list[Batch] = []

    def submit(self, batch: Batch) -> None:
        self.inbox.append(batch)

    def run(self, began: float, ended: float) -> None:
        batches, self.inbox = self.inbox, []
        assert self.rounds.round(batches, False, began)
        self.rounds.end(ended)

    def close(self) -> None:
        self.rounds.round(self.inbox, True, 0.0)


def test_a_sync_waits_for_those_that_wait_for_each_confirm(tmp_path: Path) -> None:
    """It expects the messages that the last sync confirmed, and those that came during it; definitions do not wait."""
    commits: list[_Stepped] = []

    def step(rounds: Rounds) -> GroupCommit:
        commits.append(_Stepped(rounds))
        return commits[0]

    node = OpenNode(tmp_path, group_commit=step)
    commit = commits[0]
    stream = node.storage.open_stream(9)
    for body in (b"first", b"second"):
        node.publish(body)
        node.storage.commit()
    commit.run(1.0, 1.001)
    assert sum(commit.rounds.seconds.counts) == 1
    stream.append(message(b"during"))
    node.storage.commit()
    assert commit.rounds.wait_seconds(commit.inbox, 1.001) == pytest.approx(0.001)
    node.publish(b"third")
    node.storage.commit()
    assert commit.rounds.wait_seconds(commit.inbox, 1.001) == pytest.approx(0.001)
    node.publish(b"fourth")
    node.storage.commit()
    assert commit.rounds.wait_seconds(commit.inbox, 1.001) == 0
    commit.inbox.pop()
    node.storage.definitions.put_queue(QueueRecord(1, "/", "q"))
    node.storage.commit()
    assert commit.rounds.wait_seconds(commit.inbox, 1.001) == 0
    node.close()


def test_settlements_alone_are_synced_later(tmp_path: Path) -> None:
    """Batches that only settle share a sync that nobody asked for, soon; a publish does not wait for it."""
    delayed: list[Rounds] = []

    def delay(rounds: Rounds) -> GroupCommit:
        # Long enough for a busy machine to commit all of them in it.
        rounds.settlement_delay_seconds = 3.0
        delayed.append(rounds)
        return SyncThread(rounds)

    disk = FaultyDisk()
    node = OpenNode(tmp_path, disk=disk, group_commit=delay)
    entries = [node.publish(b"b")[0] for _ in range(10)]
    node.sync()
    disk.calls.clear()
    number = 0
    for entry in entries[:5]:
        node.storage.journal.settle(1, entry)
        number = node.storage.commit()
        time.sleep(0.002)
    node.wait_for(number)
    assert _journal_calls(disk).count("sync") < 5
    delayed[0].settlement_delay_seconds = 3_600.0
    node.storage.journal.settle(1, entries[5])
    node.storage.commit()
    node.publish(b"awaited")
    number = node.sync()
    assert node.storage.durable_batch == number
    node.close()


def test_the_first_batch_is_synced_at_once(tmp_path: Path) -> None:
    """It only has what the journal says of the definitions, but clients of a new leader wait for it."""

    def delay(rounds: Rounds) -> GroupCommit:
        rounds.settlement_delay_seconds = 3_600.0
        return SyncThread(rounds)

    node = OpenNode(tmp_path, group_commit=delay)
    node.wait_for(node.storage.commit())
    node.close()


def test_commit_with_nothing_staged_is_the_newest_batch(tmp_path: Path) -> None:
    """Waiting for an empty commit covers what was handed over before."""
    node = OpenNode(tmp_path)
    # The first one has what the journal says of the definitions.
    assert node.storage.commit() == 1
    assert node.storage.commit() == 1
    node.publish(b"b")
    number = node.storage.commit()
    assert (number, node.storage.commit()) == (2, 2)
    node.wait_for(number)
    node.close()


def test_definitions_are_durable_before_messages(tmp_path: Path) -> None:
    """When the journal cannot be written, the queue declared in the same batch is there; never the reverse."""
    disk = FaultyDisk()
    node = OpenNode(tmp_path, disk=disk)
    node.storage.definitions.put_queue(QueueRecord(1, "/", "q"))
    node.publish(b"b")
    disk.fail_from_now()
    with pytest.raises(StorageFenced):
        node.sync()
    node.close()
    node = OpenNode(tmp_path)
    assert [queue.name for queue in node.storage.definitions.load().queues] == ["q"]
    assert node.bodies() == []
    node.close()


def test_a_queue_is_not_deleted_before_earlier_batches_are_durable(tmp_path: Path) -> None:
    """A batch with definitions waits for those before it, which may have moved the queue's messages elsewhere."""
    disk = _HeldDisk()
    node = OpenNode(tmp_path, disk=disk)
    node.storage.definitions.put_queue(QueueRecord(1, "/", "q"))
    node.sync()
    disk.free.clear()
    node.publish(b"held")
    node.storage.commit()
    node.publish(b"dead-lettered", 2)
    node.storage.commit()
    node.storage.definitions.delete_queue("/", "q")
    node.storage.commit()
    disk.fail_from_now()
    disk.free.set()
    _until(lambda: bool(node.storage.failure))
    node.close()
    node = OpenNode(tmp_path)
    assert [queue.name for queue in node.storage.definitions.load().queues] == ["q"]
    node.close()


def test_a_batch_that_counts_on_those_before_is_written_behind_them(tmp_path: Path) -> None:
    """A stream grows by what such a batch has for it once the journal has the batches before."""
    disk = _HeldDisk()
    node = OpenNode(tmp_path, disk=disk)
    stream = node.storage.open_stream(9)
    disk.free.clear()
    disk.calls.clear()
    node.publish(b"first")
    node.storage.commit()
    _until(lambda: "write" in _journal_calls(disk))
    node.publish(b"before")
    node.storage.commit()
    node.storage.begin_behind()
    stream.append(message(b"behind"))
    number = node.storage.commit()
    disk.free.set()
    node.wait_for(number)
    calls = [call for call in disk.calls if call.endswith((".stream", ".journal"))]
    before = calls[: calls.index("write 00000000000000000000.stream")]
    assert [call.split()[0] for call in before if call.endswith(".journal")] == ["write", "sync", "write", "sync"]
    node.close()


def test_failure_fences(tmp_path: Path) -> None:
    """After a failed write the storage says what failed and what to do, takes nothing more, and can be closed."""
    sentence = r"disk failed: cannot write .*\.journal \(EIO: Input/output error\); check the disk"
    disk = FaultyDisk()
    node = OpenNode(tmp_path, disk=disk)
    node.publish(b"confirmed")
    confirmed = node.sync()
    disk.fail_from_now()
    node.publish(b"lost")
    with pytest.raises(StorageFenced, match=sentence):
        node.sync()
    assert node.storage.durable_batch == confirmed
    assert node.storage.backlog_bytes == 0
    node.publish(b"refused")
    with pytest.raises(StorageFenced, match=sentence):
        node.storage.commit()
    disk.fail_at = None
    calls = len(disk.calls)
    with pytest.raises(StorageFenced):
        node.storage.commit()
    node.close()
    assert disk.calls[calls:] == []


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_failed_sync_is_not_retried(tmp_path: Path, error: int) -> None:
    """After a failed sync no other is tried, not for want of room either: it could succeed without what was lost."""
    disk = FaultyDisk(error=error)
    node = OpenNode(tmp_path, disk=disk)
    disk.fail_at = len(disk.calls) + 1
    node.publish(b"b")
    with pytest.raises(StorageFenced):
        node.sync()
    assert disk.calls[-1].startswith("sync")
    calls = len(disk.calls)
    node.close()
    assert len(disk.calls) == calls


def test_a_full_disk_is_waited_for(tmp_path: Path) -> None:
    """On a full disk nothing becomes durable and the reason is given; with space, everything is written in order."""
    disk = FaultyDisk(error=errno.ENOSPC, cuts=True)
    node = OpenNode(tmp_path, disk=disk)
    node.publish(b"0")
    confirmed = node.sync()
    disk.fail_from_now()
    for number in range(1, 4):
        node.publish(b"%d" % number)
        node.storage.commit()
    _until(lambda: bool(node.storage.full))
    assert "disk full: cannot write" in node.storage.full
    assert (node.storage.durable_batch, node.storage.failure) == (confirmed, "")
    disk.fail_at = None
    node.sync()
    _until(lambda: not node.storage.full)
    node.close()
    node = OpenNode(tmp_path)
    assert node.bodies() == [b"0", b"1", b"2", b"3"]
    assert node.storage.damage == []
    node.close()


def test_what_was_written_is_not_written_twice(tmp_path: Path) -> None:
    """If the journal finds no space, only the journal is written again, not the streams of the batch."""
    disk = FaultyDisk(error=errno.ENOSPC)
    node = OpenNode(tmp_path, disk=disk)
    stream = node.storage.open_stream(9)
    stream.append(message(b"first"))
    node.sync()
    disk.calls.clear()
    # Behind the write and the sync of the stream.
    disk.fail_at = 2
    node.publish(b"b")
    stream.append(message(b"second"))
    node.storage.commit()
    _until(lambda: bool(node.storage.full))
    assert disk.failed[0].endswith(".journal")
    disk.fail_at = None
    node.sync()
    assert len([call for call in disk.calls if call.startswith("write") and call.endswith(".stream")]) == 1
    assert [record.body for _, record in records(stream, 0)] == [b"first", b"second"]
    node.close()


def test_streams_are_durable_before_the_journal(tmp_path: Path) -> None:
    """A message that moves from a queue to a stream is in one of them, whenever the power fails."""
    disk = FaultyDisk()
    node = OpenNode(tmp_path, disk=disk)
    stream = node.storage.open_stream(9)
    entry = node.publish(b"moves", 1)[0]
    node.sync()
    disk.calls.clear()
    stream.append(message(b"moves"))
    node.storage.journal.settle(1, entry)
    node.sync()
    calls = [call for call in disk.calls if call.endswith((".stream", ".journal"))]
    assert calls.index("sync 00000000000000000000.stream") < calls.index("write 00000000000000000001.journal")
    node.close()


def test_definitions_wait_for_room(tmp_path: Path) -> None:
    """SQLite without room takes its transaction back; it is made again, before the messages that need it."""
    connections: list[sqlite3.Connection] = []

    def remembered(path: Path) -> sqlite3.Connection:
        connections.append(connect(path))
        return connections[0]

    node = OpenNode(tmp_path, database=lambda path: DefinitionDatabase(path, remembered))
    (connection,) = connections
    connection.execute("PRAGMA max_page_count = 1")
    node.storage.definitions.put_queue(QueueRecord(1, "/", "q" * 200_000))
    node.publish(b"b")
    number = node.storage.commit()
    _until(lambda: bool(node.storage.full))
    assert "disk full: definitions" in node.storage.full
    assert node.storage.durable_batch < number
    connection.execute("PRAGMA max_page_count = 1000000")
    node.wait_for(number)
    node.close()
    node = OpenNode(tmp_path)
    assert [queue.name[:2] for queue in node.storage.definitions.load().queues] == ["qq"]
    assert node.bodies() == [b"b"]
    node.close()


def test_a_clean_end_does_not_wait_for_room(tmp_path: Path) -> None:
    """Stopping a broker on a full disk ends with an error that names the lost data, and does not hang."""
    disk = FaultyDisk(error=errno.ENOSPC)
    node = OpenNode(tmp_path, disk=disk)
    disk.fail_from_now()
    node.publish(b"b")
    node.storage.commit()
    _until(lambda: bool(node.storage.full))
    node.close()
    assert node.storage.failure.startswith("disk full: cannot write ")


def test_the_reserve_is_for_what_is_on_its_way(tmp_path: Path) -> None:
    """A full disk takes what was handed over already, in the reserve's place; publishers wait until that is back."""
    disk = _SmallDisk()
    node = OpenNode(tmp_path, disk=disk, reserve=100_000)
    node.sync()
    disk.room = 0
    node.publish(bytes(50_000))
    node.sync()
    _until(lambda: bool(node.storage.full))
    disk.room = 10_000
    time.sleep(2 * FULL_RETRY_SECONDS)
    assert node.storage.full
    disk.room = 200_000
    _until(lambda: not node.storage.full)
    assert (tmp_path / "reserve").exists()
    node.close()


class _SmallDisk(FaultyDisk):
    """Has so many bytes left; what a file takes up is given back when it is unlinked."""

    def __init__(self) -> None:
        super().__init__()
        self.room = 1_000_000
        self.used: dict[Path, int] = {}

    def create(self, path: Path) -> DiskFile:
        return _SmallFile(self, super().create(path))

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        self.room += self.used.pop(path, 0)


class _SmallFile(FaultyFile):
    def __init__(self, disk: _SmallDisk, real: DiskFile) -> None:
        super().__init__(disk, real)
        self._small = disk

    def write_at(self, position: int, parts: Sequence[bytes | memoryview]) -> None:
        size = sum(map(len, parts))
        if size > self._small.room:
            raise OSError(errno.ENOSPC, "No space left on device", str(self.path))
        self._small.room -= size
        self._small.used[self.path] = self._small.used.get(self.path, 0) + size
        super().write_at(position, parts)


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)
