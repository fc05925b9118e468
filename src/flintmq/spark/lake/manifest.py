"""The manifest of a lake: its columns, and the files of each batch. Its contents are final.

Each batch of a query is one file in _flintmq/manifest, which only one driver can create. The batch is decided there
before it is added to the table. A driver that repeats the batch, after a crash or beside another driver, finds the
decision, completes the decided batch and removes its own files. The decided file names do not change, so a batch can be
completed repeatedly.

Old batches of a query are compacted, a thousand into one file. Such a file takes precedence over the file of one of its
batches, which a very late driver may have created again.
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
from flintmq.spark.lake.data_file import Batch, DataFile
from flintmq.spark.lake.files import sync
from flintmq.spark.lake.options import LakeFormat
from flintmq.spark.lake.paths import INTERNAL

_BATCHES: Final = f"{INTERNAL}/manifest"
_DESCRIPTION: Final = f"{INTERNAL}/lake.json"
# The version of the manifest's files. A file of another version is refused.
VERSION: Final = 1
# The number of batches in a compacted file, and the number of newest batches that are not compacted.
COMPACTED_BATCHES: Final = 1000
UNCOMPACTED_BATCHES: Final = 100


class LakeDamaged(FlintError):
    """A lake lacks files that its manifest has, or its manifest is unreadable."""


class Description:
    """The format, the columns and the partition columns of a lake, which never change."""

    def __init__(self, format: LakeFormat, schema: StructType, partition_by: tuple[str, ...]) -> None:
        self.format = format
        self.schema = schema
        self.partition_by = partition_by


class Manifest:
    """The manifest of the lake in the directory `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def description(self) -> Description | None:
        """The description of the lake; None if there is no manifest. Raises FlintError."""
        found = _read(self._root / _DESCRIPTION)
        if found is None:
            return None
        schema = StructType.fromJson(found["schema"])
        return Description(LakeFormat(found["format"]), schema, tuple(found["partition_by"]))

    def check(self, wanted: Description) -> None:
        """Raises ConfigurationError if rows of the layout `wanted` cannot be added to the lake."""
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
        """Write the description unless there is one. Raises ConfigurationError if that one differs."""
        content = {
            "version": VERSION,
            "format": wanted.format.value,
            "schema": wanted.schema.jsonValue(),
            "partition_by": wanted.partition_by,
        }
        if not _create(self._root / _DESCRIPTION, content):
            self.check(wanted)

    def decide(self, batch: Batch) -> Batch:
        """Decide a batch, and return the decided one: this one, or an earlier one of this number. Raises FlintError."""
        if _find(self._compacted(batch.query, batch.number), batch.number) is None:
            _create(self._path(batch.query, batch.number), {"version": VERSION, **_content(batch)})
        decided = self.batch(batch.query, batch.number)
        if decided is None:
            path = self._path(batch.query, batch.number)
            raise LakeDamaged(f"the manifest {path} was written and is missing now: another program has removed it")
        if batch.number % UNCOMPACTED_BATCHES == 0:
            self._compact(batch.query)
        return decided

    def batch(self, query: str, number: int) -> Batch | None:
        """The decided batch of this number; None if it is not decided. Raises FlintError."""
        found = _find(self._compacted(query, number), number)
        if found is None:
            single = _batches(self._path(query, number))
            # If its file is gone by now, it was compacted meanwhile.
            found = _find(self._compacted(query, number) if single is None else single, number)
        return found

    def _compacted(self, query: str, number: int) -> list[Batch]:
        """The batches of the compacted file that has this one; empty if there is none."""
        for path in self._files(query, only_compacted=True):
            first, last = _numbers(path)
            found = _batches(path) if first <= number <= last else None
            if found is not None and _find(found, number) is not None:
                return found
        return []

    def head(self, query: str) -> int | None:
        """The number of the last batch of a query; None if it has none."""
        return max((_numbers(path)[1] for path in self._files(query)), default=None)

    def heads(self) -> dict[str, int]:
        """The number of the last batch of each query."""
        found = {query: self.head(query) for query in _listed_in(self._root / _BATCHES)}
        return {query: head for query, head in found.items() if head is not None}

    def batches(self, up_to: dict[str, int]) -> Iterator[Batch]:
        """All decided batches up to these numbers, query by query. Raises FlintError."""
        for query, last in sorted(up_to.items()):
            done: set[int] = set()
            files = self._files(query)
            # A listing may lack files that are created while it is made, but not older ones. If it lacks batches that
            # were compacted meanwhile, the second listing has the compacted file.
            files = sorted({*files, *self._files(query, only_compacted=True)}, key=_order)
            for path in files:
                first = _numbers(path)[0]
                if first > last or (_is_single(path) and first in done):
                    continue
                found = _batches(path)
                if found is None:
                    found = self._compacted(query, first)
                if not found:
                    raise LakeDamaged(f"the manifest {path} is missing: another program has removed it")
                # If a driver died while it compacted batches, the next compacted file may have them as well.
                new = [batch for batch in found if batch.number <= last and batch.number not in done]
                done.update(batch.number for batch in new)
                yield from new

    def _files(self, query: str, only_compacted: bool = False) -> list[Path]:
        """The files of a query in order of their first batches, compacted ones first; `only_compacted` selects only
        those.
        """
        folder = self._root / _BATCHES / query
        paths = [folder / name for name in _listed_in(folder) if name.endswith(".json")]
        return sorted((path for path in paths if not (only_compacted and _is_single(path))), key=_order)

    def _compact(self, query: str) -> None:
        """Compact old batches.

        Readers find each batch at any time: the compacted file exists before parts are removed.
        """
        single = [path for path in self._files(query) if _is_single(path)][:-UNCOMPACTED_BATCHES]
        if len(single) < COMPACTED_BATCHES:
            return
        chosen = single[:COMPACTED_BATCHES]
        first, last = _numbers(chosen[0])[0], _numbers(chosen[-1])[0]
        # Batches that were compacted before take precedence: their single files are left from a driver that died.
        known = {batch.number: batch for path in chosen for batch in _batches(path) or ()}
        for path in self._files(query, only_compacted=True):
            start, end = _numbers(path)
            if start <= last and first <= end:
                known.update({batch.number: batch for batch in _batches(path) or () if batch.number in known})
        if len(known) == len(chosen):
            batches = [_content(batch) for _, batch in sorted(known.items())]
            _create(
                chosen[0].with_name(f"{chosen[0].stem}-{chosen[-1].name}"), {"version": VERSION, "batches": batches}
            )
            for path in chosen:
                path.unlink(missing_ok=True)

    def _path(self, query: str, number: int) -> Path:
        return self._root / _BATCHES / query / f"{number:020d}.json"


def _numbers(path: Path) -> tuple[int, int]:
    """The numbers of the first and of the last batch of a file."""
    first, _, last = path.stem.partition("-")
    return int(first), int(last or first)


def _is_single(path: Path) -> bool:
    return "-" not in path.stem


def _order(path: Path) -> tuple[int, bool, int]:
    first, last = _numbers(path)
    return first, _is_single(path), last


def _content(batch: Batch) -> dict[str, Any]:
    files = [asdict(file) for file in sorted(batch.files, key=DataFile.order)]
    return {"query": batch.query, "batch": batch.number, "files": files}


def _batches(path: Path) -> list[Batch] | None:
    """The batches of a file; None if the file does not exist."""
    found = _read(path)
    if found is None:
        return None
    return [_batch(each) for each in found["batches"]] if "batches" in found else [_batch(found)]


def _find(batches: list[Batch], number: int) -> Batch | None:
    return next((batch for batch in batches if batch.number == number), None)


def _listed_in(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []


def _batch(found: dict[str, Any]) -> Batch:
    return Batch(found["query"], found["batch"], tuple(DataFile(**file) for file in found["files"]))


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    if found.get("version") != VERSION:
        raise LakeDamaged(f"{path} is of version {found.get('version')}: use the newer FlintMQ that wrote it")
    return found


def _create(path: Path, content: dict[str, Any]) -> bool:
    """Create a complete and synced file; False if the name is taken."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    is_new = True
    try:
        draft.write_text(json.dumps(content))
        sync(draft)
        try:
            os.link(draft, path)
        except FileExistsError:
            is_new = False
        # Directories are synced also if the name is taken: its creator may have died before it synced them.
        for directory in (path.parent, path.parent.parent, path.parent.parent.parent):
            sync(directory)
    finally:
        draft.unlink(missing_ok=True)
    return is_new


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "nothing"


def _difference(there: StructType, wanted: StructType) -> str:
    mine = {field.name: field.dataType.simpleString() for field in wanted.fields}
    its = {field.name: field.dataType.simpleString() for field in there.fields}
    differences = [
        f"{name} is {its[name]} there, {mine[name]} here" for name in its if name in mine and its[name] != mine[name]
    ]
    differences += [f"{name} is only there" for name in its if name not in mine]
    differences += [f"{name} is only here" for name in mine if name not in its]
    return "; ".join(differences) or "they have another order"
