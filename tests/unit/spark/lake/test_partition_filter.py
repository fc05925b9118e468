"""The option partitions: which files of a lake are read, and what is said of conditions that are none."""

import re
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import (
    BooleanType,
    DateType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from flintmq.base.errors import ConfigurationError
from flintmq.spark.lake.data_file import Batch
from flintmq.spark.lake.options import lake_read_options, lake_write_options
from flintmq.spark.lake.partition_filter import parse_partition_filter
from flintmq.spark.lake.reader import LakeBatchReader, LakeStreamReader
from flintmq.spark.lake.writer import Lake
from tests.spark.lakes import FORMATS

SCHEMA = StructType(
    [
        StructField("n", IntegerType()),
        StructField("key", StringType()),
        StructField("day", DateType()),
        StructField("paid", BooleanType()),
        StructField("size", IntegerType()),
    ]
)
KEYS = ("a/b", "c,d", "100%", "=", "x y", None)
DAYS = (date(2026, 10, 9), date(2026, 11, 1), date(2026, 11, 2))
NAMES = ("key", "day", "paid", "size")


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Numbered rows, equal in each format: every combination of the values is a partition."""
    path = tmp_path_factory.mktemp("lakes")
    combinations = [
        (key, day, paid, size) for key in KEYS for day in DAYS for paid in (True, False) for size in (9, 10)
    ]
    columns = list(zip(*combinations, strict=True))
    arrays = [pa.array(range(len(combinations)), pa.int32()), *map(pa.array, columns)]
    rows = pa.RecordBatch.from_arrays(arrays, names=SCHEMA.names)
    for format in FORMATS:
        options = {"path": str(path / format), "lakeFormat": format, "partitionBy": ",".join(NAMES)}
        lake = Lake(lake_write_options(options), SCHEMA)
        lake.commit(lake_batch(lake, rows))
    return path


def lake_batch(lake: Lake, rows: pa.RecordBatch) -> Batch:
    return Batch("query", 0, tuple(lake.write(iter([rows]))))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The Parquet files that are opened, for their rows or their footers."""
    found: list[object] = []
    original = pq.ParquetFile.__init__

    def counting(self: pq.ParquetFile, source: Any, *rest: Any, **others: Any) -> None:  # noqa: ANN401
        found.append(source)
        original(self, source, *rest, **others)

    monkeypatch.setattr(pq.ParquetFile, "__init__", counting)
    return found


def read(path: Path, partitions: str, schema: StructType = SCHEMA) -> list[dict[str, Any]]:
    reader = LakeBatchReader(lake_read_options({"path": str(path), "partitions": partitions}), schema)
    batches = [found for part in reader.partitions() for found in reader.read(part)]
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("partitions", "expected"),
    [
        ("day=2026-11-01", {"day": {DAYS[1]}}),
        ("day=2026-11-01,2026-10-09", {"day": {DAYS[0], DAYS[1]}}),
        ("day>=2026-11-01", {"day": {DAYS[1], DAYS[2]}}),
        ("day>2026-10-09/day<2026-11-02", {"day": {DAYS[1]}}),
        ("size<=9", {"size": {9}}),
        ("size=010", {"size": {10}}),
        ("key=a%2Fb", {"key": {"a/b"}}),
        ("key=c%2Cd,100%25,=", {"key": {"c,d", "100%", "="}}),
        ("key=__HIVE_DEFAULT_PARTITION__, x y", {"key": {None, "x y"}}),
        ("key>=a", {"key": {"a/b", "c,d", "x y"}}),
        ("paid=True / day = 2026-11-02", {"paid": {True}, "day": {DAYS[2]}}),
        ("day=1999-01-01", {"day": set()}),
        ("", {}),
    ],
)
def test_chosen_partitions(
    lakes: Path, opened: list[object], format: str, partitions: str, expected: dict[str, Any]
) -> None:
    """All rows of the chosen partitions are read, no others, and of the files only theirs."""
    found = read(lakes / format, partitions)
    everything = read(lakes / format, "")
    opened.clear()
    assert found == [row for row in everything if all(row[name] in expected[name] for name in expected)]
    assert read(lakes / format, partitions) == found
    assert len(opened) == len({tuple(row[name] for name in NAMES) for row in found})


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("partitions", "expected"),
    [
        ("n=1", "names the column n, by which the lake is not partitioned: choose from key, day, paid, size"),
        ("Day=2026-11-01", "names the column Day, by which the lake is not partitioned"),
        ("day=2026-11-1", "compares the column day, which is date, with '2026-11-1': write a date as 2026-11-01"),
        ("day=20261101", "write a date as 2026-11-01"),
        ("day<x", "write a date as 2026-11-01"),
        ("size=1.5", "which is int, with '1.5': write an integer"),
        ("paid=yes", "which is boolean, with 'yes': write true or false"),
    ],
)
def test_conditions_that_no_lake_has(lakes: Path, format: str, partitions: str, expected: str) -> None:
    """A name that is no partition column, or a value that it cannot have, is an error that says what would be right."""
    with pytest.raises(ConfigurationError, match=re.escape(expected)):
        read(lakes / format, partitions)


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [
        ("day", "has 'day': it must be column=value"),
        ("=1", "has '=1': it must be column=value"),
        ("day=2026-11-01/", "has '': it must be column=value"),
        ("day>2026-11-01,2026-11-02", "> compares with one value that is not null"),
        ("day>=__HIVE_DEFAULT_PARTITION__", ">= compares with one value that is not null"),
    ],
)
def test_what_is_no_condition(partitions: str, expected: str) -> None:
    """A condition of another form is refused before a lake is opened."""
    with pytest.raises(ConfigurationError, match=re.escape(expected)):
        lake_read_options({"path": "/x", "partitions": partitions})


