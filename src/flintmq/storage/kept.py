"""Whether a directory holds messages of a broker, whatever its definitions say."""

from pathlib import Path
from typing import Final

from flintmq.storage.block import HEADER_BYTES
from flintmq.storage.files import Disk

JOURNAL: Final = "journal"
STREAMS: Final = "streams"
SEGMENT_SUFFIXES: Final = (".journal", ".stream")


def holds_messages(disk: Disk, root: Path) -> bool:
    """Whether a segment of the journal or of a stream has more than its header. Raises OSError."""
    directories = [root / JOURNAL]
    directories += [root / STREAMS / name for name in _names(disk, root / STREAMS) if name.isdecimal()]
    return any(
        disk.size_of(directory / name) > HEADER_BYTES
        for directory in directories
        for name in _names(disk, directory)
        if name.endswith(SEGMENT_SUFFIXES)
    )


def _names(disk: Disk, directory: Path) -> list[str]:
    """What is in it; nothing where it is no directory."""
    try:
        return disk.list_directory(directory)
    except NotADirectoryError:
        return []
