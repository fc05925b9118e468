"""Group commit: a thread writes and syncs batches; those that arrive while it does share the next write and sync.

A failed sync is never retried: after one, the kernel may have dropped the very pages that failed and would report
success for the rest. The storage is fenced instead, and says why. So it is after a write that failed, but for one that
found no room: nothing of that counts as written, so the same bytes are written to the same place again, all of them,
once there is room. Until then nothing is confirmed, and `full` says why.
"""

import sqlite3
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final, final

from flintmq.base.histogram import Histogram
from flintmq.storage.definitions.database import DefinitionDatabase, Statement
from flintmq.storage.failure import describe_failure, is_full
from flintmq.storage.journal.compaction import CompactionRequest
from flintmq.storage.journal.encoder import JournalBatch
from flintmq.storage.journal.files import JournalFiles
from flintmq.storage.reserve import Reserve
from flintmq.storage.stream.encoder import StreamBlock
from flintmq.storage.stream.files import StreamFiles

# Nobody waits for a settlement. Synced at once, each would cost a disk what a publish costs; a crash within this time
# delivers again what was settled in it, as a crash of the consumer would.
SETTLEMENT_DELAY_SECONDS: Final = 0.05
# Streams whose files stay open for the next batch: far below what sockets leave to the storage.
OPEN_STREAMS_MAX: Final = 64
# How often a full disk is tried again: asking costs next to nothing, and publishers are waiting.
FULL_RETRY_SECONDS: Final = 0.2


