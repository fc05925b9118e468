"""A disk in memory that loses its power: of what was not synced it keeps any part.

The law: a write is there for every reader at once, and durable when a sync of its file has returned. When power fails,
of the writes since then each may be on the disk as a whole, in part (some sectors, or up to some byte) or not at all,
in any order; so may each change of a name since the last sync of its directory. A rename is one change. A failed sync
leaves pages that readers see and that no later sync will write (that is what Linux does).
"""

import errno
import hashlib
import os
import random
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Final, final

from flintmq.storage.files import Disk, DiskFile, DiskLock

# What a disk writes as a whole, mostly.
SECTOR_BYTES: Final = 512


class PowerLoss(BaseException):
    """Out of any call to the disk: no handler of errors may go on behind it."""


# Something that a call may meet: told what is called, and the file's name.
Trouble = Callable[[str, str], None]
_Name = tuple[str, "_Inode | None"]


@final
class _Inode:
    """A file's content as everybody sees it and as it is on the disk, and the writes in between."""

    def __init__(self) -> None:
        self.seen = bytearray()
        self.durable = bytearray()
        # In order; no data means a truncation.
        self.pending: list[tuple[int, bytes | None]] = []

    def write(self, position: int, data: bytes) -> None:
        _put(self.seen, position, data)
        self.pending.append((position, data))

    def truncate(self, size: int) -> None:
        _cut(self.seen, size)
        self.pending.append((size, None))

    def sync(self) -> None:
        for position, data in self.pending:
            self._apply(position, data)
        self.pending.clear()

    def _apply(self, position: int, data: bytes | None) -> None:
        if data is None:
            _cut(self.durable, position)
        else:
            _put(self.durable, position, data)

    def forget(self) -> None:
        """Readers see again what is on the disk, and what is to be written to it."""
        self.seen = bytearray(self.durable)
        for position, data in self.pending:
            if data is None:
                _cut(self.seen, position)
            else:
                _put(self.seen, position, data)

    def fail_to_sync(self, chance: random.Random) -> None:
        """Some of the writes get there; the others never will, though all can be read until the power fails."""
        self._keep_some(chance)
        self.pending.clear()

    def lose_power(self, chance: random.Random) -> None:
        if self.pending:
            longest = len(self.seen)
            self._keep_some(chance)
            self.pending.clear()
            if chance.random() < 0.2:
                # The size got there, and what should fill it did not.
                _put(self.durable, len(self.durable), bytes(max(longest - len(self.durable), 0)))
        self.seen = bytearray(self.durable)

    def _keep_some(self, chance: random.Random) -> None:
        way = chance.random()
        if way < 0.15:
            return
        if way < 0.3:
            self.sync()
        elif way < 0.6:
            self._keep_first(chance)
        else:
            self._keep_sectors(chance)

    def _keep_first(self, chance: random.Random) -> None:
        """The first writes, and the one behind them up to some byte."""
        count = chance.randrange(len(self.pending) + 1)
        for position, data in self.pending[:count]:
            self._apply(position, data)
        if count < len(self.pending):
            position, data = self.pending[count]
            if data:
                _put(self.durable, position, data[: chance.randrange(len(data) + 1)])

    def _keep_sectors(self, chance: random.Random) -> None:
        share = chance.choice((0.1, 0.5, 0.9))
        for position, data in self.pending:
            if data is None:
                if chance.random() < share:
                    self._apply(position, None)
                continue
            at = 0
            while at < len(data):
                step = min(SECTOR_BYTES - (position + at) % SECTOR_BYTES, len(data) - at)
                if chance.random() < share:
                    kept = step if chance.random() < 0.95 else chance.randrange(step)
                    _put(self.durable, position + at, data[at : at + kept])
                at += step


def _put(content: bytearray, position: int, data: bytes) -> None:
    if position > len(content):
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _cut(content: bytearray, size: int) -> None:
    del content[size:]
    content.extend(bytes(size - len(content)))


