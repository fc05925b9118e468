"""A real disk that counts what is asked of it, and can be told to fail."""

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from flintmq.storage.files import Disk, DiskFile, DiskLock, RealDisk


class FaultyDisk(Disk):
    """Passes everything on; the call with number `fail_at` (from 0) and all after it raise `error`, or `times` calls.

    With `cuts`, a write that fails leaves half of its bytes behind; with `reads`, calls that only read count, too.
    `calls` is what was asked for, in order: "write name", "sync name", "rename name", ...
    """

    def __init__(
        self,
        fail_at: int | None = None,
        error: int = errno.EIO,
        *,
        times: int = sys.maxsize,
        cuts: bool = False,
        reads: bool = False,
    ) -> None:
        self.fail_at = fail_at
        self.error = error
        self.cuts = cuts
        self.calls: list[str] = []
        self.failed: list[str] = []
        self._times = times
        self._reads = reads
        self._real = RealDisk()

    def count(self, call: str) -> None:
        self.calls.append(call)
        if self.fail_at is not None and self.fail_at < len(self.calls) and len(self.failed) < self._times:
            self.failed.append(call)
            raise OSError(self.error, os.strerror(self.error), call.split()[1])

    def count_read(self, call: str) -> None:
        if self._reads:
            self.count(call)

    def fail_from_now(self) -> None:
        self.fail_at = len(self.calls)

    def make_directory(self, path: Path) -> None:
        self._real.make_directory(path)

    def list_directory(self, path: Path) -> list[str]:
        return self._real.list_directory(path)

    def sync_directory(self, path: Path) -> None:
        self.count(f"sync-directory {path.name}")
        self._real.sync_directory(path)

    def remove_directory(self, path: Path) -> None:
        self.count(f"remove-directory {path.name}")
        self._real.remove_directory(path)

    def create(self, path: Path) -> DiskFile:
        self.count(f"create {path.name}")
        return FaultyFile(self, self._real.create(path))

    def open(self, path: Path) -> DiskFile:
        self.count_read(f"open {path.name}")
        return FaultyFile(self, self._real.open(path))

    def rename(self, old: Path, new: Path) -> None:
        self.count(f"rename {new.name}")
        self._real.rename(old, new)

    def unlink(self, path: Path) -> None:
        self.count(f"unlink {path.name}")
        self._real.unlink(path)

    def is_shared(self, path: Path) -> bool:
        return self._real.is_shared(path)

    def lock(self, path: Path) -> DiskLock:
        return self._real.lock(path)

    def random_bytes(self, count: int) -> bytes:
        return self._real.random_bytes(count)


class FaultyFile(DiskFile):
    def __init__(self, disk: FaultyDisk, real: DiskFile) -> None:
        self.path = real.path
        self._disk = disk
        self._real = real

    def write_at(self, position: int, parts: Sequence[bytes | memoryview]) -> None:
        try:
            self._disk.count(f"write {self.path.name}")
        except OSError:
            if self._disk.cuts:
                whole = b"".join(parts)
                self._real.write_at(position, [whole[: len(whole) // 2]])
            raise
        self._real.write_at(position, parts)

    def read_at(self, position: int, size: int) -> bytes:
        self._disk.count_read(f"read {self.path.name}")
        return self._real.read_at(position, size)

    def size(self) -> int:
        return self._real.size()

    def truncate(self, size: int) -> None:
        self._disk.count(f"truncate {self.path.name}")
        self._real.truncate(size)

    def sync(self) -> None:
        self._disk.count(f"sync {self.path.name}")
        self._real.sync()

    def close(self) -> None:
        self._real.close()
