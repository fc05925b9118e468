"""Writers of a lake that Spark calls: tasks write files, and the driver adds them batch by batch.

The driver first decides a batch in the manifest, then adds it to the table, then publishes its events. If the driver
dies in between, Spark repeats the batch. The driver then finds the decision, and does the steps that are missing.
"""

import json
import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.spark.errors import user_errors
from flintmq.spark.lake.data_file import Batch, DataFile
from flintmq.spark.lake.events import announce
from flintmq.spark.lake.files import TaskFiles
from flintmq.spark.lake.formats import Table, open_table
from flintmq.spark.lake.layout import Layout
from flintmq.spark.lake.manifest import Description, LakeDamaged, Manifest
from flintmq.spark.lake.options import LakeFormat, LakeWriteOptions
from flintmq.spark.lake.paths import attempt_files, new_attempt, remove_files, written_path

_log: Final = logging.getLogger(__name__)
_QUERY_ID: Final = "sql.streaming.queryId"

Messages = list[WriterCommitMessage | None]


@dataclass
class Written(WriterCommitMessage):
    """The result of one task: its files, the query, and the attempt at the batch."""

    query: str
    files: list[DataFile]
    attempt: str


class Lake:
    """A lake to which a query writes rows of one schema. The constructor raises ConfigurationError."""

    def __init__(self, options: LakeWriteOptions, schema: StructType) -> None:
        self._options = options
        # Spark creates a writer for each attempt at a batch, and sends it to all tasks of the attempt.
        self.attempt = new_attempt()
        self._layout = Layout(schema, options.partition_by, options.time_column)
        format = options.place.format or LakeFormat.PARQUET
        self._description = Description(format, self._layout.schema, options.partition_by)
        self._manifest = Manifest(options.place.root)
        self._manifest.check(self._description)
        # Opening the table raises errors of its library before anything is written.
        open_table(options.place, format)

    def write(self, batches: Iterator[pa.RecordBatch]) -> list[DataFile]:
        """Write rows to files in a task, and return the files. Raises FlintError."""
        files = TaskFiles(self._options, self._layout, self.attempt)
        with user_errors():
            try:
                for batch in batches:
                    files.add(batch)
                return files.end()
            except BaseException:
                files.discard()
                raise

    def commit(self, batch: Batch) -> None:
        """Decide a batch, add it to the table and publish its events; steps that were done before are skipped.

        Raises FlintError.
        """
        if batch.files:
            with user_errors():
                self._commit(batch)

    def _commit(self, batch: Batch) -> None:
        table = open_table(self._options.place, self._description.format)
        try:
            self._prepare(batch, table)
        except BaseException:
            # The files can be removed here, because it is certain that this driver has not begun to decide the batch.
            with suppress(FlintError, OSError):
                self._remove_unused(batch, self._manifest.batch(batch.query, batch.number))
            raise
        decided = self._manifest.decide(batch)
        self._remove_unused(batch, decided)
        with _errors_after_decision(batch, self._options.place.path):
            table.create(self._description)
            table.commit(decided)
        events = self._options.events
        if events is not None:
            with user_errors(events.endpoint), _errors_after_commit(batch, self._options.place.path):
                announce(events, self._options.place, replace(decided, goes_on=batch.goes_on))

    def _prepare(self, batch: Batch, table: Table) -> None:
        """Do all checks before the decision, because a decided batch must be completed."""
        if self._manifest.description() is None:
            table.check(self._description)
        self._manifest.describe(self._description)
        last = self._manifest.head(batch.query)
        if last is not None:
            self._complete(batch.query, last, table)
            self._check_number(batch, last)
        self._check_files(batch)

    def _complete(self, query: str, number: int, table: Table) -> None:
        """Add the last decided batch to the table, if a driver died before it did.

        After a later batch, the table would take this one for added. It also has to be there if the new batch is
        refused, because the error tells the user to continue after it.
        """
        decided = self._manifest.batch(query, number)
        if decided is not None:
            table.create(self._description)
            table.commit(decided)

    def _check_files(self, batch: Batch) -> None:
        """Raises LakeDamaged for a missing file, with which a decided batch could never be completed."""
        for file in batch.files:
            path = written_path(self._options, file.path)
            if not path.exists() and self._manifest.batch(batch.query, batch.number) is None:
                raise LakeDamaged(
                    f"the file {path}, which a task has just written, is not there: another program has removed it, "
                    "as a vacuum does with old files; or the driver does not see the lake's file system"
                )

    def _check_number(self, batch: Batch, last: int) -> None:
        """Raises ConfigurationError for a new batch with a lower number than the last one, or a changed old batch."""
        decided = self._manifest.batch(batch.query, batch.number)
        if decided is not None:
            self._check_known(batch, decided)
        elif batch.number < last:
            path = self._options.place.path
            raise ConfigurationError(
                f"batch {batch.number} of {batch.query} comes when batch {last} is in the lake {path}: numbers "
                "must grow. Set a higher batchId or another transactionalId; a query with an old checkpoint needs a "
                "new checkpoint location"
            )

    def _check_known(self, batch: Batch, decided: Batch) -> None:
        """Raises ConfigurationError if a repeated batch does not end at the same offsets as the decided one.

        The next batch would then not begin where the decided one ends, and rows would be lost or doubled.
        """
        there, here = _ends(decided), _ends(batch)
        other = [queue for queue, end in sorted(here.items()) if there.get(queue) != end]
        if not other or not batch.goes_on:
            return
        queue, path = other[0], self._options.place.path
        had = f"up to offset {there[queue].offset}" if queue in there else "none"
        if queue in there and there[queue].offset == here[queue].offset:
            had += f" of another generation ({there[queue].generation}, not {here[queue].generation})"
        raise ConfigurationError(
            f"batch {batch.number} of {batch.query} comes again with messages of the queue {queue!r} up to offset "
            f"{here[queue].offset}, and the batch of that number in the lake {path} has {had}: the query has an old "
            "checkpoint, or its rows differ each time it runs (by rand, or tables that change), and would be lost or "
            "doubled. It needs a new checkpoint location and, to begin after the rows of streams in the lake, "
            f"startingOffsets {json.dumps(self._offsets_after({*there, *other}))}"
        )

    def _offsets_after(self, queues: set[str]) -> dict[str, int]:
        """The offsets after the highest ones of these queues in the lake, of all queries."""
        found: dict[str, int] = {}
        for batch in self._manifest.batches(self._manifest.heads()):
            found.update({queue: max(end.offset + 1, found.get(queue, 0)) for queue, end in _ends(batch).items()})
        return {queue: found.get(queue, 0) for queue in sorted(queues)}

    def discard(self, batch: Batch, attempt: str = "", is_undecided: bool = False) -> None:
        """Remove the files of a failed attempt, unless they are the decided batch.

        With `is_undecided`, Spark has not called a commit. Otherwise a commit may still run, in a process that Spark no
        longer waits for. If the manifest does not have the batch then, its files stay. Raises FlintError.
        """
        decided = self._manifest.batch(batch.query, batch.number) if batch.query else None
        if decided is None and not is_undecided:
            left = [file.path for file in batch.files if written_path(self._options, file.path).exists()]
            if left:
                _log.warning(
                    "it is unknown whether batch %d of %s is being decided: %d files in the lake %s stay until a "
                    "vacuum, %s and so on",
                    batch.number,
                    batch.query,
                    len(left),
                    self._options.place.path,
                    left[0],
                )
            return
        self._remove_unused(batch, decided)
        if attempt:
            # Some tasks were killed, or Spark lost their results: their files are found by the name of the attempt.
            kept = {Path(file.path).name for file in decided.files} if decided else set()
            for path in attempt_files(self._options, attempt):
                if path.name not in kept:
                    path.unlink(missing_ok=True)
        elif is_undecided:
            _log.warning(
                "batch %d was aborted, and none of its tasks has reported its files: they stay in the lake %s until a "
                "vacuum",
                batch.number,
                self._options.place.path,
            )

    def _remove_unused(self, batch: Batch, decided: Batch | None) -> None:
        kept = {file.path for file in decided.files} if decided else set()
        remove_files(self._options, [file for file in batch.files if file.path not in kept])


