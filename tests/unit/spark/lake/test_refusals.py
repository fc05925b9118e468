"""A lake refuses rows before their batch is decided: after that, it could never be completed."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from pyiceberg import types as icebergs
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import IcebergType, NestedField
from pyspark.sql.types import (
    DateType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.spark.columns import PLACE
from flintmq.spark.lake.formats.delta import DeltaLake
from flintmq.spark.lake.formats.iceberg import IcebergLake
from flintmq.spark.lake.manifest import Manifest
from flintmq.spark.lake.options import lake_read_options
from flintmq.spark.lake.reader import lake_table
from tests.spark.lakes import FORMATS, parquet_files, read_lake, rows
from tests.unit.spark.lake.test_writer import a_lake, batch, messages, read_back

# The year 11476, which a publisher's clock may well say.
FAR_US = 300_000_000_000 * 1_000_000
KEYED = StructType([StructField("n", LongType()), StructField("key", StringType())])


def keyed(*keys: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": pa.array(range(len(keys)), pa.int64()), "key": [*keys]})


@pytest.mark.parametrize(
    "name", ["a b", "ü", "a+b&c", "a'b\"c", "a;b=c", "a%20b", "100%", "a%zz", "a\\b", "a#b", "a?b"]
)
@pytest.mark.parametrize("format", FORMATS)
def test_names_of_directories(tmp_path: Path, format: str, name: str) -> None:
    """A lake stands where its path says, whatever is in that, or is refused: never in another directory."""
    path = tmp_path / name
    unfit = {"parquet": "", "delta": r"%[0-9a-fA-F]{2}|\\", "iceberg": "[#?%]"}[format]
    if unfit and re.search(unfit, name):
        with pytest.raises(ConfigurationError, match="the option path is .* Rename the directory"):
            a_lake(path, format)
        assert not [*tmp_path.iterdir()]
        return
    lake = a_lake(path, format, partitionBy="routing_key", table="n.t")
    lake.commit(batch(lake, 0, messages(0, 10, keys=2)))
    lake.commit(batch(lake, 1, messages(10, 20, keys=2)))
    assert [*tmp_path.iterdir()] == [path]
    assert sorted(row[0] for row in read_back(path, "offset", table="n.t")) == [*range(20)]
    if format != "iceberg":
        assert rows(path, format, "offset") == [(n,) for n in range(20)]


@pytest.mark.parametrize("key", ["x" * 252, "ü" * 126, "/" * 84, "x" * 5000])
@pytest.mark.parametrize("format", FORMATS)
def test_a_value_that_is_no_name(tmp_path: Path, format: str, key: str) -> None:
    """A value of a partition column that is too long for the name of a directory is refused where there is one."""
    path = tmp_path / "lake"
    lake = a_lake(path, format, KEYED, partitionBy="key")
    if format == "iceberg" and len(key) > 4096:
        with pytest.raises(ConfigurationError, match="Iceberg takes a value to partition by from the statistics"):
            lake.write(iter([keyed("short", key)]))
        assert not parquet_files(path)
        return
    if format == "parquet":
        with pytest.raises(ConfigurationError, match="a value by which no directory can be named.*takes 255"):
            lake.write(iter([keyed("short", key)]))
        assert not parquet_files(path)
        return
    lake.commit(batch(lake, 0, keyed("short", key)))
    assert rows(path, format, "n", "key") == [(0, "short"), (1, key)]


def test_a_value_that_iceberg_finds(tmp_path: Path) -> None:
    """The longest one that is taken is found by whoever asks for it."""
    path = tmp_path / "lake"
    lake = a_lake(path, "iceberg", KEYED, partitionBy="key")
    lake.commit(batch(lake, 0, keyed("x" * 4096, "short")))
    catalog = load_catalog("flintmq", type="sql", uri=f"sqlite:///{path / 'catalog.db'}", warehouse=path.as_uri())
    found = catalog.load_table("flintmq.lake").scan(row_filter=f"key = '{'x' * 4096}'").to_arrow()
    assert found["n"].to_pylist() == [0]


def test_a_value_that_is_just_a_name(tmp_path: Path) -> None:
    """A directory's name has 255 bytes."""
    lake = a_lake(tmp_path / "lake", schema=KEYED, partitionBy="key")
    lake.commit(batch(lake, 0, keyed("x" * 251)))
    assert rows(tmp_path / "lake", "parquet", "n", "key") == [(0, "x" * 251)]


