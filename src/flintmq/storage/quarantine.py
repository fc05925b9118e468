"""Damaged bytes are copied to <data>/quarantine/<file>-<position>-<length>, for whoever wants to see what they were."""

from pathlib import Path
from typing import Final, final

from flintmq.storage.block import Damage
from flintmq.storage.files import Disk

DIRECTORY: Final = "quarantine"
# Of one place: what is damaged is a sector or two, or so much that nobody will look at all of it.
COPY_MAX_BYTES: Final = 1024 * 1024
# Of all places together, so that a disk that breaks is not filled as well.
QUARANTINE_MAX_BYTES: Final = 64 * 1024 * 1024


@final
class Quarantine:
    """`root` is the data directory. Whatever fails here keeps nothing else from going on."""

    def __init__(self, disk: Disk, root: Path) -> None:
        self._disk = disk
        self._root = root
        self._sizes: dict[str, int] | None = None

    def keep(self, damage: Damage) -> None:
        """Copy what is damaged, and note in `damage` where the copy is. What was copied before is left as it is."""
        if damage.length <= 0:
            return
        try:
            self._keep(damage)
        except OSError:
            # The disk that damages may be unable to give the bytes, or to take them.
            return

    def _keep(self, damage: Damage) -> None:
        source = Path(damage.file)
        place = source.relative_to(self._root) if source.is_relative_to(self._root) else source.name
        name = f"{str(place).replace('/', '-')}-{damage.position}-{damage.length}"
        path = self._root / DIRECTORY / name
        sizes = self._known()
        if name not in sizes:
            size = min(damage.length, COPY_MAX_BYTES)
            if sum(sizes.values()) + size > QUARANTINE_MAX_BYTES:
                return
            self._write(path, self._read(source, damage.position, size))
            sizes[name] = size
        damage.kept_in = str(path)

    def _known(self) -> dict[str, int]:
        if self._sizes is None:
            directory = self._root / DIRECTORY
            self._disk.make_directory(directory)
            self._sizes = {name: self._size(directory / name) for name in self._disk.list_directory(directory)}
        return self._sizes

    def _size(self, path: Path) -> int:
        file = self._disk.open(path)
        try:
            return file.size()
        finally:
            file.close()

    def _read(self, path: Path, position: int, size: int) -> bytes:
        file = self._disk.open(path)
        try:
            return file.read_at(position, size)
        finally:
            file.close()

    def _write(self, path: Path, data: bytes) -> None:
        file = self._disk.create(path)
        try:
            file.write_at(0, [data])
            file.sync()
        finally:
            file.close()
        self._disk.sync_directory(path.parent)
