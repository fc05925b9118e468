"""Group commit: a thread writes and syncs batches; batches that arrive meanwhile share the next write and sync.

A failed sync is never retried: the kernel may have dropped the very pages that failed, and would report success for the
rest. Instead the storage is fenced, and `failure` says why. A failed write fences the storage, too, except on a full
disk: then nothing of that write counts as written, and the same bytes are written to the same place again once there is
space. Until then nothing is confirmed, and `full` says why.
"""

import sqlite3
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final, final

from mypy_extensions import mypyc_attr

from flintmq.base.histogram import Histogram
from flintmq.storage.definitions.database import DefinitionDatabase, Statement
from flintmq.storage.failure import describe_failure, is_full
from flintmq.storage.gathering import Gathering
from flintmq.storage.journal.compaction import CompactionRequest
from flintmq.storage.journal.encoder import JournalBatch
from flintmq.storage.journal.files import JournalFiles
from flintmq.storage.reserve import Reserve
from flintmq.storage.stream.encoder import StreamBlock
from flintmq.storage.stream.files import StreamFiles

# No client waits for a settlement. An immediate sync for each settlement would cost the disk as much as a publish. A
# crash within this time redelivers messages that were settled in it, as a crash of the consumer would.
SETTLEMENT_DELAY_SECONDS: Final = 0.05
# This many streams keep their file open for the next batch: far fewer than the file descriptors that sockets leave to
# the storage.
OPEN_STREAMS_MAX: Final = 64
# A full disk is tried again at this interval: a try costs almost nothing, and publishers are waiting.
FULL_RETRY_SECONDS: Final = 0.2


@final
class Batch:
    """The changes that the broker staged between two commits. `size` is in bytes. A batch with `is_behind` may be
    written only after all earlier batches are synced.
    """

    def __init__(
        self,
        number: int,
        size: int,
        definitions: list[Statement],
        journal: JournalBatch | None,
        streams: list[tuple[StreamFiles, list[StreamBlock]]],
        deleted_streams: list[StreamFiles],
        is_behind: bool = False,
    ) -> None:
        self.number = number
        self.size = size
        self.definitions = definitions
        self.journal = journal
        self.streams = streams
        self.deleted_streams = deleted_streams
        self.is_behind = is_behind

    @property
    def messages(self) -> int:
        """The number of messages that publishers may wait for."""
        count = 0 if self.journal is None else self.journal.messages
        for _, blocks in self.streams:
            for block in blocks:
                count += block.count
        return count

    @property
    def begins_group(self) -> bool:
        return self.is_behind or bool(self.definitions)

    @property
    def awaited(self) -> bool:
        """Whether a client may wait for the batch: not if it has settlements only."""
        return bool(
            self.definitions
            or self.streams
            or self.deleted_streams
            or (self.journal is not None and self.journal.messages > 0)
        )