def test_names_of_values(tmp_path: Path) -> None:
    """Directories are those of Hive and Spark, which escape only ASCII and have no empty text."""
    path = tmp_path / "lake"
    lake = a_lake(path, schema=KEYED, partitionBy="key")
    keys = ["a/b=c%", "ü€😀", " ", "", "..", "a\nb"]
    lake.commit(batch(lake, 0, keyed(*keys)))
    names = {"a%2Fb%3Dc%25", "ü€😀", " ", "__HIVE_DEFAULT_PARTITION__", "..", "a%0Ab"}
    assert {file.parent.name for file in parquet_files(path)} == {f"key={name}" for name in names}
    assert sorted(read_back(path)) == [*enumerate(keys)]
    assert rows(path, "parquet", "n", "key") == [(n, key or None) for n, key in enumerate(keys)]


@pytest.mark.parametrize("name", ["a/b", "../b", "a=b", "a b", "_day"])
def test_names_of_partition_columns(tmp_path: Path, name: str) -> None:
    """They are escaped as values are, so that no directory stands elsewhere, or for another column."""
    path = tmp_path / "lake"
    schema = StructType([StructField("n", LongType()), StructField(name, StringType())])
    lake = a_lake(path, schema=schema, partitionBy=name)
    lake.commit(batch(lake, 0, pa.RecordBatch.from_pydict({"n": [1], name: ["x/y"]})))
    assert len(parquet_files(path)) == 1
    assert read_back(path) == [(1, "x/y")]
    assert read_lake(path, "parquet").to_pylist() == [{"n": 1, name: "x/y"}]
    for file in (path / "_flintmq/lake.json", *(path / "_flintmq/manifest").rglob("*.json")):
        file.unlink()
    assert read_back(path) == [(1, "x/y")]
    assert lake_table(lake_read_options({"path": str(path)}).place).schema().names == ["n", name]


@pytest.mark.parametrize("time", [FAR_US, -FAR_US])
@pytest.mark.parametrize("format", FORMATS)
def test_times_that_python_has_not(tmp_path: Path, format: str, time: int) -> None:
    """A time outside of the years 1 to 9999 is kept; Iceberg's library cannot count with it, and it is refused."""
    path = tmp_path / "lake"
    inner = pa.array([{"at": None}, {"at": time}], pa.struct([("at", pa.timestamp("us", "UTC"))]))
    times = pa.array([0, time], pa.int64()).cast(pa.timestamp("us", "UTC"))
    schema = StructType(
        [
            StructField("n", LongType()),
            StructField("timestamp", TimestampType()),
            StructField("value", StructType([StructField("at", TimestampType())])),
        ]
    )
    lake = a_lake(path, format, schema)
    rows_of = pa.RecordBatch.from_pydict({"n": [0, 1], "timestamp": times, "value": inner})
    if format == "iceberg":
        for refused in (rows_of, rows_of.set_column(1, "timestamp", pa.nulls(2, times.type))):
            with pytest.raises(ConfigurationError, match="the column (timestamp|value.at) has a time"):
                lake.write(iter([refused]))
        assert not parquet_files(path)
        return
    lake.commit(batch(lake, 0, rows_of))
    assert read_lake(path, format)["timestamp"].cast(pa.int64()).to_pylist() == [0, time]
    assert [row[0] for row in read_back(path, "n")] == [0, 1]


@pytest.mark.parametrize("format", FORMATS)
def test_days_that_python_has_not(tmp_path: Path, format: str) -> None:
    """None is the name of a directory, or stands in a log."""
    schema = StructType([StructField("n", LongType()), StructField("timestamp", TimestampType())])
    lake = a_lake(tmp_path / "lake", format, schema, partitionBy="day")
    time = pa.array([FAR_US], pa.int64()).cast(pa.timestamp("us", "UTC"))
    with pytest.raises(ConfigurationError, match="the column day has a time that is not between the years 1 and 9999"):
        lake.write(iter([pa.RecordBatch.from_pydict({"n": [1], "timestamp": time})]))
    assert not parquet_files(tmp_path / "lake")


