"""Delta Lake: a batch is one commit in the log, which has its query and number, so that it is not added twice."""

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import StructType

from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.spark.errors import missing_library
from flintmq.spark.lake.data_file import Batch, DataFile
from flintmq.spark.lake.files import sync
from flintmq.spark.lake.formats.table import Snapshot, StoredFile, Table
from flintmq.spark.lake.layout import partition_text
from flintmq.spark.lake.manifest import Description
from flintmq.spark.lake.options import LakeLocation
from flintmq.spark.lake.partition_filter import PartitionFilter

try:
    from deltalake import CommitProperties, DeltaTable, Transaction
    from deltalake import Schema as DeltaSchema
    from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
    from deltalake.transaction import AddAction
except ImportError as error:
    raise missing_library("delta", "deltalake") from error

# How often a commit is tried if other writers, such as a compaction, commit first.
_ATTEMPTS: Final = 10
# The highest reader version without features that change how files are read; none of these is supported.
_READER_VERSION: Final = 1
# Reader features that do not change how files are read: this one only allows a type of columns.
_READER_FEATURES: Final = frozenset({"timestampNtz"})
# Writer features that need nothing of a writer which adds files without looking at rows, unless a column or an option
# of the table uses them. A table without a list of features needs no others up to _WRITER_VERSION.
_WRITER_FEATURES: Final = frozenset(
    {"appendOnly", "changeDataFeed", "checkConstraints", "generatedColumns", "invariants", "timestampNtz"}
)
_WRITER_VERSION: Final = 5
_UNSUPPORTED: Final = "Unsupported table features"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class DeltaLake(Table):
    """A lake in the format of Delta Lake."""

    def __init__(self, place: LakeLocation) -> None:
        """Raises ConfigurationError for a path that the library would read as another one."""
        if unquote(place.path) != place.path or "\\" in place.path:
            raise ConfigurationError(
                f"the option path is {place.path!r}: it contains a % with two digits after it, or a \\, which the "
                "library deltalake reads as another character. Rename the directory, or use another lakeFormat"
            )
        self._path = place.path
        self._root = place.root
        self._log = place.root / "_delta_log"

    def check(self, description: Description) -> None:
        if not DeltaTable.is_deltatable(self._path):
            return
        table = self._open()
        there = {field.name: field.type for field in table.schema().fields}
        wanted = {field.name: field.type for field in DeltaSchema.from_json(description.schema.json()).fields}
        other = [name for name, kind in wanted.items() if there.get(name) != kind]
        if other:
            raise ConfigurationError(
                f"there is a Delta table in {self._path}, which another program created, and it has no such columns: "
                f"{', '.join(other)}. Select the columns that it has, in its types, or write to another path"
            )
        columns = tuple(table.metadata().partition_columns)
        if columns != description.partition_by:
            raise ConfigurationError(
                f"there is a Delta table in {self._path}, which another program created, and it is partitioned by "
                f"{', '.join(columns) or 'nothing'}: say so with the option partitionBy, or write to another path"
            )
        asked = ", ".join(_required_features(table))
        if asked:
            raise ConfigurationError(
                f"there is a Delta table in {self._path}, which another program created, and it asks its writers for "
                f"{asked}, which this one does not have: remove that from the table, or write to another path"
            )

    def create(self, description: Description) -> None:
        if DeltaTable.is_deltatable(self._path):
            return
        schema = DeltaSchema.from_json(description.schema.json())
        try:
            DeltaTable.create(
                self._path, schema, mode="ignore", partition_by=[*description.partition_by], name="FlintMQ"
            )
        except DeltaError as error:
            raise FlintError(f"the Delta table {self._path} could not be created: {error}") from error
        self._sync_log(range(1))

    def commit(self, batch: Batch) -> None:
        """Add a batch unless the table has it: the log has the number of the last batch of each query."""
        for attempt in range(_ATTEMPTS):
            table = self._open()
            done = table.transaction_version(batch.query)
            if done is not None and done >= batch.number:
                # The driver that committed it may have died before it synced the log.
                self._sync_log(range(self._last_of(batch.query, table.version()), table.version() + 1))
                return
            properties = CommitProperties(
                custom_metadata={"flintmq.query": batch.query, "flintmq.batch": str(batch.number)},
                app_transactions=[Transaction(batch.query, batch.number)],
            )
            try:
                table.create_write_transaction(
                    [_added(file) for file in batch.files],
                    mode="append",
                    schema=table.schema(),
                    partition_by=table.metadata().partition_columns,
                    commit_properties=properties,
                )
            except CommitFailedError as error:
                if _UNSUPPORTED in str(error):
                    raise FlintError(
                        f"batch {batch.number} was not added to the Delta table {self._path}, which has features "
                        f"that the library deltalake does not write: remove them from the table ({error})"
                    ) from error
                if attempt == _ATTEMPTS - 1:
                    raise FlintError(
                        f"batch {batch.number} was not added to the Delta table {self._path} in {_ATTEMPTS} attempts: "
                        f"{error}"
                    ) from error
            except DeltaError as error:
                raise FlintError(
                    f"batch {batch.number} was not added to the Delta table {self._path}: {error}"
                ) from error
            else:
                before = table.version()
                table.update_incremental()
                self._sync_log(range(before + 1, table.version() + 1))
                return

    def _last_of(self, query: str, version: int) -> int:
        """The version, up to `version`, of a query's last batch; the oldest in the log if that lacks the batch."""
        for number in range(version, -1, -1):
            try:
                lines = (self._log / f"{number:020}.json").read_text().splitlines()
            except FileNotFoundError:
                return number + 1
            if any(json.loads(line).get("txn", {}).get("appId") == query for line in lines):
                return number
        return 0

    def _sync_log(self, versions: range) -> None:
        """Sync the log, which the library does not: a loss of power would otherwise take a batch that Spark has
        committed.
        """
        names = [f"{version:020}.{kind}" for version in versions for kind in ("json", "checkpoint.parquet")]
        for name in (*names, "_last_checkpoint"):
            with suppress(FileNotFoundError):
                sync(self._log / name)
        sync(self._log)
        sync(self._root)

    def schema(self) -> StructType:
        return _schema(self._open())

    def snapshot(self, version: str | None, wanted: PartitionFilter) -> Snapshot:
        table = self._open()
        try:
            if version is not None:
                table.load_as_version(int(version))
        except DeltaError as error:
            raise FlintError(
                f"version {version} of the Delta table {self._path}, from which reading began, no longer exists: "
                "begin again with a new checkpoint location"
            ) from error
        protocol = table.protocol()
        asked = frozenset(protocol.reader_features or ())
        if protocol.min_reader_version > _READER_VERSION and not (asked and asked <= _READER_FEATURES):
            features = ", ".join(sorted(asked - _READER_FEATURES)) or f"version {protocol.min_reader_version}"
            raise ConfigurationError(
                f"the Delta table {self._path} asks its readers for {features}, which this one does not have: read it "
                "with Spark's Delta connector"
            )
        columns = table.metadata().partition_columns
        actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        actions.sort(key=_order)
        schema = _schema(table)
        is_wanted = wanted.predicate(columns, schema)
        found = [(action, _partition(action, columns)) for action in actions]
        files = [self._stored(action, partition) for action, partition in found if is_wanted(partition)]
        return Snapshot(str(table.version()), schema, files)

    def _stored(self, action: dict[str, Any], partition: dict[str, str | None]) -> StoredFile:
        # The log has URIs: %2F in the name of a directory is %252F there.
        path = str(self._root / unquote(action["path"]))
        rows = action.get("num_records")
        if rows is None:
            rows = pq.read_metadata(path).num_rows
        return StoredFile(path, rows, partition)

    def _open(self) -> DeltaTable:
        try:
            return DeltaTable(self._path)
        except TableNotFoundError as error:
            raise ConfigurationError(f"there is no Delta table in {self._path}") from error


