"""Retention of streams: by size and age, in whole segments, during reads, and across restarts."""

import errno
from pathlib import Path

import pytest

from flintmq.broker.ports import StreamLimits
from flintmq.storage.stream.log import SegmentedStream
from tests.unit.storage.disks import FaultyDisk
from tests.unit.storage.nodes import OpenNode, message, records

# About twelve records of a kilobyte.
SEGMENT = 12_000


class Stream:
    """A stream whose record n was received at n seconds."""

    def __init__(self, path: Path, disk: FaultyDisk | None = None) -> None:
        self.node = OpenNode(path, disk=disk)
        log = self.node.storage.open_stream(1)
        assert isinstance(log, SegmentedStream)
        self.log = log
        self.directory = path / "streams" / "1"

    def limit(self, max_bytes: int = -1, max_age_s: int = -1) -> None:
        self.log.limit(StreamLimits(max_bytes, max_age_s * 1000 if max_age_s >= 0 else -1, SEGMENT))

    def append(self, count: int) -> None:
        for _ in range(count):
            self.log.append(message(b"x" * 1000, self.log.next_offset * 1000))
            self.node.sync()
        self.settle()

    def retire(self, at_s: int = 1) -> None:
        self.log.retire(at_s * 1000)
        self.settle()

    def settle(self) -> None:
        """Files are removed behind a sync, whatever that is for."""
        self.node.publish(b"another queue's")
        self.node.sync()

    def read(self, offset: int = 0) -> list[int]:
        return [found for found, _ in records(self.log, offset)]

    @property
    def segments(self) -> list[int]:
        return sorted(int(path.stem) for path in self.directory.glob("*.stream"))

    @property
    def size(self) -> int:
        return sum(path.stat().st_size for path in self.directory.glob("*.stream"))


def test_by_bytes(tmp_path: Path) -> None:
    """No more files are kept than the limit lets, looked at whenever one is begun; the rest is read from the first."""
    stream = Stream(tmp_path)
    stream.limit(max_bytes=5 * SEGMENT)
    for _ in range(20):
        stream.append(10)
        assert stream.size <= 6 * SEGMENT
        assert stream.segments[0] == stream.log.first_offset
        assert stream.read() == list(range(stream.log.first_offset, stream.log.next_offset))
    assert stream.log.first_offset > 100
    first = stream.log.first_offset
    stream.node.close()
    stream = Stream(tmp_path)
    assert (stream.log.first_offset, stream.log.next_offset) == (first, 200)
    assert sorted(path.suffix for path in stream.directory.iterdir()).count(".index") == len(stream.segments)
    stream.node.close()


def test_size(tmp_path: Path) -> None:
    """How many bytes of files there are is known as they grow and go, and after a restart before anybody reads."""
    stream = Stream(tmp_path)
    assert (stream.log.size_bytes, stream.log.segment_count) == (0, 0)
    stream.limit(max_bytes=5 * SEGMENT)
    for _ in range(3):
        stream.append(40)
        assert (stream.log.size_bytes, stream.log.segment_count) == (stream.size, len(stream.segments))
    assert stream.log.first_offset > 0
    assert stream.size > 4 * SEGMENT
    stream.node.close()
    stream = Stream(tmp_path)
    assert (stream.log.size_bytes, stream.log.segment_count) == (stream.size, len(stream.segments))
    stream.node.close()


def test_by_age(tmp_path: Path) -> None:
    """A segment goes once all in it is too old: when another is begun, or when the time is told."""
    stream = Stream(tmp_path)
    stream.limit(max_age_s=50)
    stream.append(100)
    kept = stream.segments
    # The newest record of what went is older than 50 seconds, that of what stayed is not.
    assert kept[0] <= 100 - 50 < kept[1] + 12
    stream.retire(at_s=120)
    assert stream.segments[0] <= 120 - 50 < stream.segments[1]
    stream.retire(at_s=1_000_000)
    assert stream.segments == kept[-1:]
    assert stream.read() == list(range(kept[-1], 100))
    stream.append(20)
    assert len(stream.segments) > 1
    stream.node.close()


