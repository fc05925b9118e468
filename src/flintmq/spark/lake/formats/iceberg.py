"""Apache Iceberg: a batch is one snapshot, and a property of the table has the number of each query's last batch.

The catalog is one in the configuration of PyIceberg (the file .pyiceberg.yaml, or variables PYICEBERG_CATALOG__...), so
that its password is not an option; or a SQLite file in the lake.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.spark.errors import missing_library
from flintmq.spark.lake.data_file import Batch
from flintmq.spark.lake.files import sync
from flintmq.spark.lake.formats.table import Snapshot, StoredFile, Table
from flintmq.spark.lake.manifest import Description
from flintmq.spark.lake.options import LakeLocation
from flintmq.spark.lake.partition_filter import PartitionFilter

try:
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.conversions import from_bytes
    from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, NoSuchTableError
    from pyiceberg.io.pyarrow import pyarrow_to_schema
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema, index_by_name
    from pyiceberg.table import Table as IcebergTable
    from pyiceberg.table.snapshots import Summary
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import LongType, TimestamptzType
except ImportError as error:
    raise missing_library("iceberg", "pyiceberg") from error

CATALOG_FILE: Final = "catalog.db"
# How often a commit is tried if other writers commit first.
_ATTEMPTS: Final = 10
# The prefix of the table's properties with the last batch of each query.
_LAST_BATCH: Final = "flintmq.batch."
# Characters with a meaning in the library's locations, which it does not escape.
_SPECIAL: Final = frozenset("#?%")


class IcebergLake(Table):
    """A lake in the format of Apache Iceberg."""

    def __init__(self, place: LakeLocation) -> None:
        """Raises ConfigurationError for a path that the library would read as another one."""
        if not _SPECIAL.isdisjoint(place.path):
            raise ConfigurationError(
                f"the option path is {place.path!r}: it contains a #, a ? or a %, which have another meaning in the "
                "locations of the library pyiceberg. Rename the directory, or use another lakeFormat"
            )
        self._place = place
        self._name = place.table
        if "." not in self._name:
            raise ConfigurationError(f"the option table is {self._name!r}: it must be namespace.name")

    def check(self, description: Description) -> None:
        root = self._place.root
        if not self._place.catalog and not (root / CATALOG_FILE).exists():
            return
        catalog = self._catalog()
        if not catalog.table_exists(self._name):
            return
        table = catalog.load_table(self._name)
        there = table.schema()
        other = [name for name in description.schema.names if name not in there.column_names]
        if other:
            raise ConfigurationError(
                f"there is an Iceberg table {self._name}, which another program created, and it has no such columns: "
                f"{', '.join(other)}. Select the columns that it has, or write to another table"
            )
        wanted = to_arrow_schema(description.schema, timezone="UTC")
        try:
            ours = pyarrow_to_schema(wanted, name_mapping=there.name_mapping, format_version=table.format_version)
        except ValueError as error:
            raise ConfigurationError(
                f"there is an Iceberg table {self._name}, which another program created, and a column of it has other "
                f"fields ({error}). Select the columns that it has, in its types, or write to another table"
            ) from error
        said = next(_differences(there, ours), None)
        if said is not None:
            raise ConfigurationError(
                f"there is an Iceberg table {self._name}, which another program created, and {said}, or write to "
                "another table"
            )
        spec = table.spec().fields
        made = [
            f"{field.transform} of {there.find_column_name(field.source_id)}"
            for field in spec
            if _is_transformed(field)
        ]
        if made:
            raise ConfigurationError(
                f"there is an Iceberg table {self._name}, which another program created, and it is partitioned by "
                f"{', '.join(made)}, for which added files have no values: partition it by unchanged columns, or "
                "write to another table"
            )
        by = tuple(there.find_column_name(field.source_id) for field in spec)
        if by != description.partition_by:
            raise ConfigurationError(
                f"there is an Iceberg table {self._name}, which another program created, and it is partitioned by "
                f"{', '.join(map(str, by)) or 'nothing'}: say so with the option partitionBy, or write to another table"
            )

    def create(self, description: Description) -> None:
        self._place.root.mkdir(parents=True, exist_ok=True)
        catalog = self._catalog()
        catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
        if catalog.table_exists(self._name):
            return
        schema = to_arrow_schema(description.schema, timezone="UTC")
        making = catalog.create_table_transaction(self._name, schema=schema, location=_location(self._place.root))
        with making, making.update_spec() as spec:
            for column in description.partition_by:
                spec.add_identity(column)

    def commit(self, batch: Batch) -> None:
        key = _LAST_BATCH + batch.query
        said = {"flintmq.query": batch.query, "flintmq.batch": str(batch.number)}
        paths = [_location(self._place.root / file.path) for file in batch.files]
        for attempt in range(_ATTEMPTS):
            table = self._open()
            if int(table.properties.get(key, -1)) >= batch.number:
                # The driver that committed it may have died before it synced the metadata.
                _sync_metadata(table, said)
                return
            try:
                with table.transaction() as transaction:
                    transaction.set_properties({key: str(batch.number)})
                    transaction.add_files(paths, said)
            except CommitFailedException as error:
                if attempt == _ATTEMPTS - 1:
                    raise FlintError(
                        f"batch {batch.number} was not added to the Iceberg table {self._name}, because other writers "
                        f"committed first each time: {error}"
                    ) from error
            else:
                _sync_metadata(table, said)
                return

    def schema(self) -> StructType:
        return from_arrow_schema(self._open().schema().as_arrow())

    def snapshot(self, version: str | None, wanted: PartitionFilter) -> Snapshot:
        table = self._open()
        current = table.current_snapshot()
        number = int(version) if version is not None else (current.snapshot_id if current else 0)
        if number and table.snapshot_by_id(number) is None:
            raise FlintError(
                f"snapshot {version} of the Iceberg table {self._name}, from which reading began, no longer "
                "exists: begin again with a new checkpoint location"
            )
        schema = from_arrow_schema(table.schema().as_arrow())
        is_wanted = wanted.predicate(_partition_columns(table, table.spec()), schema)
        found: list[tuple[int, int, StoredFile]] = []
        for task in table.scan(snapshot_id=number).plan_files() if number else ():
            if wanted.conditions and not is_wanted(self._partition(table, task.file, wanted)):
                continue
            if task.delete_files:
                raise ConfigurationError(
                    f"the Iceberg table {self._name} has delete files, which are not supported: compact it "
                    "first, or read it with Spark's Iceberg connector"
                )
            bounds = task.file.lower_bounds or {}
            stored = StoredFile(_local(task.file.file_path), task.file.record_count, {})
            found.append((_lowest(table, "timestamp", bounds), _lowest(table, "offset", bounds), stored))
        found.sort(key=lambda one: (one[0], one[1], one[2].path))
        return Snapshot(str(number), schema, [stored for _, _, stored in found])

    def _partition(self, table: IcebergTable, file: DataFile, wanted: PartitionFilter) -> dict[str, str | None]:
        """The values, as texts, of the columns in the filter. Raises ConfigurationError for a file that is not
        partitioned by one of them.
        """
        places = _partition_columns(table, table.specs()[file.spec_id])
        found: dict[str, str | None] = {}
        for column in {condition.column for condition in wanted.conditions}:
            if column not in places:
                raise ConfigurationError(
                    f"the Iceberg table {self._name} has files that are not partitioned by {column}, from before the "
                    "table was: rewrite them, or leave the option partitions out"
                )
            value = file.partition[places[column]]
            kind = table.schema().find_type(column)
            found[column] = None if value is None else IdentityTransform().to_human_string(kind, value)
        return found

    def _catalog(self) -> Catalog:
        place = self._place
        try:
            if place.catalog:
                return load_catalog(place.catalog)
            return load_catalog(
                "flintmq", type="sql", uri=f"sqlite:///{place.root / CATALOG_FILE}", warehouse=_location(place.root)
            )
        except (ValueError, OSError) as error:
            raise ConfigurationError(
                f"PyIceberg does not know the catalog {place.catalog!r} here: configure it in ~/.pyiceberg.yaml, or "
                f"in variables PYICEBERG_CATALOG__{place.catalog.upper()}__... ({error})"
            ) from error

    def _open(self) -> IcebergTable:
        try:
            return self._catalog().load_table(self._name)
        except (NoSuchTableError, NoSuchNamespaceError) as error:
            raise ConfigurationError(
                f"there is no Iceberg table {self._name} in the catalog {self._place.catalog or CATALOG_FILE}"
            ) from error


def _differences(there: Schema, ours: Schema) -> Iterator[str]:
    """Differences that keep files of the schema `ours` out of the table, each with advice."""
    mine = index_by_name(ours)
    for name, number in index_by_name(there).items():
        field = there.find_field(number)
        if name not in mine:
            above = name.rpartition(".")[0]
            if field.required and (not above or above in mine):
                yield f"its column {name} is required, and the data has no such column: make it optional"
            continue
        own = ours.find_field(mine[name])
        if field.required and not own.required:
            yield f"its column {name} is required, and may be null in the data: make it optional"
        kind, wanted = field.field_type, own.field_type
        if kind != wanted if kind.is_primitive else type(kind) is not type(wanted):
            yield f"its column {name} is {kind}, and {wanted} in the data: cast it"


def _partition_columns(table: IcebergTable, spec: PartitionSpec) -> dict[str, int]:
    """The columns whose unchanged values are in the partition of a file, with their places in it."""
    names = {field.field_id: field.name for field in table.schema().fields}
    return {
        names[field.source_id]: place
        for place, field in enumerate(spec.fields)
        if field.source_id in names and not _is_transformed(field)
    }


def _is_transformed(field: PartitionField) -> bool:
    return not isinstance(field.transform, IdentityTransform)


def _sync_metadata(table: IcebergTable, said: dict[str, str]) -> None:
    """Sync the metadata files of the last snapshot and of the snapshot with the properties `said`.

    The library syncs no files. The catalog refers to them before this call: after a loss of power in between, it may
    refer to metadata that does not exist.
    """
    found = [table.metadata_location]
    snapshot = table.current_snapshot()
    if snapshot is not None:
        own = {one.snapshot_id for one in table.snapshots() if one.summary and _says(one.summary, said)}
        own.add(snapshot.snapshot_id)
        manifests = snapshot.manifests(table.io)
        found += [snapshot.manifest_list]
        found += [manifest.manifest_path for manifest in manifests if manifest.added_snapshot_id in own]
    paths = [Path(parts.path) for parts in map(urlsplit, found) if parts.scheme in ("", "file")]
    directories = {path.parent for path in paths}
    for path in (*paths, *directories, *{directory.parent for directory in directories}):
        sync(path)


def _says(summary: Summary, said: dict[str, str]) -> bool:
    return all(summary.additional_properties.get(name) == value for name, value in said.items())


def _lowest(table: IcebergTable, column: str, bounds: dict[int, bytes]) -> int:
    """The lowest value of a column of numbers or times in a file; 0 if the table does not have it."""
    if column not in table.schema().column_names:
        return 0
    field = table.schema().find_field(column)
    lowest = bounds.get(field.field_id)
    if lowest is None or not isinstance(field.field_type, (LongType, TimestamptzType)):
        return 0
    return int(from_bytes(field.field_type, lowest))


def _location(path: Path) -> str:
    """A path as a location of Iceberg's libraries, which do not escape any characters of it."""
    return f"file://{path}"


def _local(uri: str) -> str:
    parts = urlsplit(uri)
    if parts.scheme not in ("", "file"):
        raise ConfigurationError(
            f"the file {uri} of the Iceberg table is not in a file system: read the table with Spark's Iceberg "
            "connector"
        )
    return parts.path
