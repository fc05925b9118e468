"""The storage of a node: data directory lock, definitions, journal, streams, pages, and the sync thread that writes
them.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from mypy_extensions import mypyc_attr

from flintmq.base.errors import StorageError, StorageFenced
from flintmq.base.histogram import Histogram
from flintmq.base.limits import SEGMENT_BYTES
from flintmq.broker.message import ContentCodec, Entry
from flintmq.broker.ports import DefinitionStore, Journal, Pages, Storage, StreamLog
from flintmq.storage.block import Damage
from flintmq.storage.content import ContentReader
from flintmq.storage.definitions.catalogue import Catalogue
from flintmq.storage.definitions.consistency import check_ids, check_marks
from flintmq.storage.definitions.database import DefinitionDatabase, recovery_advice, rewrite_log
from flintmq.storage.definitions.latest_record import latest_definitions
from flintmq.storage.definitions.store import SqliteDefinitions
from flintmq.storage.failure import describe_failure, is_full
from flintmq.storage.files import Disk, DiskLock, RealDisk
from flintmq.storage.group_commit import Batch, GroupCommit, Rounds, RoundWriter, SyncThread
from flintmq.storage.journal.encoder import JournalEncoder
from flintmq.storage.journal.files import JournalFiles
from flintmq.storage.journal.recovery import Replay
from flintmq.storage.layout import holds_messages
from flintmq.storage.pages.spill import Spill, SpillRunner, SpillThread
from flintmq.storage.pages.store import PageStore
from flintmq.storage.quarantine import Quarantine
from flintmq.storage.replication.disk import ReplicatedDisk
from flintmq.storage.replication.log import OperationLog
from flintmq.storage.reserve import Reserve
from flintmq.storage.stream.files import DELETED_SUFFIX, StreamFiles, remove_stream_directory
from flintmq.storage.stream.log import SegmentedStream
from flintmq.storage.stream.open_files import OpenFiles

# The default memory for the packed messages of deep queues.
PAGES_MEMORY_MAX_BYTES: Final = 256 * 1024 * 1024
# The copy of the definitions at the start of a journal segment takes at most this part of the segment.
_DEFINITIONS_DIVISOR: Final = 4


def lock_directory(disk: Disk, path: Path) -> DiskLock:
    """Create a data directory and lock it, so that one that cannot be used is found at the start, not at the first
    message. Raises StorageError.
    """
    try:
        disk.make_directory(path)
        return disk.lock(path / "lock")
    except (FileExistsError, NotADirectoryError) as error:
        raise StorageError(f"{path} is not a directory: choose one for the data") from error
    except OSError as error:
        raise StorageError(
            f"the data directory {path} cannot be used ({error.strerror}): "
            "choose a directory that this user may write to"
        ) from error


@mypyc_attr(allow_interpreted_subclasses=True)
class NodeStorage(Storage):
    """The storage of a node. All methods are called on the event loop's thread.

    `notify` is called on the sync thread whenever `durable_batch`, `full` or `failure` has changed; it must not block.
    `reserve_bytes` of disk space are reserved for a full disk. `segment_bytes` and `pages_memory_max` are in bytes.
    Disk, database and threads can be replaced, so that the whole storage can be simulated. Nothing may be appended to
    the journal before `recover()`. With a `log`, the node leads a cluster: what changes is logged there, and is durable
    when the followers have it; `database` must log, too (`replication.disk.logs_statements`). Raises StorageError if
    the directory cannot be used.
    """

    def __init__(
        self,
        path: Path,
        codecs: dict[int, ContentCodec],
        notify: Callable[[], None],
        disk: Disk | None = None,
        segment_bytes: int = SEGMENT_BYTES,
        database: Callable[[Path], DefinitionDatabase] = DefinitionDatabase,
        group_commit: Callable[[Rounds], GroupCommit] = SyncThread,
        reserve_bytes: int = 0,
        pages_memory_max: int = PAGES_MEMORY_MAX_BYTES,
        spill_runner: Callable[[], SpillRunner] = SpillThread,
        log: OperationLog | None = None,
    ) -> None:
        self._path = path
        self._codecs = codecs
        self._disk = disk or RealDisk()
        if log is not None:
            self._disk = ReplicatedDisk(self._disk, path, log)
        self._segment_bytes = segment_bytes
        self._lock = lock_directory(self._disk, path)
        try:
            self._reserve = Reserve(self._disk, path, reserve_bytes)
            # A start on a full disk needs space, and so does consuming the messages that filled it.
            self._reserve.release()
            self._database = self._open_database(database)
        except OSError as error:
            self._lock.release()
            raise self._unreadable(error) from error
        except StorageError:
            self._lock.release()
            raise
        self._catalogue = Catalogue(self._marks.identity, self._marks.generation)
        self._definitions = SqliteDefinitions(self._database, self._catalogue)
        # Nothing can be written to the journal before `recover`.
        self._is_recovered = False
        self._journal_files = JournalFiles(self._disk, path / "journal", segment_bytes)
        self._journal = JournalEncoder(segment_bytes, self._journal_files.chunks)
        self._content = ContentReader(codecs)
        self._open_files = OpenFiles(self._disk)
        self._spill = Spill(self._disk, path / "pages", spill_runner())
        self._pages = PageStore(codecs, self._spill, pages_memory_max)
        self._streams: dict[int, SegmentedStream] = {}
        self._staged_streams: dict[SegmentedStream, None] = {}
        self._deleted_streams: list[StreamFiles] = []
        self._quarantine = Quarantine(self._disk, path)
        self._quarantined: dict[Damage, None] = {}
        self._next_seqs: dict[int, int] = {}
        self._batch = 0
        self._submitted_bytes = 0
        self._is_behind = False
        # The number of the newest batch that changed definitions.
        self._definitions_batch = 0
        self._closed = False
        self._rounds = Rounds(
            RoundWriter(self._database, self._journal_files, self._marks.journal_written),
            self._reserve,
            notify,
            None if log is None else log.when_confirmed,
        )
        self._group = group_commit(self._rounds)
        self._group.start()

    def _open_database(self, database: Callable[[Path], DefinitionDatabase]) -> DefinitionDatabase:
        path = self._path / "definitions.sqlite"
        try:
            rewrite_log(self._disk, path)
        except OSError as error:
            raise self._unreadable(error) from error
        opened = database(path)
        try:
            self._check_not_lost(opened)
            opened.make()
            self._marks = opened.marks(self._draw_identity)
            self._check_marks(opened)
        except BaseException:
            opened.close_unused()
            raise
        return opened

    def _draw_identity(self) -> int:
        # SQLite has signed integers only, and 0 means that there is no identity.
        return max(int.from_bytes(self._disk.random_bytes(8)) >> 1, 1)

    def _check_not_lost(self, database: DefinitionDatabase) -> None:
        """Refuse to start if there are messages but no definitions: all messages would be removed, because their queues
        are unknown.
        """
        try:
            is_lost = database.is_blank and holds_messages(self._disk, self._path)
        except OSError as error:
            raise self._unreadable(error) from error
        if is_lost:
            raise StorageError(
                f"{database.path} is missing or empty, but {self._path} has messages: {recovery_advice(self._path)}"
            )

    def _check_marks(self, database: DefinitionDatabase) -> None:
        try:
            described = latest_definitions(self._disk, self._path / "journal", self._disk.open)
        except OSError as error:
            raise self._unreadable(error) from error
        check_marks(database.path, self._marks, described)

    @property
    def journal(self) -> Journal:
        return self._journal

    @property
    def pages(self) -> Pages:
        return self._pages

    @property
    def sync_seconds(self) -> Histogram:
        """Durations of the rounds of writing and syncing that made a batch durable."""
        return self._rounds.seconds

    @property
    def pages_trouble(self) -> str:
        """Why pages cannot be written to the disk, so that they stay in memory; empty if they can."""
        return self._spill.trouble

    @property
    def definitions(self) -> DefinitionStore:
        return self._definitions

    @property
    def damage(self) -> list[Damage]:
        """The unreadable parts that were found so far; they are skipped, and never delivered."""
        found = list(self._journal_files.damage)
        for stream in self._streams.values():
            found += stream.files.damage
        return found

    def quarantine_damage(self) -> list[Damage]:
        """Copy the damage that was found since the last call to the quarantine; return it."""
        new = [damage for damage in self.damage if damage not in self._quarantined]
        for damage in new:
            self._quarantine.keep(damage)
            self._quarantined[damage] = None
        return new

    def quarantine_orphans(self, queue_ids: set[int]) -> list[tuple[Path, Path | None]]:
        """Move the streams of all queues except `queue_ids` to the quarantine; a crash left them.

        Returns pairs of the old and the new path; the new path is None if the quarantine is too full and the stream
        stays.
        """
        directory = self._path / "streams"
        orphans = [directory / str(queue_id) for queue_id in self._stream_ids() if queue_id not in queue_ids]
        try:
            return [(orphan, self._quarantine.move_stream(orphan)) for orphan in orphans]
        except OSError as error:
            raise self._unreadable(error) from error

    def _stream_ids(self) -> list[int]:
        """The queue ids of the streams that have files."""
        return [int(name) for name in self._disk.list_directory(self._path / "streams") if name.isdecimal()]

    def _check_ids(self, highest_id: int) -> None:
        if self._definitions.next_queue_id:
            check_ids(self._database.path, self._definitions.next_queue_id, highest_id)

    def recover(self, queue_ids: set[int], note_ids: set[int]) -> Iterator[tuple[int, list[Entry]]]:
        replay = Replay(self._codecs, queue_ids, note_ids)
        self._check_ids(max(set(self._stream_ids()) - queue_ids, default=0))
        try:
            written, ended = self._marks.journal_written, self._marks.journal_ended
            number = self._journal_files.recover(replay, self._journal.occupancy, written, ended)
            self._check_ids(replay.highest_unknown_id)
            self._clear_clean_stop()
            self._next_seqs = replay.next_seqs()
            self._journal.start(number, max(self._next_seqs.values(), default=1) - 1)
            self._is_recovered = True
            # A segment that could not be read has no live entries, and the first batch removes it. It is not removed
            # earlier: a crash could then leave no segment as new as the definitions record.
            for damage in self._journal_files.damage:
                self._quarantine.keep(damage)
            self._remove_deleted_streams()
            self._spill.clear()
        except OSError as error:
            raise self._unreadable(error) from error
        self._take_reserve()
        return self._recovered(replay)

    def _clear_clean_stop(self) -> None:
        """Clear the mark of the clean stop: messages may be delivered from now on, so the journal's list of undelivered
        messages is no longer valid.
        """
        if self._marks.journal_ended:
            try:
                self._database.mark("journal_ended", 0)
            except sqlite3.Error as error:
                raise StorageError(f"{self._database.path} cannot be written ({error}): check the disk") from error

    def _recovered(self, replay: Replay) -> Iterator[tuple[int, list[Entry]]]:
        try:
            yield from replay.entries(self._journal_files, self._journal.occupancy)
        except OSError as error:
            raise self._unreadable(error) from error

    def _take_reserve(self) -> None:
        """Create the reserve. If the disk is too full, the sync thread and the publishers wait for space."""
        try:
            self._reserve.allocate()
        except OSError as error:
            self._rounds.full = describe_failure(error)
            self._group.submit(Batch(self._batch, 0, [], None, [], []))

    def recovered_next_seq(self, queue_id: int) -> int:
        return self._next_seqs.get(queue_id, 1)

    def _unreadable(self, error: OSError) -> StorageError:
        if is_full(error):
            return StorageError(f"disk full: {error.filename} cannot be written ({error.strerror}): free disk space")
        return StorageError(f"{error.filename} cannot be read ({error.strerror}): check the disk and its permissions")

    def _remove_deleted_streams(self) -> None:
        """Remove the streams whose removal a crash interrupted."""
        directory = self._path / "streams"
        for name in self._disk.list_directory(directory):
            if name.endswith(DELETED_SUFFIX):
                remove_stream_directory(self._disk, directory / name)

    def open_stream(self, queue_id: int) -> StreamLog:
        stream = self._streams.get(queue_id)
        if stream is None:
            files = self._stream_files(queue_id)
            try:
                files.recover()
            except OSError as error:
                raise self._unreadable(error) from error
            stream = SegmentedStream(files, self._open_files, self._content, self._staged_streams)
            self._streams[queue_id] = stream
        return stream

    def delete_stream(self, queue_id: int) -> None:
        stream = self._streams.pop(queue_id, None)
        if stream is None:
            self._deleted_streams.append(self._stream_files(queue_id))
            return
        self._staged_streams.pop(stream, None)
        self._open_files.forget_directory(stream.files.directory)
        self._deleted_streams.append(stream.files)

    def _stream_files(self, queue_id: int) -> StreamFiles:
        directory = self._path / "streams" / str(queue_id)
        description = self._catalogue.text_of_queue(queue_id)
        return StreamFiles(self._disk, directory, self._segment_bytes, self._content, description)

    def commit(self) -> int:
        if self._rounds.failure:
            self.discard()
            # Batches that are not durable never will be; clients that wait for them get an error.
            self._definitions_batch = 0
            raise StorageFenced(self._rounds.failure)
        definitions = self._definitions.take()
        if self._is_recovered:
            self._record_definitions()
        journal = self._journal.take() if self._journal.staged else None
        streams = [(stream.files, stream.take()) for stream in self._staged_streams]
        if journal is None and not (streams or definitions or self._deleted_streams):
            return self._batch
        size = journal.size if journal is not None else 0
        size += sum(len(part) for _, blocks in streams for block in blocks for part in block.parts)
        self._batch += 1
        self._submitted_bytes += size
        if definitions:
            self._definitions_batch = self._batch
        batch = Batch(self._batch, size, definitions, journal, streams, self._deleted_streams, self._is_behind)
        self._group.submit(batch)
        self._is_behind = False
        self._staged_streams.clear()
        self._deleted_streams = []
        return self._batch

    def _record_definitions(self) -> None:
        """Add to journal and streams the copy of the definitions from which they can be rebuilt."""
        journal = self._journal
        if self._definitions.catalogue_change:
            journal.append_definitions(self._definitions.catalogue_change)
        if journal.wants_definitions:
            journal.wants_definitions = False
            journal.append_definitions(self._catalogue.encode_all(self._segment_bytes // _DEFINITIONS_DIVISOR))
        for stream in self._staged_streams:
            if not stream.files.description:
                stream.files.description = self._catalogue.text_of_queue(int(stream.files.directory.name))

    def begin_behind(self) -> None:
        self._is_behind = True

    def discard(self) -> None:
        self._journal.discard()
        self._definitions.discard()
        for stream in self._staged_streams:
            stream.take()
        self._staged_streams.clear()

    @property
    def durable_batch(self) -> int:
        return self._rounds.durable

    @property
    def definitions_durable(self) -> bool:
        return not self._definitions.staged and self._definitions_batch <= self._rounds.durable

    @property
    def backlog_bytes(self) -> int:
        # Nothing waits for a failed disk.
        return 0 if self._rounds.failure else self._submitted_bytes - self._rounds.synced_bytes

    @property
    def full(self) -> str:
        """The reason why nothing can be written until there is disk space again; empty if there is."""
        return self._rounds.full

    @property
    def failure(self) -> str:
        return self._rounds.failure

    def close(self) -> None:
        """Commit and sync everything, and close all files; the directory can be opened again. May be called twice."""
        if self._closed:
            return
        self._closed = True
        if not self._rounds.failure:
            self.commit()
        self._group.close()
        self._open_files.close()
        self._spill.close()
        for stream in self._streams.values():
            stream.files.close()
        self._journal_files.close()
        # A failed database may fail here, too; committed changes are on the disk anyway.
        with suppress(sqlite3.Error):
            if self._is_recovered and not self._rounds.failure:
                self._database.mark("journal_ended", self._journal_files.numbers[-1])
            self._database.close()
        self._lock.release()
