"""Readers of a lake: as a table, and as a stream of its rows that goes on where it was, at a rate if that is asked
for.

A streaming query reads one version, the one that was the latest when it began: its places are {"version": of the
table, "row": the next to read, by number}. Where a micro-batch ends, "since" says where it began, for Spark does not
keep the start of the first one and asks again after a failure, when there may be another version. "partitions" is the
option, if it is set: rows are numbered among those that it chooses.
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
from flintmq.spark.lake.row_range import Piece, RowRange, split

# Rows that a batch query reads by one task, unless minPartitions asks for more tasks.
ROWS_PER_PARTITION: Final = 1_000_000
# Rows of one Arrow batch: bodies of 1 KiB make 8 MiB.
ROWS_PER_ARROW_BATCH: Final = 8192
# At a rate, micro-batches are as long as this: shorter ones would be Spark's overhead more than messages.
PACE_SECONDS: Final = 1.0

Offset = dict[str, str | int]


def lake_table(place: LakeLocation) -> Table:
    """Raises ConfigurationError where there is no lake."""
    return open_table(place, place.format or _format(place))


def _format(place: LakeLocation) -> LakeFormat:
    description = Manifest(place.root).description()
    if description is not None:
        return description.format
    if place.root.joinpath("_delta_log").is_dir():
        return LakeFormat.DELTA
    return LakeFormat.ICEBERG if place.catalog else LakeFormat.PARQUET


class LakeBatchReader(DataSourceReader):
    def __init__(self, options: LakeReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        with user_errors():
            files = lake_table(self._options.place).snapshot(None, self._options.partitions).files
        rows = sum(file.rows for file in files)
        parts = max(self._options.min_partitions, -(-rows // ROWS_PER_PARTITION))
        # Spark puts a partition of its own in the place of none.
        return [*split(files, 0, rows, parts)] or [RowRange([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self._schema)


class LakeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: LakeReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._snapshot: Snapshot | None = None
        self._total = 0
        # When the rows that were given last were due, at a rate.
        self._due: float | None = None

    def initialOffset(self) -> Offset:
        return self._offset(self._at(None).version, row=0)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_rows_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        """One version is all that is ever read."""

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        row = int(start["row"])
        version = str(start["version"])
        self._check(start)
        self._at(version)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.max_rows_per_trigger
        end = min(row + min(most, self._paced(self._total - row)), self._total)
        if end == row:
            # Spark asks some ninety times a second.
            time.sleep(PACE_SECONDS / 2)
            return start
        return self._offset(version, since=row, row=end)

    def _paced(self, left: int) -> int:
        """How many rows are due, once it is time for some."""
        rate = self._options.rows_per_second
        if not rate or not left:
            return left
        now = time.monotonic()
        if self._due is None or now - self._due > 2 * PACE_SECONDS:
            # What was not published in time is not made up for: the rate is the most there is.
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
        """Raises ConfigurationError for a place among the rows of other partitions."""
        before, now = offset.get("partitions", ""), self._options.partitions.text
        if before != now:
            with user_errors():
                raise ConfigurationError(
                    f"the option partitions is {now!r}, and was {before!r} when this query began: set it to what it "
                    "was, or begin again with a new checkpoint location"
                )

    def _at(self, version: str | None) -> Snapshot:
        if self._snapshot is None or self._snapshot.version != version:
            with user_errors():
                self._snapshot = lake_table(self._options.place).snapshot(version, self._options.partitions)
            self._total = sum(file.rows for file in self._snapshot.files)
        return self._snapshot


def _read(partition: InputPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    """What a task does, on an executor."""
    assert isinstance(partition, RowRange)
    arrow = to_arrow_schema(schema, timezone="UTC")
    with user_errors():
        for piece in partition.pieces:
            yield from _read_piece(piece, arrow)


def _read_piece(piece: Piece, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    try:
        file = _opened(piece.file)
    except FileNotFoundError as error:
        raise LakeDamaged(
            f"the file {piece.file.path} is in the lake's list and not in its place: it was removed (by a vacuum, for "
            "example) after reading began, or this machine does not see the lake's file system"
        ) from error
    except pa.ArrowInvalid as error:
        raise LakeDamaged(f"the file {piece.file.path} is no Parquet file, or a damaged one: {error}") from error
    with file:
        groups, skip = _row_groups(file.metadata, piece.first, piece.end)
        left = piece.end - piece.first
        present = [name for name in schema.names if name in file.schema_arrow.names]
        for batch in file.iter_batches(ROWS_PER_ARROW_BATCH, row_groups=groups, columns=present):
            wanted = batch.slice(skip, left)
            skip = max(skip - batch.num_rows, 0)
            left -= wanted.num_rows
            if wanted.num_rows:
                yield _shaped(wanted, piece.file, schema)


def _opened(stored: StoredFile) -> pq.ParquetFile:
    """Wherever it is: it may be moved at any moment, once and from one place to the other."""
    for path in (stored.path, stored.staged):
        if path:
            with suppress(FileNotFoundError):
                return pq.ParquetFile(path, pre_buffer=True)
    return pq.ParquetFile(stored.path, pre_buffer=True)


def _row_groups(metadata: pq.FileMetaData, first: int, end: int) -> tuple[list[int], int]:
    """Those that have rows of this range, and how many rows of the first one come before it."""
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
    """In the types of the table, with what its log says for all rows of a file."""
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
    """Raises ConfigurationError unless a user's own .schema(...) chooses among the columns that there are."""
    there = lake_table(place).schema()
    for field in wanted.fields:
        if field.name not in there.names:
            raise ConfigurationError(
                f"the lake {place.path} has no column {field.name}: choose from {', '.join(there.names)}"
            )
