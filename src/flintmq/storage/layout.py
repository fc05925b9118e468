"""Which files of a data directory are its state, and which are of no meaning to anybody but the running broker."""

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
# What a backup works in: <data>/.backup-<process>.
STAGING_PREFIX: Final = ".backup-"
# Where a restore puts files until it has all of them.
RESTORING: Final = ".restoring"
# The definitions are copied by SQLite; the rest is made anew at every start.
_NOT_AT_TOP: Final = ("lock", "pages", QUARANTINE, RESERVE, "lost+found", "manifest.json")
_NOWHERE: Final = (SPARE, DRAFT)


def holds_messages(disk: Disk, root: Path) -> bool:
    """Whether a segment of the journal or of a stream has more than its header. Raises OSError."""
    directories = [root / JOURNAL]
    directories += [root / STREAMS / name for name in _names(disk, root / STREAMS) if name.isdecimal()]
    return any(
        disk.size_of(directory / name) > HEADER_BYTES
        for directory in directories
        for name in _names(disk, directory)
        if name.endswith((JOURNAL_SUFFIX, STREAM_SUFFIX))
    )


def _names(disk: Disk, directory: Path) -> list[str]:
    """What is in it; nothing where it is no directory."""
    try:
        return disk.list_directory(directory)
    except NotADirectoryError:
        return []


def is_data_directory(directory: Path) -> bool:
    """Whether it has definitions, or messages that have lost theirs."""
    return (directory / DEFINITIONS).is_file() or holds_messages(RealDisk(), directory)


def lacks_definitions(directory: Path) -> bool:
    """Whether there are messages, and nothing that says of which queues."""
    definitions = directory / DEFINITIONS
    is_blank = not definitions.is_file() or not definitions.stat().st_size
    return is_blank and holds_messages(RealDisk(), directory)


def state_files(directory: Path) -> dict[str, int]:
    """The files of the state but for the definitions: path within the directory, and inode.

    What vanishes meanwhile may be in it or not. Raises OSError, and StorageError for links to elsewhere.
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
        if _is_of_no_meaning(name):
            continue
        if entry.is_symlink():
            raise StorageError(f"{entry.path} is a symbolic link: a broker's files have to be in its directory")
        if entry.is_dir(follow_symlinks=False):
            yield from _files(directory / entry.name, f"{name}/")
        elif entry.is_file(follow_symlinks=False):
            yield name, entry.inode()


def _is_of_no_meaning(path: str) -> bool:
    parts = PurePosixPath(path).parts
    if parts[0].startswith((DEFINITIONS, ".")) or parts[0] in _NOT_AT_TOP:
        return True
    return parts[-1] in _NOWHERE or any(part.endswith(DELETED_SUFFIX) for part in parts)


def is_segment(path: str) -> bool:
    return path.endswith((JOURNAL_SUFFIX, STREAM_SUFFIX)) and PurePosixPath(path).stem.isdecimal()


def is_index(path: str) -> bool:
    return path.endswith(INDEX_SUFFIX) and PurePosixPath(path).stem.isdecimal()


def logs(paths: Iterator[str]) -> dict[str, list[str]]:
    """The segments by the log they belong to: journal first, then streams; newest segment first."""
    found: dict[str, list[str]] = {}
    for path in sorted(filter(is_segment, paths), key=_place):
        found.setdefault(path.rpartition("/")[0], []).append(path)
    for segments in found.values():
        segments.reverse()
    return found


def _place(path: str) -> tuple[bool, str, int]:
    log, _, name = path.rpartition("/")
    return log != JOURNAL, log, int(PurePosixPath(name).stem)