def test_times_without_a_zone(tmp_path: Path) -> None:
    """Delta says of a table that it has them, as of something that readers must know: ours does."""
    schema = StructType([StructField("n", LongType()), StructField("at", TimestampNTZType())])
    lake = a_lake(tmp_path / "lake", "delta", schema)
    at = datetime(2026, 11, 22)  # noqa: DTZ001 - that is the point
    lake.commit(batch(lake, 0, pa.RecordBatch.from_pydict({"n": [1], "at": pa.array([at], pa.timestamp("us"))})))
    assert read_back(tmp_path / "lake") == [(1, at)]


def test_a_delta_table_that_others_began(tmp_path: Path) -> None:
    """One with other columns is refused: what it does not know would be in its files, and nobody would read it."""
    path = tmp_path / "lake"
    write_deltalake(str(path), pa.table({"n": pa.array([7], pa.int64()), "key": ["k"]}), partition_by=["key"])
    more = StructType([*KEYED.fields, StructField("more", StringType())])
    other = StructType([KEYED["n"], StructField("key", DateType())])
    for schema, by, said in (
        (more, "key", "no such columns: more"),
        (other, "key", "no such columns: key"),
        (KEYED, "", "it is partitioned by key: say so"),
    ):
        lake = a_lake(path, "delta", schema, partitionBy=by)
        written = pa.RecordBatch.from_pydict(
            {"n": [1], "key": [datetime(2026, 1, 1, tzinfo=UTC).date() if schema is other else "k"]}
            | ({"more": ["m"]} if schema is more else {})
        )
        with pytest.raises(ConfigurationError, match=said):
            lake.commit(batch(lake, 0, written))
        assert not (path / "_flintmq/lake.json").exists()
        assert not [*(path / "data").iterdir()]
    lake = a_lake(path, "delta", KEYED, partitionBy="key")
    lake.commit(batch(lake, 0, keyed("a")))
    assert rows(path, "delta", "n", "key") == [(0, "a"), (7, "k")]


def test_an_iceberg_table_that_others_began(tmp_path: Path) -> None:
    """An Iceberg table of another program needs the columns and partitions of the rows, or is not changed."""
    path = tmp_path / "lake"
    lake = a_lake(path, "iceberg", KEYED, partitionBy="key")
    lake.commit(batch(lake, 0, keyed("a")))
    (path / "_flintmq/lake.json").unlink()
    more = StructType([*KEYED.fields, StructField("more", StringType())])
    other = a_lake(path, "iceberg", more, partitionBy="key")
    with pytest.raises(ConfigurationError, match="no such columns: more"):
        other.commit(batch(other, 1, pa.RecordBatch.from_pydict({"n": [1], "key": ["k"], "more": ["m"]})))
    other = a_lake(path, "iceberg", KEYED)
    with pytest.raises(ConfigurationError, match="it is partitioned by key: say so"):
        other.commit(batch(other, 1, keyed("k")))
    lake.commit(batch(lake, 1, keyed("b")))
    assert rows(path, "iceberg", "key") == [("a",), ("b",)]


def a_delta_table(path: Path, protocol: dict[str, Any], configuration: dict[str, str], column: dict[str, Any]) -> None:
    """Tables of other programs: with such a second column."""
    mapped = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "n"} if configuration == MAPPING else {}
    fields: list[dict[str, Any]] = [{"name": "n", "type": "long", "nullable": True, "metadata": mapped}]
    fields.append({"name": "key", "type": "string", "nullable": True, "metadata": {}} | column)
    metadata = {
        "id": "00000000-0000-4000-8000-000000000000",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": configuration,
        "createdTime": 0,
    }
    log = path / "_delta_log"
    log.mkdir(parents=True)
    lines = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2} | protocol}, {"metaData": metadata}]
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, lines)))


def features(*names: str, readers: tuple[str, ...] = ()) -> dict[str, Any]:
    reading = {"minReaderVersion": 3, "readerFeatures": readers} if readers else {}
    return {"minWriterVersion": 7, "writerFeatures": names} | reading


