"""A consistent snapshot of a running broker's data: its definitions, and the end of each log.

A backup must be a state that existed on the disk at one moment, because that is what a loss of power could have left
there, and recovery can start from it. The broker writes a batch in this order: definitions first, committed; then
streams; and the journal when these are synced. It writes no batch with definitions before all earlier batches are
synced. So a journal fits the definitions if it was read while these definitions were the newest. An attempt therefore
takes these steps, in this order:

1. Start to read the definitions. From here on SQLite shows this connection one state.
2. List the files and give each a second name, a hard link. From here on the broker does not overwrite any of them
   (`leave_to_backup`). Each file must still have its first name after it got the second: otherwise the broker may have
   checked for second names before. If a segment was removed before it could be linked, the attempt fails: the broker
   removes a segment once the settlements that emptied it are synced, and these may be in a segment that was not listed.
   A later removal does no harm: a loss of power could also have left the segment in place.
3. Find the end of the journal. The newest segment comes first: if it has blocks, the segments before it are sealed and
   fully synced. If it has none yet, the segment before it is read, after the one that follows it, and so on. A segment
   ends at its first incomplete block, as for recovery. Everything that was confirmed before is in front of that end.
4. Find the end of each stream in the same way. Streams come after the journal because the broker writes them first: a
   message that it moved to a stream may be in both places, as after a crash, but never in neither.
5. Check that no segment is missing between the linked ones. Newer segments do not count.
6. Compare the definitions with those of step 1. If they differ, the attempt is repeated. Only the offsets of stream
   readers may differ, because they change all the time: the backup has those of step 1, which are never ahead of their
   streams.

Definitions older than the journal would lose messages that were moved to a new queue. Newer definitions would lose the
messages of a deleted queue that had been moved elsewhere before. The broker never waits for a backup.
"""

import sqlite3
import time
from pathlib import Path
from typing import Final, final

from flintmq.base.errors import StorageError
from flintmq.storage.backup.hard_links import HardLinks
from flintmq.storage.block import Damage
from flintmq.storage.definitions.database import connect
from flintmq.storage.files import RealDisk
from flintmq.storage.layout import DEFINITIONS, logs
from flintmq.storage.segment_reader import SegmentReader

# An attempt takes some milliseconds. Only a broker that creates and deletes queues without a pause needs more than a
# few.
TIMEOUT_SECONDS: Final = 60.0
# The pause between two attempts leaves the disk to the broker.
PAUSE_SECONDS: Final = 0.002
# This table changes while streams are read, so it is not compared.
READER_OFFSETS: Final = "reader_offsets"


@final
class Tail:
    """The last segment of a log: finds its end once, and continues from there at the next attempt."""

    def __init__(self) -> None:
        self.end = 0
        self.holds_blocks = False
        self.damage: list[Damage] = []

    def advance(self, path: Path, name: str) -> None:
        file = RealDisk().open_to_read(path)
        try:
            reader = SegmentReader(file, name)
            if self.end:
                # Everything before `end` was intact at the last attempt: from there on, the first incomplete block is
                # the end.
                reader.end = self.end
                synced = 0
            else:
                # The mark is read before the blocks: everything in front of it was written by then.
                synced = reader.synced_position()
            for _ in reader.blocks(synced):
                self.holds_blocks = True
            if not self.end:
                self.damage = reader.damage
            self.end = reader.end
        finally:
            file.close()


@final
class Snapshot:
    """Takes the snapshot. `ends` maps each segment that may still grow to the number of its bytes that count; all other
    segments count whole.
    """

    def __init__(self, directory: Path, links: HardLinks) -> None:
        self.ends: dict[str, int] = {}
        self._links = links
        # The key is path and inode: the file system may give an inode again to another file.
        self._tails: dict[tuple[str, int], Tail] = {}
        self._watching = _connect(directory)
        self._definitions = _connect(directory)

    def take(self, timeout_seconds: float = TIMEOUT_SECONDS) -> int:
        """Take the snapshot; return the number of attempts.

        Raises StorageError when no attempt succeeded within `timeout_seconds`.
        """
        deadline = time.monotonic() + timeout_seconds
        attempts = 1
        # The first attempt reads most of the segments and takes the longest.
        while not self._attempt():
            if time.monotonic() > deadline:
                raise StorageError(
                    f"definitions changed, or files were removed, during each of {attempts} snapshot attempts: "
                    "try again when fewer queues are declared and deleted"
                )
            attempts += 1
            time.sleep(PAUSE_SECONDS)
        return attempts

    def _attempt(self) -> bool:
        before = self._version()
        _begin_reading(self._definitions)
        if not self._links.update():
            return False
        self.ends = {}
        for segments in logs(iter(self._links.paths)).values():
            self._find_end(segments)
        return self._links.are_complete() and (self._version() == before or self._definitions_are_unchanged())

    def _find_end(self, segments: list[str]) -> None:
        """Find where a log ends; `segments` are its segments, newest first."""
        for path in segments:
            tail = self._tails.setdefault((path, self._links.paths[path]), Tail())
            tail.advance(self._links.linked_path(path), path)
            self.ends[path] = tail.end
            if tail.holds_blocks:
                break

    @property
    def damage(self) -> list[Damage]:
        """The unreadable parts of the segments in `ends`."""
        return [damage for path in self.ends for damage in self._tails[path, self._links.paths[path]].damage]

    def _version(self) -> int:
        """SQLite's data version, which changes with each transaction of the broker."""
        if self._watching.in_transaction:
            self._watching.execute("ROLLBACK")
        version: int = self._watching.execute("PRAGMA data_version").fetchone()[0]
        return version

    def _definitions_are_unchanged(self) -> bool:
        """Tell whether the definitions are the same as at the start of the attempt.

        A queue that was created and deleted meanwhile shows, too: ids are counted and never used twice.
        """
        _begin_reading(self._watching)
        tables = self._definitions.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return all(
            _rows(self._definitions, table) == _rows(self._watching, table)
            for (table,) in tables
            if table != READER_OFFSETS
        )

    def copy_definitions(self, target: Path) -> None:
        """Write the definitions of the snapshot to `target`, as a single file without a write-ahead log."""
        copy = connect(target)
        try:
            self._definitions.backup(copy)
            # Without this, SQLite would keep a write-ahead log beside the copy.
            copy.execute("PRAGMA journal_mode = DELETE")
        finally:
            copy.close()

    def close(self) -> None:
        self._watching.close()
        self._definitions.close()


def _begin_reading(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")
    connection.execute("BEGIN")
    # SQLite takes its read snapshot at the first query, not at BEGIN.
    connection.execute("SELECT count(*) FROM meta").fetchone()


def _rows(connection: sqlite3.Connection, table: str) -> list[tuple[object, ...]]:
    rows = connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 - a constant name
    # `journal_written` changes whenever a segment is begun, so it is not compared.
    return [row for row in rows if table != "meta" or row[0] != "journal_written"]


def _connect(directory: Path) -> sqlite3.Connection:
    path = directory / DEFINITIONS
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)
    connection.execute("PRAGMA query_only = ON")
    return connection