@final
class SimulatedDisk(Disk):
    """`trouble`, if set, is called before each call and may raise; `capacity` is how many bytes fit in all files."""

    def __init__(self, seed: int = 0) -> None:
        self.trouble: Trouble | None = None
        self.capacity: int | None = None
        self.is_off = False
        # How many calls there were, and how many syncs among them.
        self.calls = 0
        self.syncs = 0
        self._random = random.Random(seed)
        # By whole name: paths are slow to compare.
        self._seen: dict[str, _Inode] = {}
        self._durable: dict[str, _Inode] = {}
        # Changes of names whose directory was not synced since: the directories, and what each name is then.
        self._changes: list[tuple[tuple[str, str], list[_Name]]] = []

    # -- what may happen to it ----------------------------------------------------------------------------------

    def call(self, what: str, path: Path) -> None:
        if self.is_off:
            raise PowerLoss
        self.calls += 1
        if self.trouble is not None:
            self.trouble(what, path.name)

    def lose_power(self, seed: int | None = None) -> None:
        """What was not synced is lost or not, whatever became of the rest. The disk can be used again."""
        chance = self._random if seed is None else random.Random(seed)
        changes = self._changes
        if chance.random() < 0.5:
            kept = changes[: chance.randrange(len(changes) + 1)]
        else:
            kept = [change for change in changes if chance.random() < 0.5]
        for _, names in kept:
            _apply(self._durable, names)
        self._changes = []
        self._seen = dict(self._durable)
        for inode in self._seen.values():
            inode.lose_power(chance)
        self.is_off = False

    def fail_to_sync(self, file: "SimulatedFile") -> None:
        file.inode.fail_to_sync(self._random)

    def fail_to_write_through(self, file: "SimulatedFile", position: int, data: bytes) -> None:
        """The write has failed. Or only its sync has, and with it all that was written to the file before."""
        if self.capacity is None and self._random.random() < 0.5:
            file.inode.write(position, data)
            file.inode.fail_to_sync(self._random)

    def show_unwritten(self, path: Path, content: bytes) -> None:
        """A file that somebody else writes has this content for readers, after a sync of it has failed."""
        inode = self._seen.setdefault(str(path), _Inode())
        self._durable[str(path)] = inode
        inode.truncate(0)
        inode.write(0, content)
        inode.fail_to_sync(self._random)

    def forget(self, path: Path) -> None:
        """Somebody else has removed it for good."""
        self._seen.pop(str(path), None)
        self._durable.pop(str(path), None)

    def content(self, path: Path) -> bytes:
        """What readers of a file see; nothing where there is none."""
        inode = self._seen.get(str(path))
        return b"" if inode is None else bytes(inode.seen)

    def files(self) -> list[str]:
        """The paths of all files that readers see, sorted."""
        return sorted(self._seen)

    def flip_bit(self) -> str:
        """Spoil one bit of what is on the disk; returns the name of the file, empty where there is none."""
        files = [path for path, inode in sorted(self._durable.items()) if inode.durable]
        if not files:
            return ""
        path = self._random.choice(files)
        inode = self._durable[path]
        at = self._random.randrange(len(inode.durable))
        inode.durable[at] ^= 1 << self._random.randrange(8)
        inode.seen = bytearray(inode.durable)
        return path.rpartition("/")[2]

    @property
    def used_bytes(self) -> int:
        return sum(len(inode.seen) for inode in self._seen.values())

    def take_room(self, inode: _Inode, size: int) -> int:
        """How many bytes of a file of this size there is room for."""
        if self.capacity is None:
            return size
        return min(size, max(self.capacity - self.used_bytes + len(inode.seen), len(inode.seen)))

    def random_part(self, size: int) -> int:
        return self._random.randrange(size + 1)

    def copy(self, seed: int) -> "SimulatedDisk":
        """Another disk with the same content, on which nothing fails."""
        other = SimulatedDisk(seed)
        other._seen, other._durable, other._changes = deepcopy((self._seen, self._durable, self._changes))
        return other

    def image(self) -> str:
        """A hash of all that is on the disk."""
        digest = hashlib.sha256()
        for path, inode in sorted(self._durable.items()):
            digest.update(f"{path} {len(inode.durable)}\n".encode())
            digest.update(inode.durable)
        return digest.hexdigest()

    # -- directories --------------------------------------------------------------------------------------------

    def _change(self, directories: tuple[str, str], names: list[_Name]) -> None:
        _apply(self._seen, names)
        self._changes.append((directories, names))

    def make_directory(self, path: Path) -> None:
        self.call("make-directory", path)

    def list_directory(self, path: Path) -> list[str]:
        start = f"{path}/"
        return sorted({file[len(start) :].partition("/")[0] for file in self._seen if file.startswith(start)})

    def sync_directory(self, path: Path) -> None:
        self.call("sync-directory", path)
        self.syncs += 1
        waiting = []
        directory = str(path)
        for directories, names in self._changes:
            if directory in directories:
                _apply(self._durable, names)
            else:
                waiting.append((directories, names))
        self._changes = waiting

    def remove_directory(self, path: Path) -> None:
        self.call("remove-directory", path)
        if self.list_directory(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))

    def rename(self, old: Path, new: Path) -> None:
        self.call("rename", old)
        before, after = str(old), str(new)
        if before in self._seen:
            names: list[_Name] = [(before, None), (after, self._seen[before])]
        else:
            start = f"{before}/"
            inside = [name for name in self._seen if name.startswith(start)]
            if not inside:
                raise _missing(old)
            names = []
            for name in inside:
                names += [(name, None), (f"{after}/{name[len(start) :]}", self._seen[name])]
        self._change((str(old.parent), str(new.parent)), names)

    def unlink(self, path: Path) -> None:
        self.call("unlink", path)
        if str(path) not in self._seen:
            raise _missing(path)
        self._change((str(path.parent), ""), [(str(path), None)])

    # -- files --------------------------------------------------------------------------------------------------

    def create(self, path: Path) -> DiskFile:
        self.call("create", path)
        name = str(path)
        if name not in self._seen:
            self._change((str(path.parent), ""), [(name, _Inode())])
        return SimulatedFile(self, path, self._seen[name])

    def open(self, path: Path) -> DiskFile:
        self.call("open", path)
        inode = self._seen.get(str(path))
        if inode is None:
            raise _missing(path)
        return SimulatedFile(self, path, inode)

    def lock(self, path: Path) -> DiskLock:
        return _Lock()

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)


