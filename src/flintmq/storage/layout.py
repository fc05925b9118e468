"""The files of a data directory: which of them are its state, and which only the running broker needs."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from flintmq.base.errors import StorageError
from flintmq.storage.block import HEADER_BYTES
from flintmq.storage.files import Disk, RealDisk
from flintmq.storage.journal.files import SPARE
from flintmq.storage.journal.files import SUFFIX as JOURNAL_SUFFIX
from flintmq.storage.quarantine import DIRECTORY as QUARANTINE
from flintmq.storage.reserve import NAME as RESERVE
from flintmq.storage.stream.files import DELETED_SUFFIX, DRAFT, INDEX_SUFFIX
from flintmq.storage.stream.files import SUFFIX as STREAM_SUFFIX

DEFINITIONS: Final = "definitions.sqlite"
JOURNAL: Final = "journal"
STREAMS: Final = "streams"
# What a node of a cluster notes of itself; without a cluster, there is none.
NODE_STATE: Final = ".cluster.json"
# A backup works in <data>/.backup-<process>.
STAGING_PREFIX: Final = ".backup-"
# A restore puts files here until all of them are copied.
RESTORING: Final = ".restoring"
# Names that are not copied as files: SQLite copies the definitions, and every start creates the others again.
_NOT_AT_TOP: Final = ("lock", "pages", QUARANTINE, RESERVE, "lost+found", "manifest.json")
_NOWHERE: Final = (SPARE, DRAFT)


def holds_messages(disk: Disk, root: Path) -> bool:
    """Tell whether a segment of the journal or of a stream in the data directory `root` has more than its header.
    Raises OSError.
    """
    directories = [root / JOURNAL]
    directories += [root / STREAMS / name for name in _names(disk, root / STREAMS) if name.isdecimal()]
    return any(
        disk.size_of(directory / name) > HEADER_BYTES
        for directory in directories
        for name in _names(disk, directory)
        if name.endswith((JOURNAL_SUFFIX, STREAM_SUFFIX))
    )


def _names(disk: Disk, directory: Path) -> list[str]:
    """The names in a directory; none if the path is not a directory."""
    try:
        return disk.list_directory(directory)
    except NotADirectoryError:
        return []


def is_data_directory(directory: Path) -> bool:
    """Tell whether a directory has definitions, or messages without their definitions."""
    return (directory / DEFINITIONS).is_file() or holds_messages(RealDisk(), directory)


def lacks_definitions(directory: Path) -> bool:
    """Tell whether a directory has messages, but no definitions that name their queues."""
    definitions = directory / DEFINITIONS
    is_blank = not definitions.is_file() or not definitions.stat().st_size
    return is_blank and holds_messages(RealDisk(), directory)


def state_files(directory: Path) -> dict[str, int]:
    """The files of the state except the definitions: path within the directory, and inode.

    A file that is removed meanwhile may or may not be included. Raises OSError, and StorageError for a symbolic link.
    """
    return dict(_files(directory, ""))


def _files(directory: Path, prefix: str) -> Iterator[tuple[str, int]]:
    try:
        with os.scandir(directory) as entries:
            found = list(entries)
    except FileNotFoundError:
        if prefix:
            return
        raise
    for entry in found:
        name = f"{prefix}{entry.name}"
        if _is_not_state(name):
            continue
        if entry.is_symlink():
            raise StorageError(f"{entry.path} is a symbolic link: a broker's files have to be in its directory")
        if entry.is_dir(follow_symlinks=False):
            yield from _files(directory / entry.name, f"{name}/")
        elif entry.is_file(follow_symlinks=False):
            yield name, entry.inode()


def _is_not_state(path: str) -> bool:
    parts = PurePosixPath(path).parts
    if parts[0].startswith((DEFINITIONS, ".")) or parts[0] in _NOT_AT_TOP:
        return True
    return parts[-1] in _NOWHERE or any(part.endswith(DELETED_SUFFIX) for part in parts)


def is_segment(path: str) -> bool:
    return path.endswith((JOURNAL_SUFFIX, STREAM_SUFFIX)) and PurePosixPath(path).stem.isdecimal()


def is_index(path: str) -> bool:
    return path.endswith(INDEX_SUFFIX) and PurePosixPath(path).stem.isdecimal()


def logs(paths: Iterator[str]) -> dict[str, list[str]]:
    """Group segments by their log: the journal first, then streams; within a log the newest segment first."""
    found: dict[str, list[str]] = {}
    for path in sorted(filter(is_segment, paths), key=_log_and_number):
        found.setdefault(path.rpartition("/")[0], []).append(path)
    for segments in found.values():
        segments.reverse()
    return found


def _log_and_number(path: str) -> tuple[bool, str, int]:
    log, _, name = path.rpartition("/")
    return log != JOURNAL, log, int(PurePosixPath(name).stem)
