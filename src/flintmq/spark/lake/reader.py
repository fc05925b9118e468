"""Readers of a lake that Spark calls: one for batch queries, one for streaming queries, which may have a rate.

A streaming query reads one version of the table, the latest one at its start. Its offsets are {"version": the version,
"row": the number of the next row}. The end of a micro-batch also has "since", the row at which it began, because Spark
does not keep the start of the first micro-batch, and asks for it again after a failure, when there may be a later
version. "partitions" is the option of this name, if it is set: only the rows that it selects are numbered.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.spark.errors import user_errors
from flintmq.spark.lake.formats import Snapshot, StoredFile, Table, open_table
from flintmq.spark.lake.manifest import LakeDamaged, Manifest
from flintmq.spark.lake.options import LakeFormat, LakeLocation, LakeReadOptions
from flintmq.spark.lake.row_range import FileRows, RowRange, split

# The most rows of one task of a batch query; the option minPartitions can ask for more tasks.
ROWS_PER_PARTITION: Final = 1_000_000
# The rows of one Arrow batch, which has 8 MiB if bodies have 1 KiB.
ROWS_PER_ARROW_BATCH: Final = 8192
# The length of micro-batches at a rate. The overhead of Spark would dominate shorter ones.
PACE_SECONDS: Final = 1.0

Offset = dict[str, str | int]


def lake_table(place: LakeLocation) -> Table:
    """Open the table of a lake, in the format that its files tell. Raises ConfigurationError if there is no lake."""
    return open_table(place, place.format or _format(place))


def _format(place: LakeLocation) -> LakeFormat:
    description = Manifest(place.root).description()
    if description is not None:
        return description.format
    if place.root.joinpath("_delta_log").is_dir():
        return LakeFormat.DELTA
    return LakeFormat.ICEBERG if place.catalog else LakeFormat.PARQUET


class LakeBatchReader(DataSourceReader):
    """Reads the latest version of a lake."""

    def __init__(self, options: LakeReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        with user_errors():
            files = lake_table(self._options.place).snapshot(None, self._options.partitions).files
        rows = sum(file.rows for file in files)
        parts = max(self._options.min_partitions, -(-rows // ROWS_PER_PARTITION))
        # If there are no partitions, Spark adds one that this reader does not know.
        return [*split(files, 0, rows, parts)] or [RowRange([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self._schema)


class LakeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads one version of a lake in micro-batches."""

    def __init__(self, options: LakeReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._snapshot: Snapshot | None = None
        self._total = 0
        # The time at which the last rows were due, if there is a rate.
        self._due: float | None = None

    def initialOffset(self) -> Offset:
        return self._offset(self._at(None).version, row=0)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_rows_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        """Do nothing: a query never reads more than one version."""

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        row = int(start["row"])
        version = str(start["version"])
        self._check(start)
        self._at(version)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.max_rows_per_trigger
        end = min(row + min(most, self._paced(self._total - row)), self._total)
        if end == row:
            # Without the pause, Spark would ask about ninety times a second.
            time.sleep(PACE_SECONDS / 2)
            return start
        return self._offset(version, since=row, row=end)

    def _paced(self, left: int) -> int:
        """How many of the `left` rows are due; waits until the next ones are, if there is a rate."""
        rate = self._options.rows_per_second
        if not rate or not left:
            return left
        now = time.monotonic()
        if self._due is None or now - self._due > 2 * PACE_SECONDS:
            # The rate is a maximum: rows that were late are not made up for.
            self._due = now
        elif self._due + PACE_SECONDS > now:
            time.sleep(self._due + PACE_SECONDS - now)
            self._due += PACE_SECONDS
        else:
            self._due += PACE_SECONDS
        return max(int(rate * PACE_SECONDS), 1)

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        if start == end:
            return []
        self._check(end)
        first = int(end.get("since", start["row"]))
        files = self._at(str(end["version"])).files
        return [*split(files, first, int(end["row"]), self._options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self._schema)

    def _offset(self, version: str, **rows: int) -> Offset:
        chosen = self._options.partitions.text
        return {"version": version, **rows, **({"partitions": chosen} if chosen else {})}

    def _check(self, offset: Offset) -> None:
        """Raises ConfigurationError for an offset that counts the rows of other partitions."""
        before, now = offset.get("partitions", ""), self._options.partitions.text
        if before != now:
            with user_errors():
                raise ConfigurationError(
                    f"the option partitions is {now!r}, and was {before!r} when this query began: set it to the old "
                    "value, or begin again with a new checkpoint location"
                )

    def _at(self, version: str | None) -> Snapshot:
        if self._snapshot is None or self._snapshot.version != version:
            with user_errors():
                self._snapshot = lake_table(self._options.place).snapshot(version, self._options.partitions)
            self._total = sum(file.rows for file in self._snapshot.files)
        return self._snapshot


def _read(partition: InputPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Read the rows of a partition in a task."""
    assert isinstance(partition, RowRange)
    arrow = to_arrow_schema(schema, timezone="UTC")
    with user_errors():
        for rows in partition.files:
            yield from _read_rows(rows, arrow)


def _read_rows(rows: FileRows, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    try:
        file = _opened(rows.file)
    except FileNotFoundError as error:
        raise LakeDamaged(
            f"the file {rows.file.path} of the lake is missing: it was removed (by a vacuum, for example) after "
            "reading began, or this machine does not see the lake's file system"
        ) from error
    except pa.ArrowInvalid as error:
        raise LakeDamaged(f"the file {rows.file.path} is not a Parquet file, or is damaged: {error}") from error
    with file:
        groups, skip = _row_groups(file.metadata, rows.first, rows.end)
        left = rows.end - rows.first
        present = [name for name in schema.names if name in file.schema_arrow.names]
        for batch in file.iter_batches(ROWS_PER_ARROW_BATCH, row_groups=groups, columns=present):
            wanted = batch.slice(skip, left)
            skip = max(skip - batch.num_rows, 0)
            left -= wanted.num_rows
            if wanted.num_rows:
                yield _shaped(wanted, rows.file, schema)


def _opened(stored: StoredFile) -> pq.ParquetFile:
    """Open a file at its path or its staged path: a commit may move it at any time, once."""
    for path in (stored.path, stored.staged):
        if path:
            with suppress(FileNotFoundError):
                return pq.ParquetFile(path, pre_buffer=True)
    return pq.ParquetFile(stored.path, pre_buffer=True)


def _row_groups(metadata: pq.FileMetaData, first: int, end: int) -> tuple[list[int], int]:
    """The row groups with rows of a range, and the number of rows before the range in the first of them."""
    found: list[int] = []
    base = skip = 0
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group).num_rows
        if base < end and base + rows > first:
            if not found:
                skip = first - base
            found.append(group)
        base += rows
    return found, skip


def _shaped(batch: pa.RecordBatch, file: StoredFile, schema: pa.Schema) -> pa.RecordBatch:
    """Rows cast to the types of the table, with partition columns whose values are not in the file."""
    columns = [_column(batch, file, field) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(batch: pa.RecordBatch, file: StoredFile, field: pa.Field) -> pa.Array:
    if field.name in batch.schema.names:
        try:
            return batch.column(field.name).cast(field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise FlintError(f"the column {field.name} of {file.path} does not fit {field.type}: {error}") from error
    value = file.partition.get(field.name)
    return pa.repeat(pa.scalar(value, pa.string()).cast(field.type), batch.num_rows)


def check_columns(wanted: StructType, place: LakeLocation) -> None:
    """Raises ConfigurationError if a user's own .schema(...) has a column that the lake has not."""
    there = lake_table(place).schema()
    for field in wanted.fields:
        if field.name not in there.names:
            raise ConfigurationError(
                f"the lake {place.path} has no column {field.name}: choose from {', '.join(there.names)}"
            )
