"""The Parquet files of a task: they are complete and synced before the driver knows of them."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flintmq.base.errors import ConfigurationError
from flintmq.spark.columns import GENERATION
from flintmq.spark.lake.data_file import DataFile
from flintmq.spark.lake.layout import Layout, partition_text
from flintmq.spark.lake.options import LakeFormat, LakeWriteOptions
from flintmq.spark.lake.paths import new_path, remove_files, written_path

# Rows stay in memory until they make a row group of this size, because smaller ones make reads slower.
ROW_GROUP_BYTES: Final = 32 * 1024 * 1024
# The limit for waiting rows in all files of a task together. With many files, row groups are smaller.
WAITING_MAX_BYTES: Final = 128 * 1024 * 1024
# The most open files of a task. To open another one, the task completes the largest.
OPEN_FILES_MAX: Final = 64

Key = tuple[object, ...]


class TaskFiles:
    """Writes rows to files: at least one for each queue and each combination of values of the partition columns.

    The names of files begin with `attempt`.
    """

    def __init__(self, options: LakeWriteOptions, layout: Layout, attempt: str) -> None:
        self._options = options
        self._layout = layout
        self._attempt = attempt
        queue = ("queue",) if "queue" in layout.schema.names else ()
        self._keys = [*dict.fromkeys((*queue, *layout.partition_by))]
        self._open: dict[Key, _OpenFile] = {}
        self._done: list[DataFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Write rows. Raises ConfigurationError for a value that a partition column cannot have."""
        for key, rows in self._by_key(self._layout.kept(batch)):
            file = self._open.get(key)
            if file is None:
                self._make_room()
                file = self._open[key] = _OpenFile(
                    self._options, self._layout, self._attempt, dict(zip(self._keys, key, strict=True))
                )
            file.add(rows)
            if file.size_bytes >= self._options.max_file_bytes:
                self._end(key)
        while sum(file.waiting_bytes for file in self._open.values()) > WAITING_MAX_BYTES:
            max(self._open.values(), key=lambda file: file.waiting_bytes).write()

    def end(self) -> list[DataFile]:
        """Complete all files, sync them, and return them."""
        for key in [*self._open]:
            self._end(key)
        return self._done

    def discard(self) -> None:
        """Remove all files, after an error."""
        for file in self._open.values():
            # The error that ended the task is raised, and not those that follow from it.
            with suppress(OSError, pa.ArrowException):
                file.discard()
        remove_files(self._options, self._done)

    def _make_room(self) -> None:
        if len(self._open) >= OPEN_FILES_MAX:
            self._end(max(self._open, key=lambda key: self._open[key].size_bytes))

    def _end(self, key: Key) -> None:
        # A file that cannot be completed, for example on a full disk, stays in _open, so that it is discarded.
        self._done.append(self._open[key].end())
        del self._open[key]

    def _by_key(self, batch: pa.RecordBatch) -> Iterator[tuple[Key, pa.RecordBatch]]:
        if batch.num_rows == 0:
            return
        if not self._keys:
            yield (), batch
            return
        columns = [batch.column(name).dictionary_encode(null_encoding="encode") for name in self._keys]
        codes = np.zeros(batch.num_rows, dtype=np.int64)
        count = 1
        for column in columns:
            count *= len(column.dictionary)
            codes = codes * len(column.dictionary) + column.indices.to_numpy()
            if count > batch.num_rows:
                # Renumber the codes. The products of many columns would overflow, and rows would get a wrong key.
                codes = np.unique(codes, return_inverse=True)[1]
                count = batch.num_rows
        if (codes == codes[0]).all():
            yield self._key(columns, 0), batch
            return
        order = np.argsort(codes, kind="stable")
        edges = np.flatnonzero(np.diff(codes[order])) + 1
        for places in np.split(order, edges):
            yield self._key(columns, int(places[0])), batch.take(pa.array(places))

    def _key(self, columns: list[pa.DictionaryArray], row: int) -> Key:
        found: list[object] = []
        for name, column in zip(self._keys, columns, strict=True):
            try:
                found.append(column[row].as_py())
            except OverflowError:
                raise _time_error(name) from None
        return tuple(found)


