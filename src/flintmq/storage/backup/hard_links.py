"""Hard links to the files of a data directory, which keep their contents while the broker removes or overwrites files.

The links are in <data>/.backup-<process>, which the backup process keeps locked (flock). A killed process leaves its
directory without a lock; it is removed when the broker starts, or by the next backup.
"""

import errno
import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import final

from flintmq.base.errors import StorageError
from flintmq.storage.files import RealDisk
from flintmq.storage.layout import STAGING_PREFIX, is_segment, logs, state_files


@final
class HardLinks:
    """Second names for the files of a data directory. `paths` maps each linked path to its inode."""

    def __init__(self, directory: Path) -> None:
        self.paths: dict[str, int] = {}
        self._directory = directory
        self._disk = RealDisk()
        self._count = 0
        self._names: dict[str, Path] = {}
        self._staging = directory / f"{STAGING_PREFIX}{os.getpid()}"
        remove_abandoned(directory)
        self._staging.mkdir(0o700)
        self._lock = os.open(self._staging, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def update(self) -> bool:
        """Link exactly the files that exist now; return False if a segment was removed before it could be linked."""
        found = state_files(self._directory)
        for path in [path for path, inode in self.paths.items() if found.get(path) != inode]:
            self._names.pop(path).unlink()
            del self.paths[path]
        return all(self._link(path, inode) for path, inode in found.items() if path not in self.paths)

    def _link(self, path: str, inode: int) -> bool:
        self._count += 1
        name = self._staging / str(self._count)
        try:
            linked = self._disk.link(self._directory / path, name)
            # If the file has lost its first name meanwhile, the broker may overwrite it: it has checked for other names
            # before the link was made.
            kept_its_name = (self._directory / path).lstat().st_ino == linked == inode
        except FileNotFoundError:
            name.unlink(missing_ok=True)
            return not is_segment(path)
        except OSError as error:
            if error.errno in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV):
                raise StorageError(
                    f"{self._directory / path} cannot be linked ({error.strerror}): run this as the broker's user; "
                    "its files have to be on one file system that has hard links"
                ) from error
            raise
        self._names[path] = name
        self.paths[path] = linked
        return kept_its_name

    def are_complete(self) -> bool:
        """Tell whether no segment is missing between the linked ones; newer segments do not count.

        A listing that runs while files are created may show a later file but not an earlier one. The earlier file is
        there now, or was removed together with all before it; then the two newest linked segments are not both there
        any more.
        """
        now = state_files(self._directory)
        there = logs(iter(now))
        for log, held in logs(iter(self.paths)).items():
            if any(now.get(path) != self.paths[path] for path in held[:2]):
                return False
            newer = there[log].index(held[0])
            if not set(there[log][newer:]) <= set(held):
                return False
        return True

    def linked_path(self, path: str) -> Path:
        """The second name of a linked file: read the file by this name."""
        return self._names[path]

    def release(self) -> None:
        shutil.rmtree(self._staging, ignore_errors=True)
        os.close(self._lock)


def remove_abandoned(directory: Path) -> None:
    """Remove the directories of interrupted backups; those of running backups stay."""
    for staging in directory.glob(f"{STAGING_PREFIX}*"):
        with suppress(OSError):
            descriptor = os.open(staging, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(staging, ignore_errors=True)
            finally:
                os.close(descriptor)