def test_nothing_goes_without_limits(tmp_path: Path) -> None:
    """A limit that was withdrawn before it was applied removes nothing, as at a start where a policy is wider than an
    argument.
    """
    stream = Stream(tmp_path)
    stream.limit()
    stream.append(50)
    stream.node.close()
    stream = Stream(tmp_path)
    stream.limit(max_bytes=0, max_age_s=0)
    stream.log.retire(10**9)
    stream.limit()
    stream.settle()
    assert stream.read() == list(range(50))
    stream.node.close()


def test_many_go_in_parts(tmp_path: Path) -> None:
    """Many segments are removed in parts, so that publishers do not wait for all of them."""
    stream = Stream(tmp_path)
    stream.limit()
    stream.append(400)
    count = len(stream.segments)
    assert count > 33
    stream.limit(max_bytes=0)
    left = []
    stream.retire()
    while stream.log.retires_more:
        left.append(len(stream.segments))
        stream.retire()
    assert left == [count - 16, count - 32]
    assert len(stream.segments) == 1
    stream.node.close()


def test_readers_go_on_at_the_first(tmp_path: Path) -> None:
    """A reader in a kept segment continues there; a reader in a removed one continues at the first record left."""
    stream = Stream(tmp_path)
    stream.limit()
    stream.append(100)
    begun = stream.log.cursor(0, 4096)
    behind = stream.log.cursor(0, 4096)
    seen = []
    for _ in range(5):
        begun.next(100)
        seen.append(begun.offset - 1)
    stream.limit(max_bytes=3 * SEGMENT)
    stream.retire()
    first = stream.log.first_offset
    assert first > 50
    assert behind.next(100) is not None
    assert behind.offset == first + 1
    while begun.next(100) is not None:
        seen.append(begun.offset - 1)
    assert seen[-(100 - first) :] == list(range(first, 100))
    assert seen == sorted(set(seen))
    assert stream.read(5) == list(range(first, 100))
    assert stream.log.offset_at(0) == first
    stream.node.close()


def test_removed_files_are_not_held_open(tmp_path: Path) -> None:
    """A file that somebody has open takes room on the disk although it is gone."""
    stream = Stream(tmp_path)
    stream.limit()
    stream.append(50)
    assert stream.read() == list(range(50))
    stream.limit(max_bytes=0)
    stream.retire()
    stream.read()
    held = [path for path in Path("/proc/self/fd").iterdir() if str(tmp_path) in str(path.resolve())]
    assert [path for path in held if "deleted" in str(path.resolve())] == []
    stream.node.close()


def test_a_removal_that_fails_for_now(tmp_path: Path) -> None:
    """A segment that could not be removed on a full disk is removed before the later ones."""
    disk = FaultyDisk()
    stream = Stream(tmp_path, disk)
    stream.limit()
    stream.append(60)
    files = stream.log.files
    before = stream.segments
    stream.limit(max_bytes=0)
    stream.log.retire(1)
    disk.error = errno.ENOSPC
    disk.fail_from_now()
    with pytest.raises(OSError, match="No space left"):
        files.tidy()
    assert (stream.segments, stream.log.first_offset, files.retires_more) == (before, 0, True)
    disk.fail_at = None
    assert stream.read() == list(range(60))
    stream.retire()
    assert stream.segments == before[-1:]
    stream.node.close()


@pytest.mark.parametrize("fails", ["unlink", "sync-directory"])
def test_a_removal_that_is_cut_short(tmp_path: Path, fails: str) -> None:
    """Whatever call fails, the rest of the stream has no gap behind its first record."""
    stream = Stream(tmp_path / "whole")
    stream.limit()
    stream.append(60)
    stream.node.close()
    assert len(stream.segments) > 4
    for count in range(4):
        disk = FaultyDisk()
        again = Stream(tmp_path / "whole", disk)
        before = again.segments
        again.limit(max_bytes=len(before[:-1]) * SEGMENT - 1)
        calls: list[str] = []

        def fail(call: str, calls: list[str] = calls, count: int = count) -> None:
            calls.append(call)
            if calls.count(call) > count and call.startswith(fails):
                raise OSError(5, "broken", call)

        disk.count = fail  # type: ignore[method-assign]
        again.log.retire(1)
        again.node.storage.close()
        stream = Stream(tmp_path / "whole")
        assert stream.read() == list(range(stream.log.first_offset, 60))
        stream.node.close()