MAPPING = {"delta.columnMapping.mode": "name"}
PHYSICAL = {"metadata": {"delta.columnMapping.id": 2, "delta.columnMapping.physicalName": "c"}}
INVARIANT = {"delta.invariants": json.dumps({"expression": {"expression": "key > ''"}})}


@pytest.mark.parametrize(
    ("protocol", "configuration", "column", "said"),
    [
        ({}, {}, {}, ""),
        ({"minWriterVersion": 5}, {"delta.columnMapping.mode": "none"}, {}, ""),
        ({"minWriterVersion": 6}, {}, {}, "version 6"),
        (features("appendOnly"), {"delta.appendOnly": "true"}, {}, ""),
        (features("changeDataFeed"), {"delta.enableChangeDataFeed": "true"}, {}, ""),
        (features("invariants", "checkConstraints", "generatedColumns"), {}, {}, ""),
        (features("timestampNtz", readers=("timestampNtz",)), {}, {}, ""),
        (features("deletionVectors", readers=("deletionVectors",)), {}, {}, "the feature deletionVectors"),
        (features("appendOnly", "rowTracking"), {}, {}, "the feature rowTracking"),
        ({}, {}, {"nullable": False}, "values of key that are not null"),
        ({"minWriterVersion": 3}, {"delta.constraints.c": "n > 5"}, {}, "delta.constraints.c = n > 5"),
        ({"minWriterVersion": 5, "minReaderVersion": 2}, MAPPING, PHYSICAL, "delta.columnMapping.mode = name"),
        ({}, {}, {"metadata": INVARIANT}, "delta.invariants"),
        ({"minWriterVersion": 4}, {}, {"metadata": {"delta.generationExpression": "n"}}, "delta.generationExpression"),
    ],
)
def test_a_delta_table_that_takes_other_rows(
    tmp_path: Path, protocol: dict[str, Any], configuration: dict[str, str], column: dict[str, Any], said: str
) -> None:
    """What its library would not add, or add without a look at what the table asks for, is told before the batch is
    decided; where the table asks for nothing, it is added, and read.
    """
    path = tmp_path / "lake"
    a_delta_table(path, protocol, configuration, column)
    lake = a_lake(path, "delta", KEYED)
    if said:
        with pytest.raises(ConfigurationError, match=f"asks its writers for {said}, which"):
            lake.commit(batch(lake, 0, keyed("k")))
        assert Manifest(path).heads() == {}
        return
    lake.commit(batch(lake, 0, keyed("k")))
    assert QueryBuilder().register("t", DeltaTable(str(path))).execute("SELECT n, key FROM t").read_all().num_rows == 1
    assert rows(path, "delta", "n", "key") == [(0, "k")]
    assert read_back(path) == [(0, "k")]


