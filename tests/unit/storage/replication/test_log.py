"""The log of operations: which of them are made."""

from collections.abc import Callable, Sequence
from pathlib import Path

from flintmq.storage.replication.disk import ReplicatedDisk
from flintmq.storage.replication.log import BYTES_AT_ONCE, OperationLog
from tests.sim.disk import SimulatedDisk

ROOT = Path("/data")


def test_what_is_logged_is_not_made_yet() -> None:
    """Files that are copied while the disk works may lack an operation whose number is known already."""
    disk = SimulatedDisk()
    log = OperationLog()
    file = ReplicatedDisk(disk, ROOT, log).create(ROOT / "file")
    seen: list[tuple[bool, bool]] = []

    def look(what: str, name: str) -> None:
        seen.append((log.has_made(log.newest), log.has_made(log.newest - 1)))

    steps: Sequence[Callable[[], None]] = (
        lambda: file.write_at(0, [b"a"]),
        lambda: file.write_through(0, [b"b"]),
        lambda: file.truncate(1),
    )
    for step in steps:
        disk.trouble = look
        step()
        disk.trouble = None
        assert set(seen) == {(False, True)}
        assert log.has_made(log.newest)
        seen.clear()


def test_operations_of_one_message() -> None:
    """They are bounded by bytes, too: a follower says nothing while a message comes, and counts as lost after 2 s."""
    log = OperationLog(100 * BYTES_AT_ONCE)
    large, small = bytes(BYTES_AT_ONCE // 4), b"x"
    for operation in (large, large, large, large, large, small, bytes(2 * BYTES_AT_ONCE), small):
        log.append(operation)
    sizes = []
    number = 0
    while operations := log.after(number, 1024):
        sizes.append([len(each) for each in operations])
        number += len(operations)
    assert sizes == [[len(large)] * 4, [len(large), 1, 2 * BYTES_AT_ONCE], [1]]
    assert log.after(4, 1) == [large]
