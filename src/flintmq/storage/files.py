"""The only module that accesses the disk. The rest of the storage uses a `Disk`, so that a simulated disk can drop,
tear and refuse writes, which a real disk does only rarely.

Errors are OSError with the path. A write or a truncation is durable when `sync` has returned. A name (created, renamed,
removed) is durable when `sync_directory` of its directory has returned.
"""

import errno
import fcntl
import os
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, final

from mypy_extensions import mypyc_attr

from flintmq.base.errors import StorageError
from flintmq.storage.failure import SyncFailed, sync_failed

# Linux accepts at most this many buffers in one vectored write (IOV_MAX); more buffers take several calls.
WRITE_PARTS_MAX: Final = 1_024


@mypyc_attr(allow_interpreted_subclasses=True)
class DiskFile:
    """An open file, read and written at positions: it has no cursor, so that two threads can use it.

    `path` is for error messages; the caller that renames an open file sets it again.
    """

    path: Path

    @abstractmethod
    def write_at(self, position: int, parts: Sequence[bytes | memoryview]) -> None:
        """Write all parts, one after the other, from `position` on."""

    def write_through(self, position: int, parts: Sequence[bytes | memoryview]) -> None:
        """Write all parts, and return when they are durable. Earlier writes need not be durable then."""
        self.write_at(position, parts)
        sync_file(self)

    @abstractmethod
    def read_at(self, position: int, size: int) -> bytes:
        """Read up to `size` bytes from `position` on; fewer only at the end of the file."""

    @abstractmethod
    def size(self) -> int: ...

    @abstractmethod
    def truncate(self, size: int) -> None: ...

    def allocate(self, size: int) -> None:
        """Reserve `size` bytes of the disk for this file, with undefined content. A crash may lose them."""
        self.write_at(0, [bytes(size)])

    @abstractmethod
    def sync(self) -> None:
        """Return when all writes and truncations so far are durable."""

    def forget(self) -> None:
        """Announce that what is synced will not be read soon, so that its memory can hold something else. This is only
        a hint.
        """

    @abstractmethod
    def close(self) -> None: ...


def sync_file(file: DiskFile) -> None:
    """Sync a file. Raises SyncFailed, because a failed sync cannot be retried; a failed write may only have met a full
    disk.
    """
    try:
        file.sync()
    except OSError as error:
        raise sync_failed(error) from error


@mypyc_attr(allow_interpreted_subclasses=True)
class DiskLock:
    @abstractmethod
    def release(self) -> None: ...


@mypyc_attr(allow_interpreted_subclasses=True)
class Disk:
    @abstractmethod
    def make_directory(self, path: Path) -> None:
        """Create a directory and its parents, and sync them; the directory may exist already."""

    @abstractmethod
    def list_directory(self, path: Path) -> list[str]:
        """The names in a directory, sorted; none if it does not exist."""

    @abstractmethod
    def sync_directory(self, path: Path) -> None: ...

    @abstractmethod
    def remove_directory(self, path: Path) -> None: ...

    @abstractmethod
    def create(self, path: Path) -> DiskFile:
        """Open a file for reading and writing; create it if it is missing, otherwise keep its content."""

    @abstractmethod
    def open(self, path: Path) -> DiskFile:
        """Open an existing file for reading and writing."""

    def size_of(self, path: Path) -> int:
        """The length of an existing file in bytes."""
        file = self.open(path)
        try:
            return file.size()
        finally:
            file.close()

    def will_need(self, path: Path, position: int, size: int) -> None:
        """Announce that a part of a file will be read soon, so that the read need not wait for the disk. This is only a
        hint.
        """

    @abstractmethod
    def rename(self, old: Path, new: Path) -> None: ...

    @abstractmethod
    def unlink(self, path: Path) -> None: ...

    def is_shared(self, path: Path) -> bool:
        """Tell whether the file has a second hard link, whose readers would see what is written to it."""
        return False

    @abstractmethod
    def lock(self, path: Path) -> DiskLock:
        """Lock a file for this process. Raises StorageError, which names the other process, if it is locked already."""

    @abstractmethod
    def random_bytes(self, count: int) -> bytes: ...


def leave_to_backup(disk: Disk, path: Path) -> None:
    """Remove the name of a file that a backup has linked: the backup keeps the file, and the name is free for another.
    There may be no file.
    """
    if disk.is_shared(path):
        disk.unlink(path)


def replace_file(disk: Disk, path: Path, draft: Path, data: bytes | memoryview) -> None:
    """Write a file under the name `draft`, and sync it before it gets its name: a crash leaves what was there or the
    whole of `data`. The new name is durable when the directory is synced.
    """
    file = disk.create(draft)
    try:
        file.write_at(0, [data])
        file.truncate(len(data))
        file.sync()
    finally:
        file.close()
    disk.rename(draft, path)


