"""Restore of a backup into a new data directory."""

import shutil
from pathlib import Path
from typing import Final

from flintmq.base.errors import StorageError
from flintmq.storage.backup import manifest
from flintmq.storage.backup.manifest import Manifest, Progress
from flintmq.storage.files import RealDisk
from flintmq.storage.layout import DEFINITIONS, RESTORING

# A directory with only these files counts as empty.
_NOTHING: Final = ("lock", "lost+found", RESTORING)


def restore(backup: Path, directory: Path, contents: Manifest, progress: Progress) -> None:
    """Copy a backup to `directory`, and check every file; afterwards all files are there and synced, or none is.

    `contents` is the manifest of the backup. Raises StorageError if a file is damaged, or the directory is not empty.
    """
    try:
        _restore(backup, directory, contents, progress)
    except OSError as error:
        raise StorageError(f"{error.filename or directory}: {error.strerror or error}") from error


def _restore(backup: Path, directory: Path, contents: Manifest, progress: Progress) -> None:
    disk = RealDisk()
    if directory.exists() and not directory.is_dir():
        raise StorageError(f"{directory} is not a directory: choose a new one")
    in_the_way = [path.name for path in directory.iterdir() if path.name not in _NOTHING] if directory.exists() else []
    disk.make_directory(directory)
    lock = disk.lock(directory / "lock")
    try:
        if in_the_way:
            raise StorageError(
                f"{directory} is not empty (it contains {min(in_the_way)}): choose a new directory, or empty this one; "
                "nothing is overwritten"
            )
        restoring = directory / RESTORING
        shutil.rmtree(restoring, ignore_errors=True)
        try:
            _copy(disk, backup, restoring, contents, progress)
            _move_into_place(disk, restoring, directory)
        finally:
            shutil.rmtree(restoring, ignore_errors=True)
    finally:
        lock.release()


def _copy(disk: RealDisk, backup: Path, restoring: Path, contents: Manifest, progress: Progress) -> None:
    disk.make_directory(restoring)
    for entry in contents.files:
        source = backup / entry.path
        target = restoring / entry.path
        if not target.resolve().is_relative_to(restoring.resolve()):
            raise StorageError(f"{entry.path} is outside of the backup: this backup was not made by FlintMQ")
        try:
            size = source.stat().st_size
        except FileNotFoundError:
            raise StorageError(f"{source} is missing: the backup is incomplete; take another one") from None
        disk.make_directory(target.parent)
        if size != entry.bytes or manifest.copy_file(disk, source, target, size, progress) != entry.sha256:
            raise StorageError(
                f"{source} is not as it was backed up ({size} bytes, {entry.bytes} expected; its SHA-256 differs): "
                "nothing was restored; use another backup, or see with `flintmq storage verify` what is left of it"
            )
        disk.sync_directory(target.parent)


def _move_into_place(disk: RealDisk, restoring: Path, directory: Path) -> None:
    """Move all files to their final place. The definitions come last: a broker does not start without them."""
    names = disk.list_directory(restoring)
    for name in sorted(names, key=lambda name: name == DEFINITIONS):
        if name == DEFINITIONS:
            disk.sync_directory(directory)
        disk.rename(restoring / name, directory / name)
    disk.sync_directory(directory)
