"""A file of blocks on a disk that refuses: what a write that failed leaves behind, and what the next makes of it."""

import errno
import time
from pathlib import Path

import pytest

from flintmq.storage.block import BLOCK_HEAD_BYTES, KIND_JOURNAL, TYPE_JOURNAL, scan_blocks
from flintmq.storage.failure import SyncFailed, is_full
from flintmq.storage.files import Disk
from flintmq.storage.segment import BLOCKS_AT_ONCE, SegmentFile, create_segment
from tests.sim.disk import SimulatedDisk
from tests.unit.storage.disks import FaultyDisk

# So much is written once more with what is to be synced.
_AGAIN_BYTES = 1_000


def _segment(directory: Path, disk: Disk) -> SegmentFile:
    return create_segment(disk, directory / "draft", directory / "1.journal", KIND_JOURNAL, 1, 0, _AGAIN_BYTES)


def _blocks(segment: SegmentFile, data: bytes) -> list[bytes]:
    """The blocks of a segment, which has no damage."""
    found = scan_blocks(data, segment.magic, "1.journal", False)
    assert found.damage == []
    return [data[start : start + length] for start, length in zip(found.starts, found.lengths, strict=True)]


def _full_disk() -> FaultyDisk:
    return FaultyDisk(error=errno.ENOSPC, cuts=True)


def test_a_write_without_room_can_be_made_again(tmp_path: Path) -> None:
    """A repeated write replaces the half-written blocks of the first try, and nothing is there twice."""
    disk = _full_disk()
    segment = _segment(tmp_path, disk)
    disk.fail_from_now()
    for _ in range(2):
        with pytest.raises(OSError, match="No space left") as refused:
            segment.write_through(TYPE_JOURNAL, [(b"first",), (b"second",)])
        assert is_full(refused.value)
    disk.fail_at = None
    segment.write_through(TYPE_JOURNAL, [(b"first",), (b"second",)])
    segment.close()
    assert _blocks(segment, (tmp_path / "1.journal").read_bytes()) == [b"first", b"second"]


def test_a_long_write_lets_other_threads_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop does not wait until all blocks of a large write are framed."""
    segment = _segment(tmp_path, FaultyDisk())
    releases: list[float] = []
    monkeypatch.setattr(time, "sleep", releases.append)
    segment.write_through(TYPE_JOURNAL, [(b"b",)] * (BLOCKS_AT_ONCE - 1))
    assert releases == []
    segment.write_through(TYPE_JOURNAL, [(b"b",)] * (2 * BLOCKS_AT_ONCE + 1))
    assert releases == [0, 0]
    segment.close()


def test_a_mark_is_not_lost_with_the_write_that_carried_it(tmp_path: Path) -> None:
    """After a failed write, the file still has its synced position, so that damage before it does not look torn."""
    disk = _full_disk()
    segment = _segment(tmp_path, disk)
    segment.write_through(TYPE_JOURNAL, [(b"first",)])
    disk.fail_from_now()
    with pytest.raises(OSError, match="No space left"):
        segment.write_through(TYPE_JOURNAL, [(b"second",)])
    disk.fail_at = None
    segment.write_through(TYPE_JOURNAL, [(b"second",)])
    segment.close()
    data = bytearray((tmp_path / "1.journal").read_bytes())
    at = data.index(b"first")
    data[at] ^= 1
    found = scan_blocks(bytes(data), segment.magic, "1.journal", False)
    assert [damage.position for damage in found.damage] == [at - BLOCK_HEAD_BYTES]
    assert len(found.starts) == 1


@pytest.mark.parametrize(("size", "calls"), [(100, 1), (_AGAIN_BYTES, 2)])
def test_what_is_synced_later_is_synced_with_the_next_blocks(size: int, calls: int) -> None:
    """Blocks that were written without a sync survive a loss of power after the next blocks are synced; little of them
    is written once more, in the same call of the disk.
    """
    for seed in range(20):
        disk = SimulatedDisk(seed)
        segment = _segment(Path("/data"), disk)
        first = bytes([1]) * size
        segment.write(TYPE_JOURNAL, [(first,)])
        before = disk.calls
        segment.write_through(TYPE_JOURNAL, [(b"second",)])
        assert disk.calls - before == calls
        disk.lose_power()
        assert _blocks(segment, disk.content(Path("/data/1.journal"))) == [first, b"second"]


def test_blocks_that_a_failed_sync_has_lost_are_written_again(tmp_path: Path) -> None:
    """If there is no room to sync, the system may forget what was written before; the next try writes all of it."""
    for seed in range(40):
        disk = SimulatedDisk(seed)
        segment = _segment(tmp_path, disk)
        segment.write(TYPE_JOURNAL, [(b"first",)])

        def refuse(what: str, name: str) -> None:
            raise OSError(errno.ENOSPC, "No space left", name)

        disk.trouble = refuse
        with pytest.raises(OSError, match="No space left"):
            segment.write_through(TYPE_JOURNAL, [(b"second",)])
        disk.trouble = None
        segment.write_through(TYPE_JOURNAL, [(b"second",)])
        disk.lose_power()
        assert _blocks(segment, disk.content(tmp_path / "1.journal")) == [b"first", b"second"]


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_sync_that_failed_is_never_for_want_of_room(tmp_path: Path, error: int) -> None:
    """A failed sync counts as a failure even if the error says that the disk is full."""
    disk = FaultyDisk(error=error)
    segment = _segment(tmp_path, disk)
    segment.write(TYPE_JOURNAL, [(b"first",)])
    disk.fail_from_now()
    with pytest.raises(SyncFailed) as failed:
        segment.sync()
    assert not is_full(failed.value)
    segment.close()


def test_a_segment_that_could_not_be_made_is_made_anew(tmp_path: Path) -> None:
    """No draft is left that might not be what it seems; with room, the segment is made from nothing."""
    disk = FaultyDisk(error=errno.ENOSPC, times=1)
    disk.fail_at = 2
    with pytest.raises(OSError, match="No space left"):
        _segment(tmp_path, disk)
    assert disk.failed == ["sync draft"]
    assert list(tmp_path.iterdir()) == []
    _segment(tmp_path, disk).close()
