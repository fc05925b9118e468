"""The writers that Spark calls: whose batch a task writes, and what none can be known by."""

from collections.abc import Iterator
from typing import cast

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, StructField, StructType

from flintmq.base.errors import ConfigurationError
from flintmq.spark.data_source import FlintMQDataSource
from flintmq.spark.sink import staged_publish, writer
from flintmq.spark.sink.options import write_options
from flintmq.spark.sink.staged_publish import Batch, Staged
from flintmq.spark.sink.writer import BatchWriter

OPTIONS = {"url": "amqp://h/", "exchange": "x", "deliveryMode": "exactly-once", "transactionalId": "t"}
SCHEMA = StructType([StructField("body", BinaryType())])


class Task:
    """A task of a query, or of none."""

    def __init__(self, query: str | None) -> None:
        self._query = query

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802 - Spark's name
        return self._query

    def partitionId(self) -> int:  # noqa: N802 - Spark's name
        return 3


def batch_of(monkeypatch: pytest.MonkeyPatch, query: str | None, **options: str) -> Batch:
    """What a task of this query stages for."""
    staged: list[Batch] = []

    def stage(given: object, encoder: object, rows: Iterator[pa.RecordBatch], batch: Batch, partition: int) -> Staged:
        staged.append(batch)
        return Staged(1)

    monkeypatch.setattr(writer, "_task", lambda: cast(TaskContext, Task(query)))
    monkeypatch.setattr(staged_publish, "stage", stage)
    BatchWriter(write_options({**OPTIONS, **options}), SCHEMA).write(iter([]))
    return staged[0]


def test_whose_a_batch_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The query's, unless an option says another; without a number, nobody's who was there before."""
    assert batch_of(monkeypatch, "query", batchId="4") == Batch("query", 4)
    assert batch_of(monkeypatch, None, batchId="4", batchOwner="me") == Batch("me", 4)
    assert batch_of(monkeypatch, "query", batchId="4", batchOwner="me") == Batch("me", 4)
    assert batch_of(monkeypatch, None, batchId="4") == Batch("batches", 4)
    one, other = batch_of(monkeypatch, None), batch_of(monkeypatch, None)
    assert one.number == other.number == 0
    assert one.owner != other.owner


def test_a_query_numbers_its_batches_itself() -> None:
    """A number that it would not use is refused."""
    with pytest.raises(ConfigurationError, match="the option batchId is for batch writes"):
        FlintMQDataSource({**OPTIONS, "batchId": "1"}).streamWriter(SCHEMA, False)


def test_a_micro_batch_without_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be published again when it is repeated, which is not what exactly-once says."""
    with pytest.raises(ConfigurationError, match="give the batch's, .* as the option batchId"):
        batch_of(monkeypatch, "query")
