"""The writers that Spark calls: one for a batch, one for micro-batches.

Spark creates a writer to plan a batch, and pickles it for the tasks. It commits a batch query on the same object. It
commits a micro-batch on another object, created for that in a process that knows neither the query nor the plan. The
messages of the tasks, which know the query, therefore contain all that a commit needs.
"""

import secrets
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.spark.sink import staged_publish
from flintmq.spark.sink.options import WriteOptions
from flintmq.spark.sink.publisher import publish
from flintmq.spark.sink.rows import RowEncoder
from flintmq.spark.sink.staged_publish import Batch

# Properties that Spark sets for the tasks of a micro-batch, also of one that foreachBatch writes.
_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
# The owner of numbered batches that are not of a streaming query.
_NO_QUERY: Final = "batches"

Messages = list[WriterCommitMessage | None]


class BatchWriter(DataSourceArrowWriter):
    """Writes one batch: a new one with a random owner, or the one with the number in the option batchId."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self._encoder = RowEncoder(schema, options)
        self._number = options.batch_id or 0
        self._owner = secrets.token_hex(16) if options.batch_id is None else options.batch_owner

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if not self._options.is_staged:
            return publish(self._options, self._encoder, iterator)
        context = _task()
        if self._options.batch_id is None and context.getLocalProperty(_QUERY_ID):
            raise ConfigurationError(
                "a micro-batch that foreachBatch writes is published again when it is repeated, unless it has a "
                "number: give the batch's, a parameter of the function, as the option batchId; or use deliveryMode "
                "at-least-once"
            )
        owner = self._owner or context.getLocalProperty(_QUERY_ID) or _NO_QUERY
        batch = Batch(owner, self._number)
        return staged_publish.stage(self._options, self._encoder, iterator, batch, context.partitionId())

    def commit(self, messages: Messages) -> None:
        if self._options.is_staged:
            staged_publish.commit(self._options, messages, self._number)

    def abort(self, messages: Messages) -> None:
        if self._options.is_staged:
            staged_publish.abort(self._options, messages, self._number)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches. Their owner is the id of the query, and their numbers are those of its checkpoint."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self._encoder = RowEncoder(schema, options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if not self._options.is_staged:
            return publish(self._options, self._encoder, iterator)
        context = _task()
        query, number = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
        if not query or number is None:
            raise FlintError(
                "Spark does not tell its tasks which micro-batch of which query they write, and the deliveryMode "
                "exactly-once needs to know: use at-least-once here"
            )
        batch = Batch(query, int(number))
        return staged_publish.stage(self._options, self._encoder, iterator, batch, context.partitionId())

    def commit(self, messages: Messages, batchId: int) -> None:
        if self._options.is_staged:
            staged_publish.commit(self._options, messages, batchId)

    def abort(self, messages: Messages, batchId: int) -> None:
        if self._options.is_staged:
            staged_publish.abort(self._options, messages, batchId)


def _task() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "writers write in tasks"
    return context