class RealFile(DiskFile):
    def __init__(self, path: Path, flags: int) -> None:
        self.path = path
        self._descriptor = os.open(path, flags | os.O_CLOEXEC, 0o640)

    def write_at(self, position: int, parts: Sequence[bytes | memoryview]) -> None:
        try:
            for first in range(0, len(parts), WRITE_PARTS_MAX):
                position = self._write_some(position, parts[first : first + WRITE_PARTS_MAX], 0)
        except OSError as error:
            raise self._named(error) from error

    def write_through(self, position: int, parts: Sequence[bytes | memoryview]) -> None:
        """Write all parts, and return when they are durable.

        This takes one system call instead of two: after each system call, a thread waits for the interpreter lock,
        which a busy event loop holds.
        """
        if len(parts) > WRITE_PARTS_MAX:
            super().write_through(position, parts)
            return
        try:
            self._write_some(position, parts, os.RWF_DSYNC)
        except SyncFailed:
            raise
        except OSError as error:
            raise self._named(error) from error

    def _write_some(self, position: int, parts: Sequence[bytes | memoryview], flags: int) -> int:
        wanted = 0
        for part in parts:
            wanted += len(part)
        written = os.pwritev(self._descriptor, parts, position, flags)
        if written == wanted:
            return position + wanted
        # Short writes are rare (a signal, a disk that is almost full), so the rest is joined instead of counting parts.
        rest = memoryview(b"".join(parts))
        while written < wanted:
            more = os.pwrite(self._descriptor, rest[written:], position + written)
            if more == 0:
                raise OSError(errno.EIO, "the disk accepts no more bytes")
            written += more
        if flags:
            sync_file(self)
        return position + wanted

    def read_at(self, position: int, size: int) -> bytes:
        try:
            data = os.pread(self._descriptor, size, position)
            if len(data) == size or not data:
                return data
            pieces = [data]
            got = len(data)
            while got < size and (data := os.pread(self._descriptor, size - got, position + got)):
                pieces.append(data)
                got += len(data)
            return b"".join(pieces)
        except OSError as error:
            raise self._named(error) from error

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise self._named(error) from error

    def allocate(self, size: int) -> None:
        try:
            os.posix_fallocate(self._descriptor, 0, size)
        except OSError as error:
            raise self._named(error) from error

    def sync(self) -> None:
        try:
            # fdatasync writes a changed size, too, also a smaller one (fdatasync(2)).
            os.fdatasync(self._descriptor)
        except OSError as error:
            raise self._named(error) from error

    def forget(self) -> None:
        # Errors are ignored: not all file systems know of it.
        with suppress(OSError):
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        os.close(self._descriptor)

    def _named(self, error: OSError) -> OSError:
        return OSError(error.errno, error.strerror, str(self.path))


@final
class RealLock(DiskLock):
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        # The file is not removed: otherwise a third process could lock the removed name while the second holds a new
        # file.
        os.close(self._descriptor)


class RealDisk(Disk):
    """The disk of the machine. The methods that `Disk` does not have are for other processes than the broker."""

    def make_directory(self, path: Path) -> None:
        if path.is_dir():
            return
        self.make_directory(path.parent)
        path.mkdir(0o750)
        self.sync_directory(path.parent)

    def list_directory(self, path: Path) -> list[str]:
        try:
            return sorted(entry.name for entry in path.iterdir())
        except FileNotFoundError:
            return []

    def sync_directory(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error
        finally:
            os.close(descriptor)

    def remove_directory(self, path: Path) -> None:
        path.rmdir()

    def create(self, path: Path) -> DiskFile:
        return RealFile(path, os.O_CREAT | os.O_RDWR)

    def open(self, path: Path) -> DiskFile:
        return RealFile(path, os.O_RDWR)

    def size_of(self, path: Path) -> int:
        return path.stat().st_size

    def open_to_read(self, path: Path) -> DiskFile:
        """Open a file for reading only; it may belong to another process."""
        return RealFile(path, os.O_RDONLY)

    def will_need(self, path: Path, position: int, size: int) -> None:
        # Errors are ignored: reading the file reports them.
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.posix_fadvise(descriptor, position, size, os.POSIX_FADV_WILLNEED)
            finally:
                os.close(descriptor)

    def rename(self, old: Path, new: Path) -> None:
        old.rename(new)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def is_shared(self, path: Path) -> bool:
        try:
            return path.stat().st_nlink > 1
        except FileNotFoundError:
            return False

    def link(self, path: Path, name: Path) -> int:
        """Create a hard link `name` to a file; return its inode."""
        os.link(path, name, follow_symlinks=False)
        return name.lstat().st_ino

    def lock(self, path: Path) -> DiskLock:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise StorageError(
                f"{path.parent} is in use by another broker (process {holder}): stop that broker, "
                "or choose another data directory"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return RealLock(descriptor)

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)
