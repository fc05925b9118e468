"""Writers to a lake: tasks write files, and the driver adds them, a batch at a time.

A batch is decided in the manifest, then added to the table, then told of. Whatever ends the driver in between, Spark
does the batch again: its manifest is found, and each step is made unless it was made.
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
    """What one task wrote, for which streaming query, and in which attempt at its batch."""

    query: str
    files: list[DataFile]
    attempt: str


class Lake:
    """A lake that is written to."""

    def __init__(self, options: LakeWriteOptions, schema: StructType) -> None:
        """Raises ConfigurationError when the lake has other columns."""
        self._options = options
        # Spark makes a writer for each attempt at a batch, and sends it to all tasks of that.
        self.attempt = new_attempt()
        self._layout = Layout(schema, options.partition_by, options.time_column)
        format = options.place.format or LakeFormat.PARQUET
        self._description = Description(format, self._layout.schema, options.partition_by)
        self._manifest = Manifest(options.place.root)
        self._manifest.check(self._description)
        # What its library does not take is told before anything is written.
        open_table(options.place, format)

    def write(self, batches: Iterator[pa.RecordBatch]) -> list[DataFile]:
        """What a task does, on an executor."""
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
        """Raises FlintError; what was done by then is not done again."""
        if batch.files:
            with user_errors():
                self._commit(batch)

    def _commit(self, batch: Batch) -> None:
        table = open_table(self._options.place, self._description.format)
        try:
            self._prepare(batch, table)
        except BaseException:
            # Here, and nowhere else, it is certain that nobody has decided it, nor is about to.
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
        """All that can be known to be wrong before the batch is decided; nothing can be done about it later."""
        if self._manifest.description() is None:
            table.check(self._description)
        self._manifest.describe(self._description)
        last = self._manifest.head(batch.query)
        if last is not None:
            self._complete(batch.query, last, table)
            self._check_number(batch, last)
        self._check_files(batch)

    def _complete(self, query: str, number: int, table: Table) -> None:
        """Given up after it was decided, maybe: behind a new one, the table would take it for added. Who is refused is
        told to begin behind it, too.
        """
        decided = self._manifest.batch(query, number)
        if decided is not None:
            table.create(self._description)
            table.commit(decided)

    def _check_files(self, batch: Batch) -> None:
        """Raises LakeDamaged for one that is gone: decided, the batch could never be completed."""
        for file in batch.files:
            path = written_path(self._options, file.path)
            if not path.exists() and self._manifest.batch(batch.query, batch.number) is None:
                raise LakeDamaged(
                    f"the file {path}, which a task has written just now, is not there: somebody removed it, as a "
                    "vacuum does with files older than its limit; or the driver does not see the lake's file system"
                )

    def _check_number(self, batch: Batch, last: int) -> None:
        """Raises ConfigurationError for a new batch whose number is lower than the last one's."""
        decided = self._manifest.batch(batch.query, batch.number)
        if decided is not None:
            self._check_known(batch, decided)
        elif batch.number < last:
            path = self._options.place.path
            raise ConfigurationError(
                f"batch {batch.number} of {batch.query} comes when batch {last} is in the lake {path}: numbers "
                "have to grow. Give it a higher batchId or another transactionalId; a query that has an old checkpoint "
                "needs a new checkpoint location"
            )

    def _check_known(self, batch: Batch, decided: Batch) -> None:
        """A batch that comes again ends where it ended: else the next one begins elsewhere than behind what was
        decided, and rows are lost or doubled. Raises ConfigurationError.
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
            "checkpoint, or its rows are others each time it is run (by rand, or tables that change), and would be "
            "lost or doubled. It needs a new checkpoint location and, to begin behind what the lake has of streams, "
            f"startingOffsets {json.dumps(self._behind({*there, *other}))}"
        )

    def _behind(self, queues: set[str]) -> dict[str, int]:
        """The offsets behind the highest ones that the lake has, whichever query wrote them."""
        found: dict[str, int] = {}
        for batch in self._manifest.batches(self._manifest.heads()):
            found.update({queue: max(end.offset + 1, found.get(queue, 0)) for queue, end in _ends(batch).items()})
        return {queue: found.get(queue, 0) for queue in sorted(queues)}

    def discard(self, batch: Batch, attempt: str = "", is_undecided: bool = False) -> None:
        """The attempt failed: all that its tasks wrote is removed, unless it is the batch for good.

        With `is_undecided`, it did not come to a commit. Else that may go on still, in a process that Spark has turned
        away from: where the manifest does not know, nobody does, and files stay.
        """
        decided = self._manifest.batch(batch.query, batch.number) if batch.query else None
        if decided is None and not is_undecided:
            left = [file.path for file in batch.files if written_path(self._options, file.path).exists()]
            if left:
                _log.warning(
                    "whether batch %d of %s was about to be decided is not known: %d files in the lake %s stay until a "
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
            # What tasks wrote that were killed, or whose word did not come.
            kept = {Path(file.path).name for file in decided.files} if decided else set()
            for path in attempt_files(self._options, attempt):
                if path.name not in kept:
                    path.unlink(missing_ok=True)
        elif is_undecided:
            _log.warning(
                "batch %d was given up, and none of its tasks has said what it wrote: that stays in the lake %s until "
                "a vacuum",
                batch.number,
                self._options.place.path,
            )

    def _remove_unused(self, batch: Batch, decided: Batch | None) -> None:
        kept = {file.path for file in decided.files} if decided else set()
        remove_files(self._options, [file for file in batch.files if file.path not in kept])


@contextmanager
def _errors_after_decision(batch: Batch, path: str) -> Iterator[None]:
    """A batch that will come again is completed then. One that is a job of its own would be another one."""
    try:
        yield
    except Exception as error:
        if batch.goes_on or isinstance(error, LakeDamaged):
            raise
        raise FlintError(
            f"the rows are decided to be in the lake {path}, and did not get into its table ({error}). Run this again "
            f"with the options transactionalId={batch.query} and batchId={batch.number}, which completes it: without "
            "them, the rows would be there twice"
        ) from error


@contextmanager
def _errors_after_commit(batch: Batch, path: str) -> Iterator[None]:
    """A batch that will come again tells its events then. One that is a job of its own must not be run again."""
    try:
        yield
    except FlintError as error:
        if batch.goes_on:
            raise
        raise FlintError(
            f"all rows are in the lake {path}, and only its events were not published ({error}): do not run this again"
        ) from error


class LakeStreamWriter(DataSourceStreamArrowWriter):
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
        # Made anew for this, it does not know the attempt; any task that was done does.
        attempt = next((message.attempt for message in messages if isinstance(message, Written)), "")
        self._lake.discard(_batch(messages, batchId, True), attempt, None in messages)


class LakeBatchWriter(DataSourceArrowWriter):
    """A whole query is one batch, under a name of its own; or a certain one of an application, which counts them."""

    def __init__(self, options: LakeWriteOptions, schema: StructType) -> None:
        self._lake = Lake(options, schema)
        self._name = options.transactional_id or f"batch-{uuid.uuid4()}"
        self._number = options.batch_id
        self._goes_on = bool(options.transactional_id)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        # In foreachBatch, numbers are the query's: another one, with a new checkpoint, begins at 0 again.
        query = context.getLocalProperty(_QUERY_ID) if context and self._goes_on else None
        name = f"{self._name}.{query}" if query and query != self._name else self._name
        return Written(name, self._lake.write(iterator), self._lake.attempt)

    def commit(self, messages: Messages) -> None:
        self._lake.commit(_batch(messages, self._number, self._goes_on))

    def abort(self, messages: Messages) -> None:
        self._lake.discard(_batch(messages, self._number, self._goes_on), self._lake.attempt, None in messages)


class _End(NamedTuple):
    """The highest offset that rows of a queue have, and of which generation; -1 where they do not say."""

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