def _required_features(table: DeltaTable) -> Iterator[str]:
    """The requirements of the table that files of this package do not meet."""
    protocol = table.protocol()
    features = protocol.writer_features
    if features is None and protocol.min_writer_version > _WRITER_VERSION:
        yield f"version {protocol.min_writer_version}"
    yield from (f"the feature {name}" for name in sorted(set(features or ()) - _WRITER_FEATURES))
    for name, value in sorted(table.metadata().configuration.items()):
        if name.startswith("delta.constraints.") or (name == "delta.columnMapping.mode" and value != "none"):
            yield f"{name} = {value}"
    schema = table.schema()
    yield from (f"values of {field.name} that are not null" for field in schema.fields if not field.nullable)
    # The keys of column features may be at any depth of the schema.
    text = schema.to_json()
    yield from (name for name in ("delta.generationExpression", "delta.invariants") if f'"{name}"' in text)


def _schema(table: DeltaTable) -> StructType:
    return StructType.fromJson(json.loads(table.schema().to_json()))


def _added(file: DataFile) -> AddAction:
    bounds = {
        "offset": (file.first_offset, file.last_offset),
        "timestamp": (_instant(file.first_timestamp_us), _instant(file.last_timestamp_us)),
    }
    known = {name: pair for name, pair in bounds.items() if None not in pair}
    statistics = {
        "numRecords": file.rows,
        "minValues": {name: first for name, (first, _) in known.items()},
        "maxValues": {name: last for name, (_, last) in known.items()},
        "nullCount": {},
    }
    time_ms = (file.last_timestamp_us or 0) // 1000
    return AddAction(file.path, file.size_bytes, file.partition, time_ms, True, json.dumps(statistics))


def _instant(microseconds: int | None) -> str | None:
    if microseconds is None:
        return None
    try:
        time = _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        # Statistics are optional, and an error here would prevent the completion of a decided batch.
        return None
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _partition(action: dict[str, Any], columns: list[str]) -> dict[str, str | None]:
    return {name: partition_text(action[f"partition.{name}"]) for name in columns}


def _order(action: dict[str, Any]) -> tuple[str, int, str]:
    time, offset = action.get("min.timestamp"), action.get("min.offset")
    return str(time or ""), offset if isinstance(offset, int) else 0, action["path"]
