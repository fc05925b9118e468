"""The one place that touches the disk. Everything else in storage speaks to a `Disk`, so that a simulated one can drop,
tear and refuse what a real one only rarely does.

Errors are OSError with the path in them. A write or a truncation is on the disk when `sync` has returned; a name (made,
renamed, removed) is when `sync_directory` of its directory has.
"""

import errno
import fcntl
import os
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, final

from flintmq.base.errors import StorageError
from flintmq.storage.failure import SyncFailed, sync_failed

# Linux takes at most this many buffers in one vectored write (IOV_MAX); more are written in several calls.
WRITE_PARTS_MAX: Final = 1_024


class DiskFile:
    """An open file, read and written at positions: it has no cursor that two threads could fight over.

    `path` is for errors: whoever renames an open file sets it anew.
    """

    path: Path

    @abstractmethod
    def write_at(self, position: int, parts: Sequence[bytes]) -> None:
        """Write all parts one behind the other."""

    def write_through(self, position: int, parts: Sequence[bytes]) -> None:
        """Write all parts, and return when they are on the disk; what was written before may not be."""
        self.write_at(position, parts)
        sync_file(self)

    @abstractmethod
    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only where the file ends."""

    @abstractmethod
    def size(self) -> int: ...

    @abstractmethod
    def truncate(self, size: int) -> None: ...

    def allocate(self, size: int) -> None:
        """Take up so many bytes of the disk, whatever they hold. They need not be there after a crash."""
        self.write_at(0, [bytes(size)])

    @abstractmethod
    def sync(self) -> None:
        """Return when everything written is on the disk (fdatasync)."""

    @abstractmethod
    def close(self) -> None: ...


def sync_file(file: DiskFile) -> None:
    """Raises SyncFailed, where a write that fails may merely have found no room."""
    try:
        file.sync()
    except OSError as error:
        raise sync_failed(error) from error


class DiskLock:
    @abstractmethod
    def release(self) -> None: ...


class Disk:
    @abstractmethod
    def make_directory(self, path: Path) -> None:
        """Make it and its parents, durably; it may exist already."""

    @abstractmethod
    def list_directory(self, path: Path) -> list[str]:
        """Names in it, sorted; none when it does not exist."""

    @abstractmethod
    def sync_directory(self, path: Path) -> None: ...

    @abstractmethod
    def remove_directory(self, path: Path) -> None: ...

    @abstractmethod
    def create(self, path: Path) -> DiskFile:
        """Open for reading and writing; made when missing, its content kept when not."""

    @abstractmethod
    def open(self, path: Path) -> DiskFile:
        """Open an existing file for reading and writing."""

    def size_of(self, path: Path) -> int:
        """How long an existing file is."""
        file = self.open(path)
        try:
            return file.size()
        finally:
            file.close()

    def will_need(self, path: Path, position: int, size: int) -> None:
        """This part of a file will be read soon: a hint, by which nobody waits for the disk then."""

    @abstractmethod
    def rename(self, old: Path, new: Path) -> None: ...

    @abstractmethod
    def unlink(self, path: Path) -> None: ...

    def is_shared(self, path: Path) -> bool:
        """Whether the file has another name besides: what is written to it would be seen there, too."""
        return False

    @abstractmethod
    def lock(self, path: Path) -> DiskLock:
        """Lock the file for this process; raises StorageError, naming the holder, when another has it."""

    @abstractmethod
    def random_bytes(self, count: int) -> bytes: ...


class RealFile(DiskFile):
    def __init__(self, path: Path, flags: int) -> None:
        self.path = path
        self._descriptor = os.open(path, flags | os.O_CLOEXEC, 0o640)

    def write_at(self, position: int, parts: Sequence[bytes]) -> None:
        try:
            for first in range(0, len(parts), WRITE_PARTS_MAX):
                position = self._write_some(position, parts[first : first + WRITE_PARTS_MAX], 0)
        except OSError as error:
            raise self._named(error) from error

    def write_through(self, position: int, parts: Sequence[bytes]) -> None:
        """One system call instead of two: after each, a thread queues for the interpreter behind a busy event loop."""
        if len(parts) > WRITE_PARTS_MAX:
            super().write_through(position, parts)
            return
        try:
            self._write_some(position, parts, os.RWF_DSYNC)
        except SyncFailed:
            raise
        except OSError as error:
            raise self._named(error) from error

    def _write_some(self, position: int, parts: Sequence[bytes], flags: int) -> int:
        wanted = sum(map(len, parts))
        written = os.pwritev(self._descriptor, parts, position, flags)
        if written == wanted:
            return position + wanted
        # A short write is rare (a signal, a disk almost full): joining the rest is simpler than counting parts.
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
            # fdatasync may leave out a size that only shrank.
            os.fsync(self._descriptor)
        except OSError as error:
            raise self._named(error) from error

    def allocate(self, size: int) -> None:
        try:
            os.posix_fallocate(self._descriptor, 0, size)
        except OSError as error:
            raise self._named(error) from error

    def sync(self) -> None:
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            raise self._named(error) from error

    def close(self) -> None:
        os.close(self._descriptor)

    def _named(self, error: OSError) -> OSError:
        return OSError(error.errno, error.strerror, str(self.path))


@final
class RealLock(DiskLock):
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        # The file stays: removing it would let a third process lock a name the second no longer sees.
        os.close(self._descriptor)


class RealDisk(Disk):
    """The methods that are not a `Disk`'s are for other processes than the broker."""

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
        """Open a file that may be anybody's: it is not written."""
        return RealFile(path, os.O_RDONLY)

    def will_need(self, path: Path, position: int, size: int) -> None:
        # Whoever reads it meets with the error.
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
        """Give a file a second name; returns its inode."""
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
                f"{path.parent} is in use by another broker (process {holder}): stop that one, "
                "or give this one a data directory of its own"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return RealLock(descriptor)

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)
