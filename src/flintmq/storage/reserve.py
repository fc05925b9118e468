"""Room on the disk that is kept for when it is full.

What is on its way to the disk then has to get there, and so do settlements, or nothing would ever be removed: a broker
that filled its disk itself could not be emptied any more. Publishers go on only when there is room for it again.
"""

from pathlib import Path
from typing import Final, final

from flintmq.storage.files import Disk

NAME: Final = "reserve"
# Publishers are stopped at once, so what is on its way is what sockets brought meanwhile; settlements of a million
# messages in random order are as much.
RESERVE_BYTES: Final = 16 * 1024 * 1024


@final
class Reserve:
    """None is kept where `size` is 0."""

    def __init__(self, disk: Disk, directory: Path, size: int) -> None:
        self._disk = disk
        self._path = directory / NAME
        self._size = size
        # Until looked at: one of an earlier run.
        self._is_held = NAME in disk.list_directory(directory)

    def allocate(self) -> None:
        """Raises OSError when there is no room for it."""
        if self._is_held or not self._size:
            return
        file = self._disk.create(self._path)
        self._is_held = True
        try:
            file.allocate(self._size)
        except OSError:
            self.release()
            raise
        finally:
            file.close()

    def release(self) -> bool:
        """Returns whether there was any."""
        if not self._is_held:
            return False
        self._disk.unlink(self._path)
        self._is_held = False
        return True
