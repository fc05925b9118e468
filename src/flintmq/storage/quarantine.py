"""What a broker cannot use is kept in <data>/quarantine, for whoever wants to see what it was.

Damaged bytes are copied to <file>-<position>-<length> there. The stream of a queue that is not defined is moved to
stream-<queue id>: a crash may have left it while its queue was deleted, or its definition may have been lost. The old
definitions, where they were rebuilt, are in definitions-<number>.
"""

from pathlib import Path
from typing import Final, final

from flintmq.storage.block import Damage
from flintmq.storage.files import Disk

DIRECTORY: Final = "quarantine"
ORPHAN_PREFIX: Final = "stream-"
DEFINITIONS_PREFIX: Final = "definitions-"
# What is not a copy of damaged bytes.
_DIRECTORIES: Final = (ORPHAN_PREFIX, DEFINITIONS_PREFIX)
# Of one place: what is damaged is a sector or two, or so much that nobody will look at all of it.
COPY_MAX_BYTES: Final = 1024 * 1024
# Of all places together, so that a disk that breaks is not filled as well.
QUARANTINE_MAX_BYTES: Final = 64 * 1024 * 1024
# Of streams without a queue, all together. One that is too much stays where it is.
ORPHANS_MAX_BYTES: Final = 1024 * 1024 * 1024


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
            copies = [name for name in self._disk.list_directory(directory) if not name.startswith(_DIRECTORIES)]
            self._sizes = {name: self._disk.size_of(directory / name) for name in copies}
        return self._sizes

    def move_stream(self, stream: Path) -> Path | None:
        """Move the directory of a stream; returns where it is then, None where it stays. Raises OSError.

        It stays where there is too much already. An id is never given twice, so it is in nobody's way.
        """
        directory = self._root / DIRECTORY
        self._disk.make_directory(directory)
        names = self._disk.list_directory(directory)
        kept = [directory / name for name in names if name.startswith(ORPHAN_PREFIX)]
        target = directory / f"{ORPHAN_PREFIX}{stream.name}"
        if target in kept or sum(map(self._size_in, [*kept, stream])) > ORPHANS_MAX_BYTES:
            return None
        self._disk.rename(stream, target)
        self._disk.sync_directory(directory)
        self._disk.sync_directory(stream.parent)
        return target

    def _size_in(self, directory: Path) -> int:
        return sum(self._disk.size_of(directory / name) for name in self._disk.list_directory(directory))

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
