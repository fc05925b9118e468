"""The disk of a leader: it makes all changes, and writes them to the log of operations for the followers."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final, final

from msgspec import msgpack

from flintmq.base.errors import StorageError
from flintmq.storage.definitions.database import DefinitionDatabase, Statement
from flintmq.storage.files import Disk, DiskFile, DiskLock
from flintmq.storage.layout import DEFINITIONS
from flintmq.storage.replication import operation
from flintmq.storage.replication.log import OperationLog
from flintmq.storage.reserve import NAME as RESERVE

# Names in the data directory that each node has for itself. SQLite writes the definitions: see `operation.APPLY`.
_OWN: Final = ("lock", "pages", RESERVE, "lost+found")


def is_replicated(path: str) -> bool:
    """Whether followers have a file or directory, too. The path is relative to the data directory."""
    first = path.partition("/")[0]
    return first not in _OWN and not first.startswith((DEFINITIONS, "."))


def path_of_name(root: Path, name: str) -> Path:
    """The path of a file that another node has named. Raises StorageError if it is not one that followers have."""
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or parts[0].startswith("/") or not is_replicated(name):
        raise StorageError(f"another node has named a file that followers do not have: {name!r}")
    return root / name


def logs_transactions(log: OperationLog) -> Callable[[Sequence[Statement]], None]:
    """What the definitions are to tell of their transactions, so that followers make them as well."""

    def told(statements: Sequence[Statement]) -> None:
        if log.is_idle:
            log.skip()
            return
        log.append(operation.encode(operation.APPLY, "", 0, [msgpack.encode(statements)]))

    return told


def logs_statements(log: OperationLog) -> Callable[[Path], DefinitionDatabase]:
    """Open definitions whose transactions followers make as well."""
    return partial(DefinitionDatabase, told=logs_transactions(log))


@final
class ReplicatedDisk(Disk):
    """A disk whose changes below `root` followers make as well.

    A write is logged before it is made, so that followers write and sync at the same time. A change of a name is logged
    after it, because it may be refused.
    """

    def __init__(self, disk: Disk, root: Path, log: OperationLog) -> None:
        self._disk = disk
        self._root = root
        self._log = log

    def log(self, kind: int, path: Path, number: int = 0, data: Sequence[bytes | memoryview] = ()) -> None:
        """Log a change, unless only this node has the file."""
        self.log_named(kind, self.name(path), number, data, True)

    def log_named(self, kind: int, name: str, number: int, data: Sequence[bytes | memoryview], is_made: bool) -> int:
        """Log a change of the file with a `name`, which is empty if only this node has it. Returns the number of the
        operation, or 0. Call `made` with it when one that is not made yet is.
        """
        if not name:
            return 0
        if self._log.is_idle:
            return self._log.skip(is_made)
        return self._log.append(operation.encode(kind, name, number, data), is_made)

    def made(self, logged: int) -> None:
        self._log.made(logged)

    def name(self, path: Path) -> str:
        """The path within the directory; empty if followers do not have it."""
        if not path.is_relative_to(self._root):
            return ""
        name = path.relative_to(self._root).as_posix()
        return name if name != "." and is_replicated(name) else ""

    def make_directory(self, path: Path) -> None:
        self._disk.make_directory(path)
        self.log(operation.MAKE_DIRECTORY, path)

    def list_directory(self, path: Path) -> list[str]:
        return self._disk.list_directory(path)

    def sync_directory(self, path: Path) -> None:
        self.log(operation.SYNC_DIRECTORY, path)
        self._disk.sync_directory(path)

    def remove_directory(self, path: Path) -> None:
        self._disk.remove_directory(path)
        self.log(operation.REMOVE_DIRECTORY, path)

    def create(self, path: Path) -> DiskFile:
        file = self._disk.create(path)
        self.log(operation.CREATE, path)
        return _ReplicatedFile(file, self)

    def open(self, path: Path) -> DiskFile:
        return _ReplicatedFile(self._disk.open(path), self)

    def size_of(self, path: Path) -> int:
        return self._disk.size_of(path)

    def will_need(self, path: Path, position: int, size: int) -> None:
        self._disk.will_need(path, position, size)

    def rename(self, old: Path, new: Path) -> None:
        self._disk.rename(old, new)
        self.log(operation.RENAME, old, 0, [self.name(new).encode(errors="surrogateescape")])

    def unlink(self, path: Path) -> None:
        self._disk.unlink(path)
        self.log(operation.UNLINK, path)

    def is_shared(self, path: Path) -> bool:
        return self._disk.is_shared(path)

    def lock(self, path: Path) -> DiskLock:
        return self._disk.lock(path)

    def random_bytes(self, count: int) -> bytes:
        return self._disk.random_bytes(count)


@final
class _ReplicatedFile(DiskFile):
    def __init__(self, file: DiskFile, disk: ReplicatedDisk) -> None:
        self.path = file.path
        self._file = file
        self._disk = disk
        # The name for the path that the file had at the last change: whoever renames it sets another path.
        self._named = self.path
        self._name = disk.name(self.path)

    def _log(self, kind: int, number: int, data: Sequence[bytes | memoryview], is_made: bool = False) -> int:
        if self.path is not self._named:
            self._named = self.path
            self._name = self._disk.name(self.path)
        return self._disk.log_named(kind, self._name, number, data, is_made)

    def write_at(self, position: int, parts: Sequence[bytes | memoryview]) -> None:
        logged = self._log(operation.WRITE, position, parts)
        try:
            self._file.write_at(position, parts)
        finally:
            self._disk.made(logged)

    def write_through(self, position: int, parts: Sequence[bytes | memoryview]) -> None:
        logged = self._log(operation.WRITE_THROUGH, position, parts)
        try:
            self._file.write_through(position, parts)
        finally:
            self._disk.made(logged)

    def read_at(self, position: int, size: int) -> bytes:
        return self._file.read_at(position, size)

    def size(self) -> int:
        return self._file.size()

    def truncate(self, size: int) -> None:
        logged = self._log(operation.TRUNCATE, size, ())
        try:
            self._file.truncate(size)
        finally:
            self._disk.made(logged)

    def allocate(self, size: int) -> None:
        # Followers need not reserve what is undefined.
        self._file.allocate(size)

    def sync(self) -> None:
        self._log(operation.SYNC, 0, (), True)
        self._file.sync()

    def close(self) -> None:
        self._file.close()
