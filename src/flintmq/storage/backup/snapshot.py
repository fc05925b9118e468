"""One moment of a running broker's data: definitions, and how far each log goes.

What is on the disk at any moment is what a loss of power could leave then, and recovery makes a state of the broker of
it. So a backup has to be what was there at one moment. The broker writes a batch's definitions first and commits them,
then streams, and the journal when these are synced; and no batch with definitions is written before all earlier ones
are synced. So a journal belongs to definitions if it was read while these were the newest. An attempt looks, in
this order:

1. at the definitions, which it begins to read (SQLite shows this connection one state from here on);
2. which files there are, and gives each a second name: from here on none is written over (`create_segment`). Each has
   to have its first name still after it got the second, or the broker may have looked for others before. If a segment
   was removed before it could be held, the look ends here: it is removed when what emptied it is synced, and that may
   be in a segment that was not there yet. Later it does no harm: that a removal has not happened yet is what a loss of
   power could have left, too;
3. how far the journal goes. The newest segment comes first: if it has blocks, those before it are sealed, and synced
   whole. If it has none yet, the one before it is looked at, later than the one behind it, and so on. A segment goes
   up to its first block that is not whole, as it does for recovery. What was confirmed before is in front of that;
4. how far the streams go, in the same way. They come later than the journal because the broker writes them earlier: a
   message that it moved to a stream may be found in both places, as after a crash, and not in none;
5. whether no segment was passed over between those that are held; newer ones do not count;
6. at the definitions again. If they are others, the look counted for nothing and is repeated. Only the offsets of
   streams' readers may have changed, which happens all the time: they are those of step 1, and so never ahead of their
   streams.

Definitions that are older than the journal would lose what was moved to a new queue; newer ones what a queue had that
was deleted, and that had been moved elsewhere before. Nothing is blocked by this: the broker never waits for a backup.
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

# A look takes some milliseconds; only a broker whose queues come and go all the time needs more.
TIMEOUT_SECONDS: Final = 60.0
# Between two attempts: the broker has its disk to itself.
PAUSE_SECONDS: Final = 0.002
# The table that changes as streams are read.
READER_OFFSETS: Final = "reader_offsets"


@final
class Tail:
    """A segment that was being written: how far it goes, found once and then from there on."""

    def __init__(self) -> None:
        self.end = 0
        self.holds_blocks = False
        self.damage: list[Damage] = []

    def advance(self, path: Path, name: str) -> None:
        file = RealDisk().open_to_read(path)
        try:
            reader = SegmentReader(file, name)
            if self.end:
                # What was synced before is behind us: from here on, the first block that is not whole is the end.
                reader.end = self.end
                synced = 0
            else:
                # Before the blocks are read: all up to there was written by then.
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
    """Takes the look. `ends` has the segments that may still grow, and how far they count; the others count whole."""

    def __init__(self, directory: Path, links: HardLinks) -> None:
        self.ends: dict[str, int] = {}
        self._links = links
        # By path and inode: an inode alone may come back as another file's.
        self._tails: dict[tuple[str, int], Tail] = {}
        self._watching = _connect(directory)
        self._definitions = _connect(directory)

    def take(self, timeout_seconds: float = TIMEOUT_SECONDS) -> int:
        """Returns how often it had to look; raises StorageError when no look counted."""
        deadline = time.monotonic() + timeout_seconds
        attempts = 1
        # The first look finds most of the ends, and takes long.
        while not self._attempt():
            if time.monotonic() > deadline:
                raise StorageError(
                    f"definitions changed, or files were removed, during each of {attempts} attempts at the data: "
                    "try again when less is declared and deleted"
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
        return self._links.are_complete() and (self._version() == before or self._are_the_same())

    def _find_end(self, segments: list[str]) -> None:
        """Of one log, newest segment first."""
        for path in segments:
            tail = self._tails.setdefault((path, self._links.paths[path]), Tail())
            tail.advance(self._links.linked_path(path), path)
            self.ends[path] = tail.end
            if tail.holds_blocks:
                break

    @property
    def damage(self) -> list[Damage]:
        """What cannot be read of the segments in `ends`."""
        return [damage for path in self.ends for damage in self._tails[path, self._links.paths[path]].damage]

    def _version(self) -> int:
        """Another one after each transaction of the broker."""
        if self._watching.in_transaction:
            self._watching.execute("ROLLBACK")
        version: int = self._watching.execute("PRAGMA data_version").fetchone()[0]
        return version

    def _are_the_same(self) -> bool:
        """Whether the definitions are now what they were when the look began.

        A queue that came and went meanwhile would have left its mark: ids are counted, and never given twice.
        """
        _begin_reading(self._watching)
        tables = self._definitions.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return all(
            _rows(self._definitions, table) == _rows(self._watching, table)
            for (table,) in tables
            if table != READER_OFFSETS
        )

    def copy_definitions(self, target: Path) -> None:
        """As they were at the cut, in one file."""
        copy = connect(target)
        try:
            self._definitions.backup(copy)
            # A file of its own has no log beside it.
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
    # It is the first query that begins to read.
    connection.execute("SELECT count(*) FROM meta").fetchone()


def _rows(connection: sqlite3.Connection, table: str) -> list[tuple[object, ...]]:
    rows = connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 - a name of our own
    # Segments are begun all the time.
    return [row for row in rows if table != "meta" or row[0] != "journal_written"]


def _connect(directory: Path) -> sqlite3.Connection:
    path = directory / DEFINITIONS
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)
    connection.execute("PRAGMA query_only = ON")
    return connection
