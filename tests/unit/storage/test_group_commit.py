"""When a batch is durable, what is synced for whom, and what happens when the disk fails."""

import errno
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.base.errors import StorageError, StorageFenced
from flintmq.broker.message import Entry
from flintmq.broker.ports import QueueRecord
from flintmq.storage.files import DiskFile
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
        assert self._free.wait(10)
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


def test_settlements_alone_are_synced_later(tmp_path: Path) -> None:
    """Batches that only settle share a sync that nobody asked for, soon; a publish does not wait for it."""
    disk = FaultyDisk()
    node = OpenNode(tmp_path, disk=disk)
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
    node.storage.journal.settle(1, entries[5])
    node.storage.commit()
    node.publish(b"awaited")
    started = time.monotonic()
    number = node.sync()
    assert node.storage.durable_batch == number
    assert time.monotonic() - started < 5
    node.close()


def test_commit_with_nothing_staged_is_the_newest_batch(tmp_path: Path) -> None:
    """Waiting for an empty commit covers what was handed over before."""
    node = OpenNode(tmp_path)
    assert node.storage.commit() == 0
    node.publish(b"b")
    number = node.storage.commit()
    assert (number, node.storage.commit()) == (1, 1)
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


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (errno.EIO, r"disk failed: cannot write .*\.journal \(EIO: Input/output error\); check the disk"),
        (errno.ENOSPC, r"disk full: cannot write .*\.journal \(No space left on device\); make room"),
    ],
)
def test_failure_fences(tmp_path: Path, error: int, sentence: str) -> None:
    """After a failed write the storage says what failed and what to do, takes nothing more, and can be closed."""
    disk = FaultyDisk(error=error)
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


def test_failed_sync_is_not_retried(tmp_path: Path) -> None:
    """After a failed sync no other is tried: it could succeed without the pages that were lost."""
    disk = FaultyDisk()
    node = OpenNode(tmp_path, disk=disk)
    disk.fail_at = len(disk.calls) + 1
    node.publish(b"b")
    with pytest.raises(StorageFenced):
        node.sync()
    assert disk.calls[-1].startswith("sync")
    calls = len(disk.calls)
    node.close()
    assert len(disk.calls) == calls


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_whatever_call_fails_nothing_confirmed_is_lost(tmp_path: Path, error: int) -> None:
    """With a fault injected at every disk call in turn, every batch reported durable is there after a restart."""
    fault = 0
    completed = False
    while not completed:
        path = tmp_path / str(fault)
        confirmed, completed = _run_with_fault(path, fault, error)
        node = OpenNode(path)
        assert set(confirmed) <= set(node.bodies()), fault
        assert node.storage.damage == [], fault
        stream = node.storage.open_stream(9)
        assert [read.body for _, read in records(stream, 0)][: len(confirmed)] == confirmed, fault
        node.close()
        fault += 1
    assert fault > 30


def _run_with_fault(path: Path, fault: int, error: int) -> tuple[list[bytes], bool]:
    """Publish batches over three segments; returns those reported durable, and whether nothing failed."""
    disk = FaultyDisk(fault, error)
    confirmed: list[bytes] = []
    try:
        node = OpenNode(path, disk=disk, segment=1000)
    except StorageError:
        return [], False
    stream = node.storage.open_stream(9)
    settled: list[Entry] = []
    try:
        for i in range(7):
            body = b"%d" % i * 300
            node.publish(body)
            stream.append(message(body))
            settled += node.publish(b"other", 2)
            if i % 3 == 2:
                for entry in settled:
                    node.storage.journal.settle(2, entry)
                settled.clear()
            node.sync()
            confirmed.append(body)
    except StorageFenced:
        pass
    node.close()
    return confirmed, not node.storage.failure


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)