def test_columns_of_other_types() -> None:
    """Others partition tables by what texts are not compared with."""
    schema = StructType([StructField("t", TimestampType())])
    with pytest.raises(ConfigurationError, match="the column t, which is timestamp: partitions are chosen by strings"):
        parse_partition_filter("t=2026-11-01").predicate(["t"], schema)


def test_a_lake_that_is_not_partitioned(tmp_path: Path) -> None:
    """There is nothing to choose from."""
    pq.write_table(pa.table({"n": [1]}), tmp_path / "part.parquet")
    with pytest.raises(ConfigurationError, match="not partitioned: leave the option out, and select rows by WHERE"):
        read(tmp_path, "n=1")


def test_directories_that_others_wrote(tmp_path: Path, opened: list[object]) -> None:
    """One file is opened for the columns, and besides only those that were chosen: for a count, and for the rows."""
    for key in ("a", "b", "c,d"):
        directory = tmp_path / f"key={key}"
        directory.mkdir()
        pq.write_table(pa.table({"n": [1, 2]}), directory / "part.parquet")
    schema = StructType([SCHEMA["n"], SCHEMA["key"]])
    assert read(tmp_path, "key=c%2Cd", schema) == [{"n": 1, "key": "c,d"}, {"n": 2, "key": "c,d"}]
    assert len(opened) == 3


@pytest.mark.parametrize("format", FORMATS)
def test_a_stream_of_some_partitions(lakes: Path, opened: list[object], format: str) -> None:
    """A streaming query reads them in its micro-batches, goes on after a restart, and not with another choice."""
    path = lakes / format
    options = {"path": str(path), "partitions": "day=2026-11-01/size=10"}
    expected = sorted(row["n"] for row in read(path, options["partitions"]))
    opened.clear()
    found = []
    offset = LakeStreamReader(lake_read_options(options), SCHEMA).initialOffset()
    while True:
        reader = LakeStreamReader(lake_read_options(options), SCHEMA)
        end = reader.latestOffset(offset, ReadMaxRows(5))
        if end == offset:
            break
        parts = reader.partitions(offset, end)
        found += [row["n"] for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
        offset = end
    assert sorted(found) == expected
    assert len(opened) == len(expected)
    for other in ("", "day=2026-11-01"):
        changed = LakeStreamReader(lake_read_options({**options, "partitions": other}), SCHEMA)
        with pytest.raises(ConfigurationError, match="was 'day=2026-11-01/size=10' when this query began"):
            changed.latestOffset(offset, ReadMaxRows(5))
        with pytest.raises(ConfigurationError, match="or begin again with a new checkpoint location"):
            changed.partitions({**offset, "row": 0}, offset)
