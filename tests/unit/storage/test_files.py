"""The real disk: what the rest of storage relies on."""

import os
from pathlib import Path

import pytest

from flintmq.base.errors import StorageError
from flintmq.storage.files import WRITE_PARTS_MAX, RealDisk


def test_many_parts_arrive_whole(tmp_path: Path) -> None:
    """More buffers than one system call takes are written behind each other."""
    file = RealDisk().create(tmp_path / "file")
    parts = [b"%d," % i for i in range(2 * WRITE_PARTS_MAX + 3)]
    file.write_at(5, parts)
    assert file.read_at(5, 1 << 20) == b"".join(parts)
    assert file.size() == 5 + sum(map(len, parts))
    file.close()


def test_short_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a short write, the rest is written, and synced if required."""
    real = os.pwrite
    synced: list[int] = []
    monkeypatch.setattr(os, "pwritev", lambda fd, parts, position, _: real(fd, b"".join(parts)[:3], position))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, position: real(fd, bytes(data[:2]), position))
    monkeypatch.setattr(os, "fdatasync", synced.append)
    file = RealDisk().create(tmp_path / "file")
    file.write_at(0, [b"abcd", b"efgh"])
    assert synced == []
    file.write_through(8, [b"ijkl", b"mnop"])
    assert len(synced) == 1
    assert file.read_at(0, 100) == b"abcdefghijklmnop"
    file.close()


def test_writing_through_asks_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write-through is synced by the write itself, or by a sync after several writes."""
    calls: list[object] = []
    real = os.pwritev

    def pwritev(descriptor: int, parts: list[bytes], position: int, flags: int) -> int:
        calls.append(flags)
        return real(descriptor, parts, position, flags)

    monkeypatch.setattr(os, "pwritev", pwritev)
    monkeypatch.setattr(os, "fdatasync", lambda _: calls.append("sync"))
    file = RealDisk().create(tmp_path / "file")
    file.write_through(0, [b"abc", b"def"])
    assert calls == [os.RWF_DSYNC]
    file.write_through(6, [b"x"] * (WRITE_PARTS_MAX + 1))
    assert calls == [os.RWF_DSYNC, 0, 0, "sync"]
    assert file.read_at(0, 2000) == b"abcdef" + b"x" * (WRITE_PARTS_MAX + 1)
    file.close()


def test_short_reads_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a short read, the rest is read, up to the end of the file."""
    file = RealDisk().create(tmp_path / "file")
    file.write_at(0, [b"abcdefgh"])
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, position: real(fd, min(size, 3), position))
    assert file.read_at(1, 6) == b"bcdefg"
    assert file.read_at(4, 100) == b"efgh"
    file.close()


def test_disk_that_takes_nothing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write of no bytes does not loop for ever; the error names the file."""
    monkeypatch.setattr(os, "pwritev", lambda *_: 0)
    monkeypatch.setattr(os, "pwrite", lambda *_: 0)
    file = RealDisk().create(tmp_path / "file")
    with pytest.raises(OSError, match="accepts no more bytes") as caught:
        file.write_at(0, [b"abcd"])
    assert caught.value.filename == str(tmp_path / "file")
    file.close()


def test_truncated_file_ends_there(tmp_path: Path) -> None:
    """Truncating cuts off what is behind."""
    file = RealDisk().create(tmp_path / "file")
    file.write_at(0, [b"abcdefgh"])
    file.truncate(3)
    assert file.read_at(0, 100) == b"abc"
    file.close()


def test_forgotten_data_is_on_the_disk_only(disk_path: Path) -> None:
    """The system has no copy of it in memory, so that it is read from the disk the next time."""
    path = disk_path / "file"
    file = RealDisk().create(path)
    file.write_at(0, [b"abcd" * 65_536])
    file.sync()
    with path.open("rb") as again:

        def is_in_memory() -> bool:
            try:
                return os.preadv(again.fileno(), [bytearray(4)], 0, os.RWF_NOWAIT) == 4
            except BlockingIOError:
                return False
            except OSError:
                pytest.skip("this file system does not say what is in memory")

        assert is_in_memory()
        file.forget()
        assert not is_in_memory()
    assert file.read_at(0, 8) == b"abcdabcd"
    file.close()


def test_lock_is_for_one(tmp_path: Path) -> None:
    """The second to lock is told who holds it, and gets it when that one lets go."""
    disk = RealDisk()
    held = disk.lock(tmp_path / "lock")
    with pytest.raises(StorageError, match=f"in use by another broker .process {os.getpid()}.: stop that broker"):
        disk.lock(tmp_path / "lock")
    held.release()
    disk.lock(tmp_path / "lock").release()


def test_directories_are_made_with_their_parents(tmp_path: Path) -> None:
    """Making a directory makes its parents, and making it again does nothing."""
    disk = RealDisk()
    disk.make_directory(tmp_path / "a" / "b")
    disk.make_directory(tmp_path / "a" / "b")
    disk.create(tmp_path / "a" / "b" / "z").close()
    disk.create(tmp_path / "a" / "b" / "y").close()
    assert disk.list_directory(tmp_path / "a" / "b") == ["y", "z"]
    assert disk.list_directory(tmp_path / "nowhere") == []
