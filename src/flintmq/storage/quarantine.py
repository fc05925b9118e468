"""The quarantine, <data>/quarantine: a place for data that the broker cannot use, so that somebody can examine it.

Damaged bytes are copied to <file>-<position>-<length> there. The stream of an undefined queue is moved to
stream-<queue id>: a crash may have left it while its queue was deleted, or its definition may have been lost. When
definitions are rebuilt, the old ones are moved to definitions-<number>.
"""

from pathlib import Path
from typing import Final, final

from flintmq.storage.block import Damage
from flintmq.storage.files import Disk

DIRECTORY: Final = "quarantine"
ORPHAN_PREFIX: Final = "stream-"
DEFINITIONS_PREFIX: Final = "definitions-"
# Names with these prefixes are directories, not copies of damaged bytes.
_DIRECTORIES: Final = (ORPHAN_PREFIX, DEFINITIONS_PREFIX)
# The limit for one damaged part of a file. Usual damage is a sector or two, and larger copies are of little use.
COPY_MAX_BYTES: Final = 1024 * 1024
# The limit for all copies together, so that a failing disk is not filled as well.
QUARANTINE_MAX_BYTES: Final = 64 * 1024 * 1024
# The limit for all moved streams together. A stream that would exceed it stays where it is.
ORPHANS_MAX_BYTES: Final = 1024 * 1024 * 1024


@final
class Quarantine:
    """The quarantine of the data directory `root`. A failure to copy damaged bytes never stops the broker."""

    def __init__(self, disk: Disk, root: Path) -> None:
        self._disk = disk
        self._root = root
        self._sizes: dict[str, int] | None = None

    def keep(self, damage: Damage) -> None:
        """Copy the damaged bytes, and set `damage.kept_in` to the copy. An existing copy is not replaced."""
        if damage.length <= 0:
            return
        try:
            self._keep(damage)
        except OSError:
            # A failing disk may be unable to read the bytes, or to write them.
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
        """Move the directory of a stream to the quarantine; return its new path, or None if it stays where it is.
        Raises OSError.

        It stays if the quarantine is too full. Ids are never used twice, so it is in no other stream's way.
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
