"""The files that readers of streams have open: few, whatever the number of streams, segments and readers."""

from pathlib import Path
from typing import Final, final

from flintmq.storage.files import Disk, DiskFile

# Far below what sockets leave to the storage; opening one more costs a reader some ten microseconds.
OPEN_FILES_MAX: Final = 64


@final
class OpenFiles:
    """For one thread. The file asked for longest ago is closed for one too many."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._files: dict[Path, DiskFile] = {}

    def get(self, path: Path) -> DiskFile:
        """Raises OSError."""
        file = self._files.pop(path, None)
        if file is None:
            if len(self._files) >= OPEN_FILES_MAX:
                self._files.pop(next(iter(self._files))).close()
            file = self._disk.open(path)
        self._files[path] = file
        return file

    def forget(self, path: Path) -> None:
        """The file is gone: as long as it is open, it takes room on the disk."""
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
