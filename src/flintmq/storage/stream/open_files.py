"""The open files of stream readers: few, whatever the number of streams, segments and readers."""

from pathlib import Path
from typing import Final, final

from flintmq.storage.files import Disk, DiskFile

# Far fewer than the file descriptors that sockets leave to the storage; opening one more costs a reader some ten
# microseconds.
OPEN_FILES_MAX: Final = 64


@final
class OpenFiles:
    """A cache of open files for one thread; if it is full, the least recently used file is closed."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._files: dict[Path, DiskFile] = {}

    def get(self, path: Path) -> DiskFile:
        """Return the open file of this path, and open it if necessary. Raises OSError if it cannot be opened."""
        file = self._files.pop(path, None)
        if file is None:
            if len(self._files) >= OPEN_FILES_MAX:
                self._files.pop(next(iter(self._files))).close()
            file = self._disk.open(path)
        self._files[path] = file
        return file

    def forget(self, path: Path) -> None:
        """Close a removed file, which keeps its disk space while it is open."""
        file = self._files.pop(path, None)
        if file is not None:
            file.close()

    def forget_directory(self, directory: Path) -> None:
        for path in [path for path in self._files if path.parent == directory]:
            self.forget(path)

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()