@final
class RoundWriter:
    """Writes batches, and syncs the files that they changed. It knows no thread and no clock.

    After an error of a full disk, call the same method again with the same batches: steps that were done are not
    repeated.
    """

    def __init__(self, database: DefinitionDatabase, journal: JournalFiles, marked: int = 0) -> None:
        self._database = database
        self._journal = journal
        # The newest segment of the journal that the definitions record as written.
        self._marked = marked
        # The number of the next step of the present call, and how many steps an earlier try has done.
        self._step = 0
        self._done = 0
        # Streams that were ever written, and those written since the last sync. Dicts keep an order, so that a
        # simulated run can be repeated.
        self._streams: dict[StreamFiles, None] = {}
        self._dirty_streams: dict[StreamFiles, None] = {}
        self._synced_streams: dict[StreamFiles, None] = {}
        # The offsets up to which streams were synced since the last call of `take_synced`.
        self._synced_offsets: list[tuple[StreamFiles, int]] = []
        # Streams with an open file, the least recently written first.
        self._open_streams: dict[StreamFiles, None] = {}
        self._drop_through = 0
        # The part of a segment that compaction wants to have read next.
        self._compaction_request: CompactionRequest | None = None

    def write(self, batches: list[Batch]) -> None:
        """Write batches without a sync; they have settlements only."""
        self._step = 0
        for number, blocks in _by_segment(batches):
            if self._begins_step():
                self._journal.write(number, blocks)
                self._done += 1
        self._done = 0
        self._note(batches)

    def write_through(self, batches: list[Batch]) -> None:
        """Write batches; sync them and everything that was written before.

        Definitions come first, because messages need them. Streams come before the journal: a message may have been
        settled in the journal because it moved to a stream.
        """
        self._step = 0
        statements = [statement for batch in batches for statement in batch.definitions]
        if statements and self._begins_step():
            self._database.apply(statements)
            self._done += 1
        self._write_streams(batches)
        self._sync_streams()
        for number, blocks in _by_segment(batches):
            if self._begins_step():
                self._journal.write_through(number, blocks)
                self._done += 1
        self._journal.sync()
        self._done = 0
        self._note(batches)

    def _begins_step(self) -> bool:
        """Begin the next step of the present call; return False if an earlier try has done it."""
        self._step += 1
        return self._step > self._done

    def _note(self, batches: list[Batch]) -> None:
        for batch in batches:
            if batch.journal is not None:
                self._drop_through = max(self._drop_through, batch.journal.drop_through)
                self._compaction_request = batch.journal.compaction_request or self._compaction_request

    def _write_streams(self, batches: list[Batch]) -> None:
        for batch in batches:
            for files, stream_blocks in batch.streams:
                if self._begins_step():
                    files.write(stream_blocks)
                    self._done += 1
                self._streams[files] = None
                self._dirty_streams[files] = None
                self._keep_open(files)
            for files in batch.deleted_streams:
                self._streams.pop(files, None)
                self._dirty_streams.pop(files, None)
                self._synced_streams.pop(files, None)
                self._open_streams.pop(files, None)
                if self._begins_step():
                    files.remove()
                    self._done += 1

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
        self._synced_offsets += [(files, files.sync()) for files in self._dirty_streams]
        self._synced_streams.update(self._dirty_streams)
        self._dirty_streams.clear()

    def take_synced(self) -> list[tuple[StreamFiles, int]]:
        """The streams that were synced since the last call, and their offsets."""
        synced, self._synced_offsets = self._synced_offsets, []
        return synced

    def tidy(self) -> None:
        """Clean up after a sync that was reported: remove segments without live entries, read the chunk that compaction
        asked for, and create the next segment in advance.
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
        """Record a new segment in the definitions once something in it is synced, so that its loss would be noticed."""
        written = self._journal.written
        if written > self._marked:
            self._database.mark("journal_written", written)
            self._marked = written

    def seal(self) -> None:
        """Seal all files; nothing may be written afterwards."""
        self._journal.seal()
        for files in self._streams:
            files.seal()


def _by_segment(batches: list[Batch]) -> Iterator[tuple[int, list[tuple[bytes, ...]]]]:
    """Group the journal blocks of all batches by segment, so that each segment takes one write."""
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
    """Runs the rounds of group commit, and reports to the event loop: it sets `durable`, `synced_bytes`, `full` and
    `failure`, then calls `notify()`. It knows no thread and no clock; all calls come from one thread.

    In a cluster, `when_confirmed` calls back, on any thread, when the followers have everything that was written by
    now: only then is it durable. Without a cluster, it is None.
    """

    def __init__(
        self,
        writer: RoundWriter,
        reserve: Reserve,
        notify: Callable[[], None],
        when_confirmed: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        self.durable = 0
        self.synced_bytes = 0
        self.full = ""
        self.failure = ""
        # Durations of the rounds that ended with a sync.
        self.seconds = Histogram()
        self.settlement_delay_seconds = SETTLEMENT_DELAY_SECONDS
        self.full_retry_seconds = FULL_RETRY_SECONDS
        self._writer = writer
        self._reserve = reserve
        self._notify = notify
        self._when_confirmed = when_confirmed
        # Batches that are not written, and the group of them that is being written.
        self._batches: list[Batch] = []
        self._group: list[Batch] = []
        # Batches that are written and wait for a later sync.
        self._unsynced: list[Batch] = []
        self._sync_due = 0.0
        self._retry_due = 0.0
        # Whether files have to be cleaned up after a sync that was reported.
        self.is_untidy = False
        self._gathering = Gathering()
        # When the present round began, and what it has reported so far.
        self._began = 0.0
        self._reported_batches = 0
        self._reported_messages = 0

    def wait_seconds(self, waiting: list[Batch], now: float) -> float | None:
        """How many seconds the next round may wait for more batches than those that have come; None for no limit.

        Call it after each round, and then after each batch.
        """
        messages = 0
        size = 0
        for batch in waiting:
            if batch.begins_group:
                return 0.0
            messages += batch.messages
            size += batch.size
        gathering_seconds = self._gathering.wait_seconds(messages, size, now)
        if waiting:
            return 0.0 if self.full else gathering_seconds
        if self.full:
            return max(self._retry_due - now, 0.0)
        return max(self._sync_due - now, 0.0) if self._unsynced else None

    def round(self, batches: list[Batch], is_last: bool, now: float) -> bool:
        """Write batches, and sync what is due, or everything in the last round; return whether more rounds follow.
        `now` is in seconds. Call `end` afterwards.
        """
        self._began = now
        self._batches += batches
        if self.full and now < self._retry_due and not is_last:
            return True
        # Any error must be reported: otherwise publishers would wait for ever.
        try:
            self._try_round(is_last, now)
        except Exception as error:  # noqa: BLE001 - if a round ended silently, clients would wait for ever
            if is_full(error) and not is_last:
                self._wait_for_room(error, now)
            else:
                self.failure = describe_failure(error)
                self._notify()
        return not is_last and not self.failure

    def end(self, now: float) -> None:
        """Record how long a round took that ended at `now`."""
        if self._reported_batches:
            self.seconds.observe(now - self._began)
            self._gathering.synced(self._reported_batches, self._reported_messages, self._began, now)
            self._reported_batches = 0
            self._reported_messages = 0

    def _try_round(self, is_last: bool, now: float) -> None:
        """Run a round; if the disk is full, release the reserve and try once more."""
        try:
            self._round(is_last, now)
        except (OSError, sqlite3.Error) as error:
            if not is_full(error) or not self._reserve.release():
                raise
            self._wait_for_room(error, now)
            self._round(is_last, now)

    def _wait_for_room(self, error: Exception, now: float) -> None:
        self._retry_due = now + self.full_retry_seconds
        if not self.full:
            self.full = describe_failure(error)
            self._notify()

    def _round(self, is_last: bool, now: float) -> None:
        if not self._unsynced:
            # A leader accepts clients when its followers have synced the first batch, even if it has no message.
            self._sync_due = now + (self.settlement_delay_seconds if self.durable else 0.0)
        while self._group or self._batches:
            self._group = self._group or self._next_group()
            if any(batch.awaited for batch in self._group):
                self._writer.write_through(self._group)
                self._written()
                self._report()
            else:
                self._writer.write(self._group)
                self._written()
        # Segments that settlements made removable are removed after their sync, so on a full disk the sync is not
        # delayed.
        if self._unsynced and (is_last or self.full or now >= self._sync_due):
            self._writer.sync()
            self._report()
        if (self.is_untidy and not self._unsynced) or self.full:
            self._writer.tidy()
            self.is_untidy = False
        if is_last:
            self._writer.seal()
        elif self.full:
            self._reserve.allocate()
            self.full = ""
            self._notify()

    def _next_group(self) -> list[Batch]:
        """Take the batches up to the next one that must begin a new group.

        A deleted queue must not be durably gone before the batches from its lifetime are durable: they may have moved
        its messages elsewhere.
        """
        batches = self._batches
        end = next((place for place, batch in enumerate(batches) if place and batch.begins_group), len(batches))
        self._batches = batches[end:]
        return batches[:end]

    def _written(self) -> None:
        self._unsynced += self._group
        self._group = []

    def _report(self) -> None:
        size = 0
        for batch in self._unsynced:
            size += batch.size
            self._reported_messages += batch.messages
        self._reported_batches += len(self._unsynced)
        self.is_untidy = True
        number = self._unsynced[-1].number
        self._unsynced = []
        synced = self._writer.take_synced()
        if self._when_confirmed is None:
            self._confirmed(number, size, synced)
        else:
            self._when_confirmed(partial(self._confirmed, number, size, synced))

    def _confirmed(self, number: int, size: int, synced: list[tuple[StreamFiles, int]]) -> None:
        for files, offset in synced:
            files.durable_offset = offset
        self.synced_bytes += size
        self.durable = number
        self._notify()


@mypyc_attr(allow_interpreted_subclasses=True)
class GroupCommit:
    """Runs the rounds; batches that come while a round runs share the next one."""

    def start(self) -> None:
        """Start; called once, before all other methods."""

    @abstractmethod
    def submit(self, batch: Batch) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Return when all submitted batches are synced, or never will be. No batch may be submitted afterwards."""


@final
class SyncThread(GroupCommit):
    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self._inbox: SimpleQueue[Batch | None] = SimpleQueue()
        self._worker = threading.Thread(target=self._run, name="flintmq-sync", daemon=True)

    def start(self) -> None:
        self._worker.start()

    def submit(self, batch: Batch) -> None:
        self._inbox.put(batch)

    def close(self) -> None:
        self._inbox.put(None)
        self._worker.join()

    def _run(self) -> None:
        goes_on = True
        while goes_on:
            batches, is_last = self._collect()
            goes_on = self._rounds.round(batches, is_last, time.monotonic())
            self._rounds.end(time.monotonic())

    def _collect(self) -> tuple[list[Batch], bool]:
        """Wait for batches, as long as the next round may; return those that have come, and True for the last."""
        batches: list[Batch] = []
        inbox = self._inbox
        seconds: float | None = 0.0
        while True:
            if inbox.empty():
                seconds = self._rounds.wait_seconds(batches, time.monotonic())
            try:
                batch = inbox.get(timeout=seconds)
            except Empty:
                return batches, False
            if batch is None:
                return batches, True
            batches.append(batch)