def _missing(path: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def _apply(names: dict[str, _Inode], change: list[_Name]) -> None:
    for path, inode in change:
        if inode is None:
            names.pop(path, None)
        else:
            names[path] = inode


@final
class _Lock(DiskLock):
    """There is one broker in the simulation."""

    def release(self) -> None:
        pass


@final
class SimulatedFile(DiskFile):
    def __init__(self, disk: SimulatedDisk, path: Path, inode: _Inode) -> None:
        self.path = path
        self.inode = inode
        self._disk = disk

    def write_at(self, position: int, parts: Sequence[bytes | memoryview]) -> None:
        self._write("write", position, b"".join(parts))

    def write_through(self, position: int, parts: Sequence[bytes | memoryview]) -> None:
        """What was written before stays as it was: only these bytes are durable on return. An error may be one of the
        write or one of the sync.
        """
        inode = self.inode
        self._disk.syncs += 1
        before = len(inode.pending)
        data = b"".join(parts)
        try:
            self._write("write-through", position, data)
        except OSError:
            self._disk.fail_to_write_through(self, position, data)
            raise
        for at, written in inode.pending[before:]:
            assert written is not None
            _put(inode.durable, at, written)
        del inode.pending[before:]

    def _write(self, what: str, position: int, data: bytes) -> None:
        inode = self.inode
        try:
            self._disk.call(what, self.path)
        except (OSError, PowerLoss):
            # A write that fails, or that the power fails in, has got somewhere.
            inode.write(position, data[: self._disk.random_part(len(data))])
            raise
        end = self._disk.take_room(inode, position + len(data))
        if end < position + len(data):
            inode.write(position, data[: max(end - position, 0)])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        inode.write(position, data)

    def read_at(self, position: int, size: int) -> bytes:
        self._disk.call("read", self.path)
        return bytes(self.inode.seen[position : position + size])

    def size(self) -> int:
        return len(self.inode.seen)

    def truncate(self, size: int) -> None:
        self._disk.call("truncate", self.path)
        self.inode.truncate(size)

    def sync(self) -> None:
        self._disk.syncs += 1
        try:
            self._disk.call("sync", self.path)
        except OSError:
            self._disk.fail_to_sync(self)
            raise
        self.inode.sync()

    def forget(self) -> None:
        self.inode.forget()

    def close(self) -> None:
        pass
