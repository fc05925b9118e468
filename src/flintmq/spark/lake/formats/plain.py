"""Plain lakes: a directory of Parquet files with Hive's partition directories, which all readers of Parquet know.

Tasks write staged files. After the decision of a batch, they are moved to their paths one by one. A reader of the
directory may see a part of a batch for a moment, but never a wrong file, and none twice. Readers of the manifest see
whole batches.
"""

import json
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from flintmq.base.errors import ConfigurationError
from flintmq.spark.lake.data_file import NULL_PARTITION, Batch
from flintmq.spark.lake.files import sync
from flintmq.spark.lake.formats.table import Snapshot, StoredFile, Table
from flintmq.spark.lake.manifest import Description, LakeDamaged, Manifest
from flintmq.spark.lake.options import LakeLocation
from flintmq.spark.lake.partition_filter import PartitionFilter
from flintmq.spark.lake.paths import staged_path

# The prefix of versions of directories without a manifest, before a hash of the file names.
_FOREIGN: Final = "files:"


class ParquetLake(Table):
    """A lake of plain Parquet files, or a directory of them that other programs wrote."""

    def __init__(self, place: LakeLocation) -> None:
        self._root = place.root
        self._manifest = Manifest(self._root)

    def create(self, description: Description) -> None:
        self._root.mkdir(parents=True, exist_ok=True)

    def commit(self, batch: Batch) -> None:
        directories: set[Path] = set()
        for file in batch.files:
            path = self._root / file.path
            staged = staged_path(self._root, file.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                staged.rename(path)
            except FileNotFoundError:
                # The file was moved before the crash after which this batch is repeated.
                if not path.exists():
                    raise LakeDamaged(
                        f"batch {batch.number} of query {batch.query} has the file {path}, which is neither there nor "
                        f"at {staged}: another program has removed it"
                    ) from None
            directories.update(_between(self._root, path.parent))
        for directory in sorted(directories):
            sync(directory)

    def schema(self) -> StructType:
        description = self._manifest.description()
        return _foreign_schema(self._root, self._foreign_paths()[0]) if description is None else description.schema

    def snapshot(self, version: str | None, wanted: PartitionFilter) -> Snapshot:
        description = self._manifest.description()
        if description is None:
            return self._foreign(version, wanted)
        is_wanted = wanted.predicate(description.partition_by, description.schema)
        heads = self._manifest.heads() if version is None else json.loads(version)
        files = [file for batch in self._manifest.batches(heads) for file in batch.files if is_wanted(file.partition)]
        files.sort(key=lambda file: file.order())
        # A batch that is decided and not completed has files that may be moved at any time.
        stored = [
            StoredFile(str(self._root / file.path), file.rows, file.partition, str(staged_path(self._root, file.path)))
            for file in files
        ]
        return Snapshot(json.dumps(heads, sort_keys=True), description.schema, stored)

    def _foreign_paths(self) -> list[Path]:
        """The Parquet files of the directory, at least one. Raises ConfigurationError if there is none."""
        paths = sorted(path for path in self._root.rglob("*.parquet") if _visible(path.relative_to(self._root)))
        if not paths:
            raise ConfigurationError(f"there is no lake in {self._root}: it has neither a manifest nor a Parquet file")
        return paths

    def _foreign(self, version: str | None, wanted: PartitionFilter) -> Snapshot:
        """A snapshot of a directory that other programs wrote.

        Raises ConfigurationError if `version` is set and the names of the files have changed.
        """
        paths = self._foreign_paths()
        digest = _FOREIGN + sha256("\n".join(map(str, paths)).encode()).hexdigest()[:32]
        if version not in (None, digest):
            raise ConfigurationError(
                f"the directory {self._root} has other files than when reading began, and has no list of new ones: "
                "begin again with a new checkpoint location"
            )
        schema = _foreign_schema(self._root, paths[0])
        partitions = [_partition(path.relative_to(self._root)) for path in paths]
        is_wanted = wanted.predicate(partitions[0], schema)
        stored = [
            StoredFile(str(path), pq.read_metadata(path).num_rows, partition)
            for path, partition in zip(paths, partitions, strict=True)
            if is_wanted(partition)
        ]
        return Snapshot(digest, schema, stored)


def _foreign_schema(root: Path, path: Path) -> StructType:
    """The columns of this file, and the partition columns in the names of its directories."""
    columns = [StructField(column, StringType()) for column in _partition(path.relative_to(root))]
    return StructType([*from_arrow_schema(pq.read_schema(path)).fields, *columns])


def _between(root: Path, directory: Path) -> list[Path]:
    """The directory and its parents, up to the directory of the lake."""
    return [root, *(root / parent for parent in directory.relative_to(root).parents), directory]


def _visible(path: Path) -> bool:
    return not any(part.startswith((".", "_")) for part in path.parts)


def _partition(path: Path) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for part in path.parent.parts:
        column, equals, value = part.partition("=")
        if equals:
            found[unquote(column)] = None if value == NULL_PARTITION else unquote(value)
    return found