@contextmanager
def _errors_after_decision(batch: Batch, path: str) -> Iterator[None]:
    """Raise errors of the block with advice for a batch job, because Spark does not repeat its decided batch."""
    try:
        yield
    except Exception as error:
        if batch.goes_on or isinstance(error, LakeDamaged):
            raise
        raise FlintError(
            f"the rows are in the manifest of the lake {path}, but not in its table ({error}). Run this again with the "
            f"options transactionalId={batch.query} and batchId={batch.number}, which complete the batch: without "
            "them, the rows would be added twice"
        ) from error


@contextmanager
def _errors_after_commit(batch: Batch, path: str) -> Iterator[None]:
    """Raise errors of events with advice for a batch job, which must not be run again because its rows are there."""
    try:
        yield
    except FlintError as error:
        if batch.goes_on:
            raise
        raise FlintError(
            f"all rows are in the lake {path}, and only its events were not published ({error}): do not run this again"
        ) from error


class LakeStreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches, whose numbers are those of the query's checkpoint."""

    def __init__(self, options: LakeWriteOptions, schema: StructType) -> None:
        self._lake = Lake(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        query = context.getLocalProperty(_QUERY_ID) if context else None
        assert query, "Spark tells tasks of a streaming query its id"
        return Written(query, self._lake.write(iterator), self._lake.attempt)

    def commit(self, messages: Messages, batchId: int) -> None:
        self._lake.commit(_batch(messages, batchId, True))

    def abort(self, messages: Messages, batchId: int) -> None:
        # Spark creates another writer for this call. The results of tasks have the attempt.
        attempt = next((message.attempt for message in messages if isinstance(message, Written)), "")
        self._lake.discard(_batch(messages, batchId, True), attempt, None in messages)


class LakeBatchWriter(DataSourceArrowWriter):
    """Writes one batch: a new one with a random name, or the one that transactionalId and batchId name."""

    def __init__(self, options: LakeWriteOptions, schema: StructType) -> None:
        self._lake = Lake(options, schema)
        self._name = options.transactional_id or f"batch-{uuid.uuid4()}"
        self._number = options.batch_id
        self._goes_on = bool(options.transactional_id)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        # In foreachBatch, the numbers belong to the query: one with a new checkpoint begins with 0 again.
        query = context.getLocalProperty(_QUERY_ID) if context and self._goes_on else None
        name = f"{self._name}.{query}" if query and query != self._name else self._name
        return Written(name, self._lake.write(iterator), self._lake.attempt)

    def commit(self, messages: Messages) -> None:
        self._lake.commit(_batch(messages, self._number, self._goes_on))

    def abort(self, messages: Messages) -> None:
        self._lake.discard(_batch(messages, self._number, self._goes_on), self._lake.attempt, None in messages)


class _End(NamedTuple):
    """The highest offset of a queue's rows, and its generation; -1 if they have no generation."""

    generation: int
    offset: int


def _ends(batch: Batch) -> dict[str, _End]:
    found: dict[str, _End] = {}
    for file in batch.files:
        if file.queue is not None and file.last_offset is not None:
            end = _End(-1 if file.generation is None else file.generation, file.last_offset)
            found[file.queue] = max(end, found.get(file.queue, end))
    return found


def _batch(messages: Messages, number: int, goes_on: bool) -> Batch:
    written = [message for message in messages if isinstance(message, Written)]
    query = written[0].query if written else ""
    return Batch(query, number, tuple(file for message in written for file in message.files), goes_on)
