"""Disk space that is reserved for the time when the disk is full.

Batches that are under way, and settlements, must still reach a full disk. Otherwise no message could ever be removed:
a broker that filled its own disk could not be emptied. Publishers continue only when there is space for the reserve
again.
"""

from pathlib import Path
from typing import Final, final

from flintmq.storage.files import Disk

NAME: Final = "reserve"
# Publishers are stopped at once, so only what the sockets had already received is under way. Settlements of a million
# messages in random order need about as much.
RESERVE_BYTES: Final = 16 * 1024 * 1024


@final
class Reserve:
    """A file of `size` bytes that can be released when the disk is full; none if `size` is 0."""

    def __init__(self, disk: Disk, directory: Path, size: int) -> None:
        self._disk = disk
        self._path = directory / NAME
        self._size = size
        # The file of an earlier run counts as the reserve.
        self._is_held = NAME in disk.list_directory(directory)

    def allocate(self) -> None:
        """Create the reserve. Raises OSError if there is not enough disk space."""
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
        """Remove the reserve; return whether there was one."""
        if not self._is_held:
            return False
        self._disk.unlink(self._path)
        self._is_held = False
        return True
