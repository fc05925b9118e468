"""SQLite's log beside the database: what a start finds in it is read from memory, and may not be on the disk."""

from pathlib import Path
from typing import Final

from flintmq.storage.files import Disk

LOG_SUFFIX: Final = "-wal"


def write_log_again(disk: Disk, database: Path) -> None:
    """To be called before the database is opened. Raises OSError.

    After a COMMIT whose sync failed, a system may go on showing readers of the file what it will never write. SQLite
    takes that for committed, a start builds on it, and a power loss would take it away. The same bytes, written once
    more to the same places, are synced for good.
    """
    log = database.with_name(database.name + LOG_SUFFIX)
    if log.name not in disk.list_directory(log.parent):
        return
    file = disk.open(log)
    try:
        file.write_at(0, [file.read_at(0, file.size())])
        file.sync()
    finally:
        file.close()
