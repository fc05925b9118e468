"""A disk in memory that loses, on a crash, any part of what was not synced."""

import random
from collections.abc import Sequence
from pathlib import Path

from flintmq.storage.files import Disk, DiskFile, DiskLock

# What a disk writes as a whole.
SECTOR_BYTES = 512


class _Inode:
    """A file's content: as everybody sees it, and as it was synced."""

    def __init__(self) -> None:
        self.seen = bytearray()
        self.synced = b""
        self.dirty: set[int] = set()

    def write(self, position: int, data: bytes) -> None:
        self.seen.extend(bytes(max(position + len(data) - len(self.seen), 0)))
        self.seen[position : position + len(data)] = data
        self.dirty.update(range(position // SECTOR_BYTES, (position + len(data)) // SECTOR_BYTES + 1))

    def sync(self) -> None:
        self.synced = bytes(self.seen)
        self.dirty.clear()

    def crash(self, chance: random.Random) -> None:
        """Of the sectors written since the last sync, the first ones are new, or any; so is the size."""
        left = bytearray(self.synced.ljust(len(self.seen), b"\x00"))
        written = sorted(self.dirty)
        if chance.random() < 0.5:
            written = written[: chance.randrange(len(written) + 1)]
        else:
            written = [sector for sector in written if chance.random() < 0.5]
        for sector in written:
            place = slice(sector * SECTOR_BYTES, (sector + 1) * SECTOR_BYTES)
            left[place] = self.seen[place]
        if self.dirty and chance.random() < 0.3:
            del left[max(len(self.synced), chance.randrange(len(left) + 1)) :]
        self.seen = left
        self.sync()


class LossyDisk(Disk):
    """Each change of a directory that was not synced may be lost, whatever became of the others."""

    def __init__(self) -> None:
        self._seen: dict[Path, _Inode] = {}
        self._synced: dict[Path, _Inode] = {}
        # Changes of names since their directory was synced: the name, and what it stands for from then on.
        self._changes: list[list[tuple[Path, _Inode | None]]] = []
        self._random = 0

    def crash(self, seed: int) -> None:
        chance = random.Random(seed)  # noqa: S311 - a repeatable test
        for change in self._changes:
            if chance.random() < 0.5:
                _apply(self._synced, change)
        self._changes = []
        self._seen = dict(self._synced)
        for inode in self._seen.values():
            inode.crash(chance)

    def _change(self, *change: tuple[Path, _Inode | None]) -> None:
        _apply(self._seen, list(change))
        self._changes.append(list(change))

    def make_directory(self, path: Path) -> None:
        pass

    def list_directory(self, path: Path) -> list[str]:
        return sorted(file.name for file in self._seen if file.parent == path)

    def sync_directory(self, path: Path) -> None:
        for change in self._changes:
            if change[0][0].parent == path:
                _apply(self._synced, change)
        self._changes = [change for change in self._changes if change[0][0].parent != path]

    def remove_directory(self, path: Path) -> None:
        pass

    def create(self, path: Path) -> DiskFile:
        if path not in self._seen:
            self._change((path, _Inode()))
        return self.open(path)

    def open(self, path: Path) -> DiskFile:
        return _LossyFile(path, self._seen[path])

    def rename(self, old: Path, new: Path) -> None:
        self._change((old, None), (new, self._seen[old]))

    def unlink(self, path: Path) -> None:
        self._change((path, None))

    def lock(self, path: Path) -> DiskLock:
        raise NotImplementedError

    def random_bytes(self, count: int) -> bytes:
        # Never the same twice, and the same in each run.
        self._random += 1
        return self._random.to_bytes(count)


def _apply(names: dict[Path, _Inode], change: list[tuple[Path, _Inode | None]]) -> None:
    for path, inode in change:
        if inode is None:
            names.pop(path, None)
        else:
            names[path] = inode


class _LossyFile(DiskFile):
    def __init__(self, path: Path, inode: _Inode) -> None:
        self.path = path
        self._inode = inode

    def write_at(self, position: int, parts: Sequence[bytes]) -> None:
        self._inode.write(position, b"".join(parts))

    def read_at(self, position: int, size: int) -> bytes:
        return bytes(self._inode.seen[position : position + size])

    def size(self) -> int:
        return len(self._inode.seen)

    def truncate(self, size: int) -> None:
        del self._inode.seen[size:]
        self._inode.sync()

    def sync(self) -> None:
        self._inode.sync()

    def close(self) -> None:
        pass