class _OpenFile:
    """A file that a task is writing."""

    def __init__(self, options: LakeWriteOptions, layout: Layout, attempt: str, key: dict[str, object]) -> None:
        """Raises ConfigurationError for a value of a partition column that no directory can be named after."""
        self._partition = {name: partition_text(key[name]) for name in layout.partition_by}
        self._queue = key.get("queue")
        self._path = new_path(options.place.format, self._partition, attempt)
        self._file = written_path(options, self._path)
        self._file.parent.mkdir(parents=True, exist_ok=True)
        # Delta's log and Hive's directories have the values of partition columns; Iceberg reads them in the file.
        self._is_iceberg = options.place.format is LakeFormat.ICEBERG
        left_out = () if self._is_iceberg else layout.partition_by
        kept = [field for field in layout.arrow if field.name not in left_out]
        self._schema = pa.schema(kept)
        compression = "NONE" if options.compression == "none" else options.compression
        try:
            self._writer = pq.ParquetWriter(str(self._file), self._schema, compression=compression)
        except BaseException:
            self._file.unlink(missing_ok=True)
            raise
        self._row_group_bytes = min(ROW_GROUP_BYTES, options.max_file_bytes)
        self._waiting: list[pa.RecordBatch] = []
        self.waiting_bytes = 0
        self._written_bytes = 0
        self._rows = 0
        self._offsets = _Bounds("offset", pa.int64(), layout)
        self._generations = _Bounds(GENERATION, pa.int64(), layout)
        self._times = _Bounds("timestamp", pa.timestamp("us", "UTC"), layout)

    @property
    def size_bytes(self) -> int:
        return self._written_bytes + self.waiting_bytes

    def add(self, rows: pa.RecordBatch) -> None:
        self._offsets.widen(rows)
        self._times.widen(rows)
        self._generations.widen(rows)
        self._rows += rows.num_rows
        rows = rows.select(self._schema.names)
        self._waiting.append(rows)
        self.waiting_bytes += rows.nbytes
        if self.waiting_bytes >= self._row_group_bytes:
            self.write()

    def write(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema), row_group_size=self._rows)
            self._waiting = []
            self.waiting_bytes = 0
            self._written_bytes = self._file.stat().st_size

    def end(self) -> DataFile:
        self.write()
        self._writer.close()
        if self._is_iceberg:
            _check_times(self._file)
        sync(self._file)
        sync(self._file.parent)
        return DataFile(
            self._path,
            self._rows,
            self._file.stat().st_size,
            self._partition,
            None if self._queue is None else str(self._queue),
            self._offsets.first,
            self._offsets.last,
            self._times.first,
            self._times.last,
            self._generations.last,
        )

    def discard(self) -> None:
        try:
            self._writer.close()
        finally:
            self._file.unlink(missing_ok=True)


class _Bounds:
    """The lowest and the highest value of a column, as 64-bit integers; None without a column of this type."""

    def __init__(self, column: str, type: pa.DataType, layout: Layout) -> None:
        place = layout.arrow.get_field_index(column)
        self._column = column if place >= 0 and layout.arrow.field(place).type == type else ""
        self.first: int | None = None
        self.last: int | None = None

    def widen(self, rows: pa.RecordBatch) -> None:
        if not self._column:
            return
        bounds = pc.min_max(rows.column(self._column))
        if not bounds["min"].is_valid:
            return
        first, last = (bounds[which].cast(pa.int64()).as_py() for which in ("min", "max"))
        self.first = first if self.first is None else min(first, self.first)
        self.last = last if self.last is None else max(last, self.last)


def _check_times(file: Path) -> None:
    """Raises ConfigurationError for times that PyIceberg cannot represent, because it could never add the file."""
    metadata = pq.read_metadata(file)
    for group in range(metadata.num_row_groups):
        for place in range(metadata.num_columns):
            column = metadata.row_group(group).column(place)
            try:
                if column.statistics is not None and column.statistics.has_min_max:
                    _ = column.statistics.min, column.statistics.max
            except OverflowError:
                raise _time_error(column.path_in_schema) from None


def _time_error(column: str) -> ConfigurationError:
    return ConfigurationError(
        f"the column {column} has a time that is not between the years 1 and 9999, which cannot be written here: set "
        "it to null before"
    )


def sync(path: Path) -> None:
    """Sync a file or a directory to disk: before that, a loss of power may take the file or its name."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
