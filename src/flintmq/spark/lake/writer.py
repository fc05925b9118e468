"""Writers to a lake: tasks write files, and the driver adds them, a batch at a time.

A batch is decided in the manifest, then added to the table, then told of. Whatever ends the driver in between, Spark
does the batch again: its manifest is found, and each step is made unless it was made.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from flintmq.spark.lake.datafile import Batch, DataFile
from flintmq.spark.lake.events import announce
from flintmq.spark.lake.files import TaskFiles, remove_files
from flintmq.spark.lake.formats import open_table
from flintmq.spark.lake.layout import Layout
from flintmq.spark.lake.manifest import Description, Manifest
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
        try:
            for batch in batches:
                files.add(batch)
            return files.end()
        except BaseException:
            files.discard()
            raise

    def commit(self, batch: Batch) -> None:
        """Raises FlintError; what was done by then is not done again."""
        if not batch.files:
            return
        self._manifest.describe(self._description)
        decided = self._manifest.decide(batch)
        self._remove_losers(batch, decided)
        table = open_table(self._options.place, self._description.format)
        table.create(self._description)
        table.commit(decided)
        if self._options.events is not None:
            announce(self._options.events, self._options.place, replace(decided, goes_on=batch.goes_on))

    def discard(self, batch: Batch) -> None:
        """The attempt failed: its files are removed, unless they are the batch for good."""
        decided = self._manifest.batch(batch.query, batch.number) if batch.query else None
        self._remove_losers(batch, decided)

    def _remove_losers(self, batch: Batch, decided: Batch | None) -> None:
        kept = {file.path for file in decided.files} if decided else set()
        remove_files(self._options, [file for file in batch.files if file.path not in kept])


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
        return Written(f"{self._name}.{query}" if query else self._name, self._lake.write(iterator))

    def commit(self, messages: Messages) -> None:
        self._lake.commit(_batch(messages, self._number, self._goes_on))

    def abort(self, messages: Messages) -> None:
        self._lake.discard(_batch(messages, self._number, self._goes_on))


def _batch(messages: Messages, number: int, goes_on: bool) -> Batch:
    written = [message for message in messages if isinstance(message, Written)]
    query = written[0].query if written else ""
    return Batch(query, number, tuple(file for message in written for file in message.files), goes_on)
