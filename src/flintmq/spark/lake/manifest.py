"""What was decided for good: which files are a lake's, batch by batch, and what its columns are.

A batch of a query is one file below _flintmq/manifest, which only one can create. It is decided before the table hears
of it. Whoever does the batch again, after a crash in between or beside another driver, finds the decision and
completes that one, and its own files are removed. Names of files are the batch's for good, so completing twice is
completing once.
"""

import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from pyspark.sql.types import StructType

from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.spark.lake.datafile import Batch, DataFile
from flintmq.spark.lake.files import INTERNAL, sync
from flintmq.spark.lake.options import LakeFormat

_BATCHES: Final = f"{INTERNAL}/manifest"
_DESCRIPTION: Final = f"{INTERNAL}/lake.json"
# Of the files that say what is in a lake; a reader of another one does not guess.
VERSION: Final = 1


class LakeDamaged(FlintError):
    """A lake lacks what its manifest says is there."""


class Description:
    """What a lake is; it stays that."""

    def __init__(self, format: LakeFormat, schema: StructType, partition_by: tuple[str, ...]) -> None:
        self.format = format
        self.schema = schema
        self.partition_by = partition_by


class Manifest:
    def __init__(self, root: Path) -> None:
        self._root = root

    def description(self) -> Description | None:
        """None where no lake of ours was begun. Raises FlintError."""
        found = _read(self._root / _DESCRIPTION)
        if found is None:
            return None
        schema = StructType.fromJson(found["schema"])
        return Description(LakeFormat(found["format"]), schema, tuple(found["partition_by"]))

    def check(self, wanted: Description) -> None:
        """Raises ConfigurationError unless rows of this kind can be added."""
        there = self.description()
        if there is None:
            return
        where = f"the lake {self._root}"
        if there.format is not wanted.format:
            raise ConfigurationError(
                f"{where} is in the format {there.format}, not {wanted.format}: write to another path"
            )
        if there.partition_by != wanted.partition_by:
            raise ConfigurationError(
                f"{where} is partitioned by {_listed(there.partition_by)}, not by {_listed(wanted.partition_by)}: "
                "write to another path"
            )
        if there.schema != wanted.schema:
            raise ConfigurationError(
                f"{where} has other columns: {_difference(there.schema, wanted.schema)}. Select the columns that it "
                "has, in their order, or write to another path"
            )

    def describe(self, wanted: Description) -> None:
        """Say what the lake is, unless that has been said. Raises ConfigurationError."""
        said = {
            "version": VERSION,
            "format": wanted.format.value,
            "schema": wanted.schema.jsonValue(),
            "partition_by": wanted.partition_by,
        }
        if not _create(self._root / _DESCRIPTION, said):
            self.check(wanted)

    def decide(self, batch: Batch) -> Batch:
        """The batch as it is for good: this one, or what was decided before. Raises FlintError."""
        said = {
            "version": VERSION,
            "query": batch.query,
            "batch": batch.number,
            "files": [asdict(file) for file in sorted(batch.files, key=DataFile.order)],
        }
        path = self._path(batch.query, batch.number)
        _create(path, said)
        decided = self.batch(batch.query, batch.number)
        if decided is None:
            raise LakeDamaged(f"the manifest {path} was written and is not there: somebody removed it meanwhile")
        return decided

    def batch(self, query: str, number: int) -> Batch | None:
        found = _read(self._path(query, number))
        return None if found is None else _batch(found)

    def heads(self) -> dict[str, int]:
        """The last batch of each query."""
        found: dict[str, int] = {}
        for path in (self._root / _BATCHES).glob("*/*.json"):
            query = path.parent.name
            found[query] = max(found.get(query, 0), int(path.stem))
        return found

    def batches(self, up_to: dict[str, int]) -> Iterator[Batch]:
        """All that were decided up to these, query by query. Raises FlintError."""
        for query, last in sorted(up_to.items()):
            for path in sorted((self._root / _BATCHES / query).glob("*.json")):
                found = _read(path) if int(path.stem) <= last else None
                if found is not None:
                    yield _batch(found)

    def _path(self, query: str, number: int) -> Path:
        return self._root / _BATCHES / query / f"{number:020d}.json"


def _batch(found: dict[str, Any]) -> Batch:
    return Batch(found["query"], found["batch"], tuple(DataFile(**file) for file in found["files"]))


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    if found.get("version") != VERSION:
        raise LakeDamaged(f"{path} is of version {found.get('version')}: a newer FlintMQ wrote it, and can read it")
    return found


def _create(path: Path, content: dict[str, Any]) -> bool:
    """All of it on the disk under this name, or nothing; False if the name is taken."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        draft.write_text(json.dumps(content))
        sync(draft)
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
        for directory in (path.parent, path.parent.parent, path.parent.parent.parent):
            sync(directory)
    finally:
        draft.unlink(missing_ok=True)
    return True


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "nothing"


def _difference(there: StructType, wanted: StructType) -> str:
    mine = {field.name: field.dataType.simpleString() for field in wanted.fields}
    its = {field.name: field.dataType.simpleString() for field in there.fields}
    said = [
        f"{name} is {its[name]} there, {mine[name]} here" for name in its if name in mine and its[name] != mine[name]
    ]
    said += [f"{name} is only there" for name in its if name not in mine]
    said += [f"{name} is only here" for name in mine if name not in its]
    return "; ".join(said) or "they stand in another order"