@dataclass(frozen=True)
class Batch:
    """What the broker staged between two commits."""

    number: int
    size: int
    definitions: list[Statement]
    journal: JournalBatch | None
    streams: list[tuple[StreamFiles, list[StreamBlock]]]
    deleted_streams: list[StreamFiles]
    # Whether it is to be written once all before it is synced.
    is_behind: bool = False

    @property
    def begins_group(self) -> bool:
        return self.is_behind or bool(self.definitions)

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
    """Writes batches and syncs what they touched. Knows no thread and no clock.

    Where the disk was full, the call is to be made again with the same batches: what it had done it does not do twice.
    """

    def __init__(self, database: DefinitionDatabase, journal: JournalFiles, marked: int = 0) -> None:
        self._database = database
        self._journal = journal
        # The newest segment that the definitions know to hold something.
        self._marked = marked
        # Of the steps of the present call: the number of the next one, and how many an earlier try has done.
        self._step = 0
        self._done = 0
        # Written at any time, and since the last sync; in order, so that a simulated run can be repeated.
        self._streams: dict[StreamFiles, None] = {}
        self._dirty_streams: dict[StreamFiles, None] = {}
        self._synced_streams: dict[StreamFiles, None] = {}
        # Those that have a file open, the one written to longest ago first.
        self._open_streams: dict[StreamFiles, None] = {}
        self._drop_through = 0
        # What compaction has to see next.
        self._compaction_request: CompactionRequest | None = None

    def write(self, batches: list[Batch]) -> None:
        """Write settlements, for a sync to come."""
        self._step = 0
        for number, blocks in _by_segment(batches):
            self._once(partial(self._journal.write, number, blocks))
        self._done = 0
        self._note(batches)

    def write_through(self, batches: list[Batch]) -> None:
        """Write and sync all of it, and what was written before.

        Definitions come first: messages need them. Streams come before the journal: what was settled there may be what
        went to a stream.
        """
        self._step = 0
        statements = [statement for batch in batches for statement in batch.definitions]
        if statements:
            self._once(partial(self._database.apply, statements))
        self._write_streams(batches)
        self._sync_streams()
        for number, blocks in _by_segment(batches):
            self._once(partial(self._journal.write_through, number, blocks))
        self._journal.sync()
        self._done = 0
        self._note(batches)

    def _once(self, step: Callable[[], object]) -> None:
        if self._step == self._done:
            step()
            self._done += 1
        self._step += 1

    def _note(self, batches: list[Batch]) -> None:
        for batch in batches:
            if batch.journal is not None:
                self._drop_through = max(self._drop_through, batch.journal.drop_through)
                self._compaction_request = batch.journal.compaction_request or self._compaction_request

    def _write_streams(self, batches: list[Batch]) -> None:
        for batch in batches:
            for files, stream_blocks in batch.streams:
                self._once(partial(files.write, stream_blocks))
                self._streams[files] = None
                self._dirty_streams[files] = None
                self._keep_open(files)
            for files in batch.deleted_streams:
                self._streams.pop(files, None)
                self._dirty_streams.pop(files, None)
                self._synced_streams.pop(files, None)
                self._open_streams.pop(files, None)
                self._once(files.remove)

    def _keep_open(self, files: StreamFiles) -> None:
        self._open_streams.pop(files, None)
        self._open_streams[files] = None
        if len(self._open_streams) > OPEN_STREAMS_MAX:
            oldest = next(iter(self._open_streams))
            del self._open_streams[oldest]
            oldest.release_file()

    def sync(self) -> None:
        self._sync_streams()
        self._journal.sync()

    def _sync_streams(self) -> None:
        for files in self._dirty_streams:
            files.sync()
        self._synced_streams.update(self._dirty_streams)
        self._dirty_streams.clear()

    def tidy(self) -> None:
        """After a sync that has been reported: remove the segments it made dead, read what is to be moved next, and
        make the next segment ahead of its use.
        """
        if self._drop_through:
            self._journal.drop(self._drop_through)
            self._drop_through = 0
        if self._compaction_request is not None:
            self._journal.read_ahead(self._compaction_request)
            self._compaction_request = None
        self._journal.prepare()
        self._mark()
        for files in self._synced_streams:
            files.tidy()
        self._synced_streams.clear()

    def _mark(self) -> None:
        """Have the definitions know of a new segment, once something in it is synced: so its loss would be noticed."""
        written = self._journal.written
        if written > self._marked:
            self._database.mark("journal_written", written)
            self._marked = written

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
class Rounds:
    """What becomes of batches, and what the event loop is told of it: `durable`, `synced_bytes`, `full` and `failure`,
    then `notify()`. Knows no thread and no clock: whoever runs it does, all from one thread.
    """

    def __init__(self, writer: RoundWriter, reserve: Reserve, notify: Callable[[], None]) -> None:
        self.durable = 0
        self.synced_bytes = 0
        self.full = ""
        self.failure = ""
        # How long those took that ended with a sync; whoever runs them knows.
        self.seconds = Histogram()
        self._writer = writer
        self._reserve = reserve
        self._notify = notify
        # What is not written; of that, the group that is being written.
        self._batches: list[Batch] = []
        self._group: list[Batch] = []
        # Written, and waiting for a sync that comes later.
        self._unsynced: list[Batch] = []
        self._sync_due = 0.0
        self._retry_due = 0.0
        self._is_untidy = False

    def wait_seconds(self, now: float) -> float | None:
        """How long (seconds) the next round may be waited for when no batch comes; None for ever."""
        if self.full:
            return max(self._retry_due - now, 0.0)
        return max(self._sync_due - now, 0.0) if self._unsynced else None

    def round(self, batches: list[Batch], is_last: bool, now: float) -> bool:
        """Write these batches, and sync what is due, or everything in the last round. Returns whether others follow."""
        self._batches += batches
        if self.full and now < self._retry_due and not is_last:
            return True
        # Whatever goes wrong here, publishers must hear of it instead of waiting for ever.
        try:
            self._try_round(is_last, now)
        except Exception as error:  # noqa: BLE001 - a round that ended silently would be the worst of outcomes
            if is_full(error) and not is_last:
                self._wait_for_room(error, now)
            else:
                self.failure = describe_failure(error)
                self._notify()
        return not is_last and not self.failure

    def _try_round(self, is_last: bool, now: float) -> None:
        """As far as there is room, the reserve included."""
        try:
            self._round(is_last, now)
        except (OSError, sqlite3.Error) as error:
            if not is_full(error) or not self._reserve.release():
                raise
            self._wait_for_room(error, now)
            self._round(is_last, now)

    def _wait_for_room(self, error: Exception, now: float) -> None:
        self._retry_due = now + FULL_RETRY_SECONDS
        if not self.full:
            self.full = describe_failure(error)
            self._notify()

    def _round(self, is_last: bool, now: float) -> None:
        if not self._unsynced:
            self._sync_due = now + SETTLEMENT_DELAY_SECONDS
        while self._group or self._batches:
            self._group = self._group or self._next_group()
            if any(batch.awaited for batch in self._group):
                self._writer.write_through(self._group)
                self._written()
                self._report()
            else:
                self._writer.write(self._group)
                self._written()
        # What a settlement made removable is removed when that is synced: where room is wanted, at once.
        if self._unsynced and (is_last or self.full or now >= self._sync_due):
            self._writer.sync()
            self._report()
        if (self._is_untidy and not self._unsynced) or self.full:
            self._writer.tidy()
            self._is_untidy = False
        if is_last:
            self._writer.seal()
        elif self.full:
            self._reserve.allocate()
            self.full = ""
            self._notify()

    def _next_group(self) -> list[Batch]:
        """Those up to the next batch with definitions, or one that says so itself.

        A queue must not be durably gone before the batches from its lifetime are durable: they may have moved its
        messages elsewhere.
        """
        batches = self._batches
        end = next((place for place, batch in enumerate(batches) if place and batch.begins_group), len(batches))
        self._batches = batches[end:]
        return batches[:end]

    def _written(self) -> None:
        self._unsynced += self._group
        self._group = []

    def _report(self) -> None:
        self.synced_bytes += sum(batch.size for batch in self._unsynced)
        self.durable = self._unsynced[-1].number
        self._unsynced = []
        self._is_untidy = True
        self._notify()


class GroupCommit:
    """Runs the rounds: those batches that come while one runs share the next."""

    def start(self) -> None:
        """Called once, before all else."""

    @abstractmethod
    def submit(self, batch: Batch) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Return when all that was submitted is written and synced, or never will be. No more may be submitted."""


@final
class SyncThread(GroupCommit):
    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self._inbox: SimpleQueue[Batch | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="flintmq-sync", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, batch: Batch) -> None:
        self._inbox.put(batch)

    def close(self) -> None:
        self._inbox.put(None)
        self._thread.join()

    def _run(self) -> None:
        goes_on = True
        while goes_on:
            batches, is_last = self._collect()
            started, durable = time.monotonic(), self._rounds.durable
            goes_on = self._rounds.round(batches, is_last, started)
            if self._rounds.durable != durable:
                self._rounds.seconds.observe(time.monotonic() - started)

    def _collect(self) -> tuple[list[Batch], bool]:
        """Wait for a batch, or for the delayed sync to be due; take all there are. True when none will follow."""
        batches: list[Batch] = []
        try:
            batch = self._inbox.get(timeout=self._rounds.wait_seconds(time.monotonic()))
            while batch is not None:
                batches.append(batch)
                batch = self._inbox.get_nowait()
        except Empty:
            return batches, False
        return batches, True
