"""Group commit: a thread writes and syncs batches; those that arrive while it does share the next write and sync.

A failed write or sync is never retried: after one, the kernel may have dropped the very pages that failed and would
report success for the rest. The storage is fenced instead, and says why.
"""

import errno
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Final, final

from flintmq.storage.definitions.sqlite import DefinitionDatabase, Statement
from flintmq.storage.journal.encoder import JournalBatch
from flintmq.storage.journal.files import JournalFiles
from flintmq.storage.stream.encoder import StreamBlock
from flintmq.storage.stream.files import StreamFiles

# Nobody waits for a settlement. Synced at once, each would cost a disk what a publish costs; a crash within this time
# delivers again what was settled in it, as a crash of the consumer would.
SETTLEMENT_DELAY_SECONDS: Final = 0.05


@dataclass(frozen=True)
class Batch:
    """What the broker staged between two commits."""

    number: int
    size: int
    definitions: list[Statement]
    journal: JournalBatch | None
    streams: list[tuple[StreamFiles, list[StreamBlock]]]
    deleted_streams: list[StreamFiles]

    @property
    def awaited(self) -> bool:
        """Whether somebody may wait for it: not for settlements alone."""
        return bool(
            self.definitions
            or self.streams
            or self.deleted_streams
            or (self.journal is not None and self.journal.messages > 0)
        )


@final
class RoundWriter:
    """Writes batches and syncs what they touched. Knows no thread and no clock."""

    def __init__(self, database: DefinitionDatabase, journal: JournalFiles) -> None:
        self._database = database
        self._journal = journal
        # Written at any time, and since the last sync; in order, so that a simulated run can be repeated.
        self._streams: dict[StreamFiles, None] = {}
        self._dirty_streams: dict[StreamFiles, None] = {}
        self._drop_through = 0

    def write(self, batches: list[Batch]) -> None:
        """Write settlements, for a sync to come."""
        for number, blocks in _by_segment(batches):
            self._journal.write(number, blocks)
        self._note_dead(batches)

    def write_through(self, batches: list[Batch]) -> None:
        """Write and sync all of it, and what was written before. Definitions come first: messages need them."""
        statements = [statement for batch in batches for statement in batch.definitions]
        if statements:
            self._database.apply(statements)
        for number, blocks in _by_segment(batches):
            self._journal.write_through(number, blocks)
        self._write_streams(batches)
        self.sync()
        self._note_dead(batches)

    def _note_dead(self, batches: list[Batch]) -> None:
        for batch in batches:
            if batch.journal is not None:
                self._drop_through = max(self._drop_through, batch.journal.drop_through)

    def _write_streams(self, batches: list[Batch]) -> None:
        for batch in batches:
            for files, stream_blocks in batch.streams:
                files.write(stream_blocks)
                self._streams[files] = None
                self._dirty_streams[files] = None
            for files in batch.deleted_streams:
                self._streams.pop(files, None)
                self._dirty_streams.pop(files, None)
                files.remove()

    def sync(self) -> None:
        self._journal.sync()
        for files in self._dirty_streams:
            files.sync()
        self._dirty_streams.clear()

    def tidy(self) -> None:
        """After a sync that has been reported: remove the segments it made dead, make the next one ahead of its use."""
        if self._drop_through:
            self._journal.drop(self._drop_through)
            self._drop_through = 0
        self._journal.prepare()

    def seal(self) -> None:
        """End all files in order: nothing is written any more."""
        self._journal.seal()
        for files in self._streams:
            files.seal()


def _by_segment(batches: list[Batch]) -> Iterator[tuple[int, list[tuple[bytes, ...]]]]:
    """The journal blocks of all batches, one write per segment."""
    number = 0
    blocks: list[tuple[bytes, ...]] = []
    for batch in batches:
        if batch.journal is None:
            continue
        if blocks and batch.journal.segment != number:
            yield number, blocks
            blocks = []
        number = batch.journal.segment
        blocks += batch.journal.blocks
    if blocks:
        yield number, blocks


@final
class GroupCommit:
    """The sync thread and what it tells the event loop: `durable`, `synced_bytes` and `failure`, then `notify()`."""

    def __init__(self, writer: RoundWriter, notify: Callable[[], None]) -> None:
        self.durable = 0
        self.synced_bytes = 0
        self.failure = ""
        self._writer = writer
        self._notify = notify
        self._inbox: SimpleQueue[Batch | None] = SimpleQueue()
        # Written, and waiting for a sync that comes later.
        self._unsynced: list[Batch] = []
        self._sync_due = 0.0
        self._thread = threading.Thread(target=self._run, name="flintmq-sync", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, batch: Batch) -> None:
        self._inbox.put(batch)

    def close(self) -> None:
        """Write and sync all that was submitted, and end the thread."""
        self._inbox.put(None)
        self._thread.join()

    def _run(self) -> None:
        # Whatever goes wrong here, publishers must hear of it instead of waiting for ever.
        try:
            while self._round():
                pass
        except Exception as error:  # noqa: BLE001 - a thread that ended silently would be the worst of outcomes
            self.failure = _describe(error)
            self._notify()

    def _round(self) -> bool:
        batches, open_for_more = self._collect()
        for group in _between_definitions(batches):
            self._unsynced += group
            if any(batch.awaited for batch in group):
                self._writer.write_through(group)
                self._report()
            else:
                self._writer.write(group)
        if self._unsynced and (not open_for_more or time.monotonic() >= self._sync_due):
            self._writer.sync()
            self._report()
        if not open_for_more:
            self._writer.seal()
        return open_for_more

    def _collect(self) -> tuple[list[Batch], bool]:
        """Wait for a batch, or for the delayed sync to be due; take all there are. False once nothing will follow."""
        batches: list[Batch] = []
        try:
            wait = max(self._sync_due - time.monotonic(), 0.0) if self._unsynced else None
            batch = self._inbox.get(timeout=wait)
            if not self._unsynced:
                self._sync_due = time.monotonic() + SETTLEMENT_DELAY_SECONDS
            while batch is not None:
                batches.append(batch)
                batch = self._inbox.get_nowait()
        except Empty:
            return batches, True
        return batches, False

    def _report(self) -> None:
        self.synced_bytes += sum(batch.size for batch in self._unsynced)
        self.durable = self._unsynced[-1].number
        self._unsynced = []
        self._notify()
        self._writer.tidy()


def _between_definitions(batches: list[Batch]) -> Iterator[list[Batch]]:
    """Cut before each batch with definitions.

    A queue must not be durably gone before the batches from its lifetime are durable: they may have moved its
    messages elsewhere.
    """
    group: list[Batch] = []
    for batch in batches:
        if batch.definitions and group:
            yield group
            group = []
        group.append(batch)
    if group:
        yield group


def _describe(error: Exception) -> str:
    if isinstance(error, OSError):
        what = f"cannot write {error.filename}" if error.filename else "cannot write"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return f"disk full: {what} ({error.strerror}); make room and restart the broker"
        code = errno.errorcode.get(error.errno or 0, "unknown error")
        return f"disk failed: {what} ({code}: {error.strerror}); check the disk and restart the broker"
    if isinstance(error, sqlite3.Error):
        return f"definitions could not be written ({error}); check the disk and restart the broker"
    return f"storage stopped on an internal error ({type(error).__name__}: {error}); restart the broker"