def test_a_delta_table_that_others_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table with features that its library does not write is one error at once; without them, it continues."""
    path = tmp_path / "lake"
    lake = a_lake(path, "delta", KEYED)
    lake.commit(batch(lake, 0, keyed("a")))
    change = path / "_delta_log" / f"{2:020}.json"
    change.write_text(json.dumps({"protocol": {"minReaderVersion": 1} | features("rowTracking")}))
    opened: list[DeltaLake] = []
    open_table = DeltaLake._open

    def noted(self: DeltaLake) -> DeltaTable:
        opened.append(self)
        return open_table(self)

    monkeypatch.setattr(DeltaLake, "_open", noted)
    late = replace(batch(lake, 1, keyed("b")), goes_on=True)
    with pytest.raises(FlintError, match="which has features that the library deltalake does not write: .*RowTracking"):
        lake.commit(late)
    assert len(opened) == 2
    change.unlink()
    lake.commit(late)
    assert rows(path, "delta", "key") == [("a",), ("b",)]


def a_field(number: int, name: str, kind: IcebergType, required: bool = False) -> NestedField:
    return NestedField(field_id=number, name=name, field_type=kind, required=required)


@pytest.mark.parametrize(
    ("fields", "spec", "said"),
    [
        ([], UNPARTITIONED_PARTITION_SPEC, ""),
        ([a_field(1, "n", icebergs.IntegerType())], UNPARTITIONED_PARTITION_SPEC, "n is int, and long in the data: ca"),
        ([a_field(1, "n", icebergs.LongType(), True)], UNPARTITIONED_PARTITION_SPEC, "n is required, and may be null"),
        ([a_field(9, "w", icebergs.LongType())], UNPARTITIONED_PARTITION_SPEC, ""),
        ([a_field(9, "w", icebergs.LongType(), True)], UNPARTITIONED_PARTITION_SPEC, "w is required, and the data has"),
        (
            [a_field(3, "value", icebergs.StructType(a_field(4, "x", icebergs.StringType())))],
            UNPARTITIONED_PARTITION_SPEC,
            "value.x is string, and long in the data: cast it",
        ),
        (
            [a_field(3, "value", icebergs.StructType(a_field(4, "y", icebergs.LongType())))],
            UNPARTITIONED_PARTITION_SPEC,
            "other fields .*value.x",
        ),
        (
            [],
            PartitionSpec(PartitionField(2, 1000, BucketTransform(4), "b")),
            r"by bucket\[4\] of key, for which added files",
        ),
        ([], PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "key")), ""),
    ],
)
def test_an_iceberg_table_that_takes_other_files(
    tmp_path: Path, fields: list[NestedField], spec: PartitionSpec, said: str
) -> None:
    """Files that the library would refuse are refused before the decision; others are added."""
    path = tmp_path / "lake"
    path.mkdir()
    catalog = load_catalog("flintmq", type="sql", uri=f"sqlite:///{path / 'catalog.db'}", warehouse=path.as_uri())
    catalog.create_namespace("flintmq")
    columns = {
        "n": a_field(1, "n", icebergs.LongType()),
        "key": a_field(2, "key", icebergs.StringType()),
        "value": a_field(3, "value", icebergs.StructType(a_field(4, "x", icebergs.LongType()))),
    } | {field.name: field for field in fields}
    catalog.create_table("flintmq.lake", Schema(*columns.values()), f"file://{path}", spec)
    inner = StructField("value", StructType([StructField("x", LongType())]))
    by = "key" if spec.fields else ""
    lake = a_lake(path, "iceberg", StructType([*KEYED.fields, inner]), partitionBy=by)
    rows_of = pa.RecordBatch.from_pydict({"n": [1], "key": ["k"], "value": [{"x": 2}]})
    if said:
        with pytest.raises(ConfigurationError, match=said):
            lake.commit(batch(lake, 0, rows_of))
        assert Manifest(path).heads() == {}
        return
    lake.commit(batch(lake, 0, rows_of))
    assert rows(path, "iceberg", "n", "key") == [(1, "k")]


@pytest.mark.parametrize(("format", "table"), [("delta", DeltaLake), ("iceberg", IcebergLake)])
def test_two_that_were_given_up(tmp_path: Path, format: str, table: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that is decided and not in its table gets there before the next one is decided: whoever died between the
    two would leave it behind one that the table has, for good.
    """
    path = tmp_path / "lake"
    lake = a_lake(path, format)
    Manifest(path).describe(lake._description)
    Manifest(path).decide(replace(batch(lake, 0, messages(0, 10)), goes_on=True))
    commit = table.commit  # type: ignore[attr-defined]

    def dying(self: object, wanted: object) -> None:
        raise FlintError("gone")

    monkeypatch.setattr(table, "commit", dying)
    late = replace(batch(lake, 1, messages(10, 20)), goes_on=True)
    with pytest.raises(FlintError, match="gone"):
        lake.commit(late)
    monkeypatch.setattr(table, "commit", commit)
    lake.commit(replace(batch(lake, 1, messages(10, 20)), goes_on=True))
    assert rows(path, format, "offset") == [(n,) for n in range(20)]


