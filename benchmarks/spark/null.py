"""A data source that yields one record batch over and over, and a sink that counts: as fast as Spark lets Python be."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

# About what a fetch of 1 KiB messages comes to.
_BATCH_ROWS: Final = 1000
_VALUES: Final[dict[str, Any]] = {
    "string": "routing.key",
    "bigint": 1_000_000,
    "int": 0,
    "boolean": False,
    "timestamp": datetime(2026, 1, 1, tzinfo=UTC),
}


@dataclass
class Rows(InputPartition):
    count: int


@dataclass
class Counted(WriterCommitMessage):
    rows: int


def rows_of(schema: StructType, bodies: int, count: int) -> Iterator[pa.RecordBatch]:
    """`count` rows of this schema, every binary value of them this long; made once and yielded often."""
    arrow = to_arrow_schema(schema, timezone="UTC")
    columns = []
    for column, field in zip(schema.fields, arrow, strict=True):
        kind = column.dataType.simpleString()
        value = bytes(range(256)) * (bodies // 256) if kind == "binary" else _VALUES[kind]
        columns.append(pa.array([value] * _BATCH_ROWS, field.type))
    batch = pa.RecordBatch.from_arrays(columns, schema=arrow)
    for _ in range(count // _BATCH_ROWS):
        yield batch
    if count % _BATCH_ROWS:
        yield batch.slice(0, count % _BATCH_ROWS)


class _Shape:
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.rows = int(options["rows"])
        self.tasks = int(options["tasks"])
        self.body = int(options["body"])
        self.trigger = int(options.get("trigger", self.rows))
        self.schema = schema

    def partitions(self, rows: int) -> list[InputPartition]:
        edges = [rows * task // self.tasks for task in range(self.tasks + 1)]
        return [Rows(end - start) for start, end in pairwise(edges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Rows)
        return rows_of(self.schema, self.body, partition.count)


class NullReader(DataSourceReader):
    def __init__(self, shape: _Shape) -> None:
        self._shape = shape

    def partitions(self) -> list[InputPartition]:
        return self._shape.partitions(self._shape.rows)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._shape.read(partition)


class NullStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, shape: _Shape) -> None:
        self._shape = shape

    def initialOffset(self) -> dict[str, int]:
        return {"row": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._shape.trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        """All there is is known."""

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        most = self._shape.rows if isinstance(limit, ReadAllAvailable) else self._shape.trigger
        return {"row": min(self._shape.rows, start["row"] + most)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return self._shape.partitions(end["row"] - start["row"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._shape.read(partition)


class NullWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return Counted(sum(batch.num_rows for batch in iterator))


class NullStreamWriter(DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return Counted(sum(batch.num_rows for batch in iterator))


class NullSource(DataSource):
    """Options: `rows`, `tasks`, `body` (bytes), `trigger` (rows of a micro-batch). The schema is the user's."""

    @classmethod
    def name(cls) -> str:
        return "null"

    def reader(self, schema: StructType) -> NullReader:
        return NullReader(_Shape(self.options, schema))

    def streamReader(self, schema: StructType) -> NullStreamReader:
        return NullStreamReader(_Shape(self.options, schema))

    def writer(self, schema: StructType, overwrite: bool) -> NullWriter:
        return NullWriter()

    def streamWriter(self, schema: StructType, overwrite: bool) -> NullStreamWriter:
        return NullStreamWriter()
