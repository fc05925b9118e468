"""Writers to a lake: tasks write files, and the driver adds them, a batch at a time.

A batch is decided in the manifest, then added to the table, then told of. Whatever ends the driver in between, Spark
does the batch again: its manifest is found, and each step is made unless it was made.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.spark.failures import told
from flintmq.spark.lake.datafile import Batch, DataFile
from flintmq.spark.lake.events import announce
from flintmq.spark.lake.files import TaskFiles, remove_files, written_path
from flintmq.spark.lake.formats import open_table
from flintmq.spark.lake.layout import Layout
from flintmq.spark.lake.manifest import Description, LakeDamaged, Manifest
from flintmq.spark.lake.options import LakeFormat, LakeWriteOptions

_QUERY_ID: Final = "sql.streaming.queryId"

Messages = list[WriterCommitMessage | None]


@dataclass
class Written(WriterCommitMessage):
    """What one task wrote, and for which streaming query."""

    query: str
    files: list[DataFile]


class Lake:
    """A lake that is written to."""

    def __init__(self, options: LakeWriteOptions, schema: StructType) -> None:
        """Raises ConfigurationError when the lake has other columns."""
        self._options = options
        self._layout = Layout(schema, options.partition_by, options.time_column)
        format = options.place.format or LakeFormat.PARQUET
        self._description = Description(format, self._layout.schema, options.partition_by)
        self._manifest = Manifest(options.place.root)
        self._manifest.check(self._description)

    def write(self, batches: Iterator[pa.RecordBatch]) -> list[DataFile]:
        """What a task does, on an executor."""
        files = TaskFiles(self._options, self._layout)
        with told():
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
            with told():
                self._commit(batch)

    def _commit(self, batch: Batch) -> None:
        self._manifest.describe(self._description)
        before = self._before(batch)
        self._check_files(batch)
        decided = self._manifest.decide(batch)
        self._remove_losers(batch, decided)
        table = open_table(self._options.place, self._description.format)
        table.create(self._description)
        if before is not None:
            # Given up after it was decided, maybe: behind this one, the table would take it for added.
            table.commit(before)
        table.commit(decided)
        events = self._options.events
        if events is not None:
            with told(events.endpoint), _its_rows_are_in(batch, self._options.place.path):
                announce(events, self._options.place, replace(decided, goes_on=batch.goes_on))

    def _check_files(self, batch: Batch) -> None:
        """Raises LakeDamaged for one that is gone: decided, the batch could never be completed."""
        for file in batch.files:
            path = written_path(self._options, file.path)
            if not path.exists() and self._manifest.batch(batch.query, batch.number) is None:
                raise LakeDamaged(
                    f"the file {path}, which a task has written just now, is not there: somebody removed it, as a "
                    "vacuum does with files older than its limit; or the driver does not see the lake's file system"
                )

    def _before(self, batch: Batch) -> Batch | None:
        """The one that a new batch comes behind. Raises ConfigurationError where its number is lower."""
        last = self._manifest.head(batch.query)
        if last is None or last == batch.number or self._manifest.batch(batch.query, batch.number) is not None:
            return None
        if batch.number < last:
            path = self._options.place.path
            raise ConfigurationError(
                f"batch {batch.number} of {batch.query} comes when batch {last} is in the lake {path}: numbers "
                "have to grow. Give it a higher batchId or another transactionalId; a query that has an old checkpoint "
                "needs a new checkpoint location"
            )
        return self._manifest.batch(batch.query, last)

    def discard(self, batch: Batch) -> None:
        """The attempt failed: its files are removed, unless they are the batch for good."""
        decided = self._manifest.batch(batch.query, batch.number) if batch.query else None
        self._remove_losers(batch, decided)

    def _remove_losers(self, batch: Batch, decided: Batch | None) -> None:
        kept = {file.path for file in decided.files} if decided else set()
        remove_files(self._options, [file for file in batch.files if file.path not in kept])


@contextmanager
def _its_rows_are_in(batch: Batch, path: str) -> Iterator[None]:
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
        return Written(query, self._lake.write(iterator))

    def commit(self, messages: Messages, batchId: int) -> None:
        self._lake.commit(_batch(messages, batchId, True))

    def abort(self, messages: Messages, batchId: int) -> None:
        self._lake.discard(_batch(messages, batchId, True))


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
        return Written(name, self._lake.write(iterator))

    def commit(self, messages: Messages) -> None:
        self._lake.commit(_batch(messages, self._number, self._goes_on))

    def abort(self, messages: Messages) -> None:
        self._lake.discard(_batch(messages, self._number, self._goes_on))


def _batch(messages: Messages, number: int, goes_on: bool) -> Batch:
    written = [message for message in messages if isinstance(message, Written)]
    query = written[0].query if written else ""
    return Batch(query, number, tuple(file for message in written for file in message.files), goes_on)