@pytest.mark.parametrize("format", FORMATS)
def test_an_old_checkpoint(tmp_path: Path, format: str) -> None:
    """A query whose checkpoint came from a backup numbers its batches again, with other messages in them: taken for
    added, these would be lost, or the next ones doubled.
    """
    path = tmp_path / "lake"
    lake = a_lake(path, format)

    def commit(number: int, start: int, end: int, queue: str = "q") -> None:
        lake.commit(replace(batch(lake, number, messages(start, end, queue=queue)), goes_on=True))

    for number in range(3):
        commit(number, number * 10, number * 10 + 10)
    written = parquet_files(path)
    commit(1, 10, 20)
    commit(2, 20, 30)
    for number, end, had in ((1, 30, 19), (1, 15, 19), (2, 35, 29), (2, 25, 29)):
        told = (
            rf"batch {number} of query comes again with messages of the queue 'q' up to offset {end - 1}, and .* has "
            rf"up to offset {had}: .* a new checkpoint location and, .* startingOffsets {{\"q\": 30}}"
        )
        with pytest.raises(ConfigurationError, match=told):
            commit(number, number * 10, end)
    with pytest.raises(ConfigurationError, match=r'has none: .* startingOffsets {"another": 0, "q": 30}'):
        commit(1, 0, 5, queue="another")
    assert parquet_files(path) == written
    assert rows(path, format, "offset") == [(n,) for n in range(30)]


def test_a_batch_of_another_lease(tmp_path: Path) -> None:
    """Rows of another generation are others, although their offsets are the same."""
    schema = StructType(
        [StructField(name, kind) for name, kind in PLACE.items() if name in ("queue", "offset", "generation")]
    )
    path = tmp_path / "lake"
    lake = a_lake(path, "parquet", schema)

    def commit(generation: int) -> None:
        rows = {"queue": ["q"] * 5, "offset": range(5), "generation": [generation] * 5}
        lake.commit(replace(batch(lake, 0, pa.RecordBatch.from_pydict(rows, lake._layout.arrow)), goes_on=True))

    commit(7)
    commit(7)
    with pytest.raises(ConfigurationError, match=r"up to offset 4 of another generation \(7, not 8\)"):
        commit(8)
    assert len(rows(path, "parquet", "offset")) == 5


@pytest.mark.parametrize("format", FORMATS)
def test_a_part_of_a_batch_comes_again(tmp_path: Path, format: str) -> None:
    """Queues that it has no rows of now are passed over, and so are offsets that begin again with another lease."""
    path = tmp_path / "lake"
    lake = a_lake(path, format)
    both = batch(lake, 0, messages(0, 10), messages(0, 5, queue="another"))
    lake.commit(replace(both, goes_on=True))
    lake.commit(replace(batch(lake, 0, messages(0, 10)), goes_on=True))
    lake.commit(replace(batch(lake, 1, messages(0, 3)), goes_on=True))
    assert len(rows(path, format, "offset")) == 18
    with pytest.raises(ConfigurationError, match=r'startingOffsets {"q": 10}'):
        lake.commit(replace(batch(lake, 1, messages(0, 4)), goes_on=True))


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_refused_completes_what_was_decided(tmp_path: Path, format: str) -> None:
    """A query that is told to begin behind what the lake has finds it in the table."""
    path = tmp_path / "lake"
    lake = a_lake(path, format)
    Manifest(path).describe(lake._description)
    Manifest(path).decide(batch(lake, 0, messages(0, 10)))
    with pytest.raises(ConfigurationError, match="comes again"):
        lake.commit(replace(batch(lake, 0, messages(0, 5)), goes_on=True))
    assert rows(path, format, "offset") == [(n,) for n in range(10)]


def test_a_delta_table_after_a_far_time(tmp_path: Path) -> None:
    """Its file has no statistics of that column, and all the others."""
    path = tmp_path / "lake"
    schema = StructType([StructField("offset", LongType()), StructField("timestamp", TimestampType())])
    lake = a_lake(path, "delta", schema)
    times = pa.array([FAR_US, 0], pa.int64()).cast(pa.timestamp("us", "UTC"))
    lake.commit(batch(lake, 0, pa.RecordBatch.from_pydict({"offset": [1, 2], "timestamp": times})))
    actions = pa.table(DeltaTable(str(path)).get_add_actions(flatten=True)).to_pylist()
    assert [(action["num_records"], action["min.offset"], action["max.offset"]) for action in actions] == [(2, 1, 2)]
