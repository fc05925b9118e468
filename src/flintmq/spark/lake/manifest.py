"""What was decided for good: which files are a lake's, batch by batch, and what its columns are.

A batch of a query is one file below _flintmq/manifest, which only one can create. It is decided before the table hears
of it. Whoever does the batch again, after a crash in between or beside another driver, finds the decision and
completes that one, and its own files are removed. Names of files are the batch's for good, so completing twice is
completing once.

Old batches of a query are put together, a thousand in a file. That one counts before a file of one of its batches, as
somebody who was very late may have created it anew.
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
# Of the files that say what is in a lake; a reader of another one does not guess.
VERSION: Final = 1
# Of a query that writes many batches, so many are put together; so many of the newest stay alone.
TOGETHER: Final = 1000
ALONE: Final = 100


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
        if _find(self._together(batch.query, batch.number), batch.number) is None:
            _create(self._path(batch.query, batch.number), {"version": VERSION, **_said(batch)})
        decided = self.batch(batch.query, batch.number)
        if decided is None:
            path = self._path(batch.query, batch.number)
            raise LakeDamaged(f"the manifest {path} was written and is not there: somebody removed it meanwhile")
        if batch.number % ALONE == 0:
            self._put_together(batch.query)
        return decided

    def batch(self, query: str, number: int) -> Batch | None:
        found = _find(self._together(query, number), number)
        if found is None:
            alone = _batches(self._path(query, number))
            # Where it is gone now, it has been put together with others meanwhile.
            found = _find(self._together(query, number) if alone is None else alone, number)
        return found

    def _together(self, query: str, number: int) -> list[Batch]:
        """This batch and those it was put together with."""
        for path in self._files(query, together=True):
            first, last = _numbers(path)
            found = _batches(path) if first <= number <= last else None
            if found is not None and _find(found, number) is not None:
                return found
        return []

    def head(self, query: str) -> int | None:
        """The last batch of this one."""
        return max((_numbers(path)[1] for path in self._files(query)), default=None)

    def heads(self) -> dict[str, int]:
        """The last batch of each query."""
        found = {query: self.head(query) for query in _listed_in(self._root / _BATCHES)}
        return {query: head for query, head in found.items() if head is not None}

    def batches(self, up_to: dict[str, int]) -> Iterator[Batch]:
        """All that were decided up to these, query by query. Raises FlintError."""
        for query, last in sorted(up_to.items()):
            done: set[int] = set()
            files = self._files(query)
            # A listing may leave out what comes while it is made. But not what was there before: where it has no parts
            # because they went, the whole has come, and the next listing has that.
            files = sorted({*files, *self._files(query, together=True)}, key=_order)
            for path in files:
                first = _numbers(path)[0]
                if first > last or (_is_alone(path) and first in done):
                    continue
                found = _batches(path)
                if found is None:
                    found = self._together(query, first)
                if not found:
                    raise LakeDamaged(f"the manifest {path} was there and is gone: somebody removed it")
                # Where a driver died while it put some together, they may be in the next such file as well.
                new = [batch for batch in found if batch.number <= last and batch.number not in done]
                done.update(batch.number for batch in new)
                yield from new

    def _files(self, query: str, together: bool = False) -> list[Path]:
        """Of a query, or those of many batches only: by their first batches, those of many before those of one."""
        folder = self._root / _BATCHES / query
        paths = [folder / name for name in _listed_in(folder) if name.endswith(".json")]
        return sorted((path for path in paths if not (together and _is_alone(path))), key=_order)

    def _put_together(self, query: str) -> None:
        """Whoever reads meanwhile finds each batch: the whole is there before a part of it goes."""
        alone = [path for path in self._files(query) if _is_alone(path)][:-ALONE]
        if len(alone) < TOGETHER:
            return
        chosen = alone[:TOGETHER]
        first, last = _numbers(chosen[0])[0], _numbers(chosen[-1])[0]
        # What was put together before counts, and what is here of it is left from a death.
        known = {batch.number: batch for path in chosen for batch in _batches(path) or ()}
        for path in self._files(query, together=True):
            start, end = _numbers(path)
            if start <= last and first <= end:
                known.update({batch.number: batch for batch in _batches(path) or () if batch.number in known})
        if len(known) == len(chosen):
            said = [_said(batch) for _, batch in sorted(known.items())]
            _create(chosen[0].with_name(f"{chosen[0].stem}-{chosen[-1].name}"), {"version": VERSION, "batches": said})
            for path in chosen:
                path.unlink(missing_ok=True)

    def _path(self, query: str, number: int) -> Path:
        return self._root / _BATCHES / query / f"{number:020d}.json"


def _numbers(path: Path) -> tuple[int, int]:
    """Of the first and the last batch that a file has."""
    first, _, last = path.stem.partition("-")
    return int(first), int(last or first)


def _is_alone(path: Path) -> bool:
    return "-" not in path.stem


def _order(path: Path) -> tuple[int, bool, int]:
    first, last = _numbers(path)
    return first, _is_alone(path), last


def _said(batch: Batch) -> dict[str, Any]:
    files = [asdict(file) for file in sorted(batch.files, key=DataFile.order)]
    return {"query": batch.query, "batch": batch.number, "files": files}


def _batches(path: Path) -> list[Batch] | None:
    """Those of a file; None where it is gone."""
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
        raise LakeDamaged(f"{path} is of version {found.get('version')}: a newer FlintMQ wrote it, and can read it")
    return found


def _create(path: Path, content: dict[str, Any]) -> bool:
    """All of it on the disk under this name, or nothing; False if the name is taken."""
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
        # Also of a name that is taken: whoever took it may have died before this.
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
    said = [
        f"{name} is {its[name]} there, {mine[name]} here" for name in its if name in mine and its[name] != mine[name]
    ]
    said += [f"{name} is only there" for name in its if name not in mine]
    said += [f"{name} is only here" for name in mine if name not in its]
    return "; ".join(said) or "they stand in another order"
