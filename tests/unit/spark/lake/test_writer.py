"""The steps of tasks and of the driver at a lake, without Spark."""

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import (
    BinaryType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from flintmq.base.errors import ConfigurationError, ConnectionLost, FlintError
from flintmq.spark.lake import files as task_files
from flintmq.spark.lake import manifest as manifests
from flintmq.spark.lake import writer as lake_writer
from flintmq.spark.lake.data_file import Batch, DataFile
from flintmq.spark.lake.manifest import LakeDamaged, Manifest
from flintmq.spark.lake.options import LakeFormat, lake_read_options, lake_write_options
from flintmq.spark.lake.partition_filter import parse_partition_filter
from flintmq.spark.lake.reader import LakeBatchReader, lake_table
from flintmq.spark.lake.source import LakeDataSource
from flintmq.spark.lake.vacuum import vacuum
from flintmq.spark.lake.writer import Lake
from tests.spark.lakes import FORMATS, parquet_files, rows

EVERYTHING = parse_partition_filter("")
START = datetime(2026, 11, 22, 23, 59, tzinfo=UTC)
SCHEMA = StructType(
    [
        StructField("body", BinaryType()),
        StructField("routing_key", StringType()),
        StructField("queue", StringType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("headers", MapType(StringType(), StringType())),
    ]
)


def messages(start: int, end: int, keys: int = 1, queue: str = "q") -> pa.RecordBatch:
    """Rows as Spark passes them to a task: times are in the session's zone."""
    numbers = range(start, end)
    return pa.RecordBatch.from_pydict(
        {
            "body": [b"%d" % n for n in numbers],
            "routing_key": [f"k/{n % keys}" for n in numbers],
            "queue": [queue] * len(numbers),
            "offset": pa.array(numbers, pa.int64()),
            "timestamp": pa.array([START + timedelta(seconds=n) for n in numbers], pa.timestamp("us", "Europe/Berlin")),
            "headers": pa.array([[("n", str(n))] for n in numbers], pa.map_(pa.string(), pa.string())),
        }
    )


def a_lake(path: Path, format: str = "parquet", schema: StructType = SCHEMA, **options: str) -> Lake:
    given = lake_write_options({"path": str(path), "lakeFormat": format, **options})
    return Lake(given, schema)


def batch(lake: Lake, number: int, *parts: pa.RecordBatch, query: str = "query") -> Batch:
    """Each part is what a task of its own got."""
    return Batch(query, number, tuple(file for part in parts for file in lake.write(iter([part]))))


def read_back(path: Path, *columns: str, **options: str) -> list[tuple[Any, ...]]:
    given = lake_read_options({"path": str(path), **options})
    schema = lake_table(given.place).snapshot(None, EVERYTHING).schema
    reader = LakeBatchReader(given, StructType([schema[name] for name in columns] if columns else schema.fields))
    found = [found for part in reader.partitions() for found in reader.read(part)]
    return [tuple(row.values()) for one in found for row in one.to_pylist()]


@pytest.mark.parametrize("format", FORMATS)
def test_a_batch_that_comes_again(tmp_path: Path, format: str) -> None:
    """A driver that repeats a batch, with other tasks and files, gets the batch that was decided first."""
    path = tmp_path / "lake"
    lake = a_lake(path, format, partitionBy="day,routing_key")
    first = batch(lake, 0, messages(0, 70, keys=2), messages(70, 100, keys=2))
    lake.commit(first)
    lake.commit(batch(lake, 1, messages(100, 150, keys=2)))
    again = batch(a_lake(path, format, partitionBy="day,routing_key"), 1, messages(100, 120), messages(120, 150))
    lake.commit(again)
    assert rows(path, format, "offset") == [(n,) for n in range(150)]
    assert len(parquet_files(path)) == sum(len(batch.files) for batch in Manifest(path).batches({"query": 1}))
    assert {row[0] for row in read_back(path, "offset")} == set(range(150))


@pytest.mark.parametrize("format", FORMATS)
def test_a_driver_that_died_after_deciding(tmp_path: Path, format: str) -> None:
    """A batch that is in the manifest, and in no table yet, gets into it as it was decided."""
    path = tmp_path / "lake"
    lake = a_lake(path, format)
    lake.commit(batch(lake, 0, messages(0, 10)))
    decided = batch(lake, 1, messages(10, 20))
    Manifest(path).decide(decided)
    again = batch(lake, 1, messages(10, 15), messages(15, 20))
    lake.commit(again)
    assert rows(path, format, "offset") == [(n,) for n in range(20)]
    kept = {file.name for file in parquet_files(path)}
    assert {Path(file.path).name for file in decided.files} < kept
    assert kept.isdisjoint({Path(file.path).name for file in again.files})


@pytest.mark.parametrize("format", FORMATS)
def test_columns_are_known_without_the_files(tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To plan a query, Spark asks for them several times: that costs nothing for each batch there ever was."""
    path = tmp_path / "lake"
    lake = a_lake(path, format)
    lake.commit(batch(lake, 0, messages(0, 10)))
    table = lake_table(lake_read_options({"path": str(path)}).place)
    expected = table.snapshot(None, EVERYTHING).schema
    monkeypatch.setattr(Manifest, "batches", lambda *_: pytest.fail("the manifest is read"))
    monkeypatch.setattr(type(table), "snapshot", lambda *_: pytest.fail("files are listed"))
    assert table.schema() == expected
    assert LakeDataSource({"path": str(path)}).schema() == expected


@pytest.mark.parametrize("format", FORMATS)
def test_numbers_grow(tmp_path: Path, format: str) -> None:
    """A new batch with a number below one before is refused, for it would be taken for added; the same one is not."""
    path = tmp_path / "lake"
    lake = a_lake(path, format)
    lake.commit(batch(lake, 3, messages(0, 10)))
    lake.commit(batch(lake, 5, messages(10, 20)))
    late = batch(lake, 4, messages(20, 30))
    with pytest.raises(ConfigurationError, match="batch 4 of query comes when batch 5 is in .*: numbers must grow"):
        lake.commit(late)
    lake.discard(late)
    lake.commit(batch(lake, 3, messages(0, 5), messages(5, 10)))
    assert rows(path, format, "offset") == [(n,) for n in range(20)]
    assert len(parquet_files(path)) == 2


@pytest.mark.parametrize("format", FORMATS)
def test_a_batch_that_was_given_up_after_it_was_decided(tmp_path: Path, format: str) -> None:
    """The next batch first adds a decided batch to the table, which would otherwise take it for added."""
    path = tmp_path / "lake"
    lake = a_lake(path, format)
    lake.commit(batch(lake, 0, messages(0, 10)))
    Manifest(path).decide(batch(lake, 1, messages(10, 20)))
    lake.commit(batch(lake, 2, messages(20, 30)))
    assert rows(path, format, "offset") == [(n,) for n in range(30)]


@pytest.mark.parametrize("format", FORMATS)
def test_an_abort(tmp_path: Path, format: str) -> None:
    """The files of a failed attempt are removed unless they are the decided batch."""
    path = tmp_path / "lake"
    lake = a_lake(path, format)
    failed, decided = batch(lake, 0, messages(0, 10)), batch(lake, 0, messages(0, 10))
    Manifest(path).decide(decided)
    lake.discard(failed)
    lake.discard(decided)
    lake.commit(decided)
    assert rows(path, format, "offset") == [(n,) for n in range(10)]
    assert len(parquet_files(path)) == 1


def test_events_that_are_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that is not known when it is run again is told that its rows are in; one that is may be run again."""

    def away(*_: object) -> None:
        raise ConnectionLost("the peer closed the socket")

    monkeypatch.setattr(lake_writer, "announce", away)
    path = tmp_path / "lake"
    lake = a_lake(path, url="amqp://h/", eventsExchange="x")
    with pytest.raises(
        FlintError, match=f"all rows are in the lake {path}, and only its events .*do not run this again"
    ):
        lake.commit(batch(lake, 0, messages(0, 10)))
    with pytest.raises(FlintError, match="is the broker running") as raised:
        lake.commit(replace(batch(lake, 1, messages(10, 20)), goes_on=True))
    assert "do not run" not in str(raised.value)
    assert rows(path, "parquet", "offset") == [(n,) for n in range(20)]


def test_a_query_numbers_its_batches_itself(tmp_path: Path) -> None:
    """A number that it would not use is refused."""
    source = LakeDataSource({"path": str(tmp_path / "lake"), "transactionalId": "t", "batchId": "1"})
    with pytest.raises(ConfigurationError, match="are for batch writes"):
        source.streamWriter(SCHEMA, False)


@pytest.mark.parametrize("format", FORMATS)
def test_two_queries(tmp_path: Path, format: str) -> None:
    """Batches of one number are different batches if they are of different queries."""
    path = tmp_path / "lake"
    lake = a_lake(path, format)
    lake.commit(batch(lake, 0, messages(0, 10), query="a"))
    lake.commit(batch(lake, 0, messages(10, 20), query="b"))
    lake.commit(batch(lake, 0, messages(10, 20), query="b"))
    assert rows(path, format, "offset") == [(n,) for n in range(20)]


def test_manifest_rows(tmp_path: Path) -> None:
    """A file is of one queue, and its row has the first and the last of what is in it."""
    lake = a_lake(tmp_path / "lake", partitionBy="day")
    written = lake.write(iter([messages(0, 50), messages(50, 100), messages(7, 9, queue="other")]))
    found = {(file.queue, file.partition["day"]): file for file in written}
    assert [*found] == [("q", "2026-11-22"), ("q", "2026-11-23"), ("other", "2026-11-22")]
    today = found["q", "2026-11-22"]
    assert (today.rows, today.first_offset, today.last_offset) == (60, 0, 59)
    assert today.first_timestamp_us == int(START.timestamp() * 1e6)
    assert today.last_timestamp_us == int((START + timedelta(seconds=59)).timestamp() * 1e6)
    assert (found["q", "2026-11-23"].first_offset, found["other", "2026-11-22"].last_offset) == (60, 8)


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Manifest:
    """A manifest that compacts ten batches, but not the last four."""
    monkeypatch.setattr(manifests, "COMPACTED_BATCHES", 10)
    monkeypatch.setattr(manifests, "UNCOMPACTED_BATCHES", 4)
    return Manifest(tmp_path)


def small_batches(count: int) -> list[Batch]:
    return [Batch("query", number, (DataFile(f"{number}.parquet", 1, 1),)) for number in range(count)]


def test_many_batches(tmp_path: Path, manifest: Manifest) -> None:
    """The batches of a query are compacted to few files, and stay decided, in order and each once."""
    decided = small_batches(100)
    for one in decided:
        manifest.decide(one)
    files = sorted(file.name for file in (tmp_path / "_flintmq/manifest/query").iterdir())
    assert len(files) < 30
    assert [*manifest.batches(manifest.heads())] == decided
    assert [*manifest.batches({"query": 14})] == decided[:15]
    assert [manifest.batch("query", number) for number in range(101)] == [*decided, None]
    assert (manifest.head("query"), manifest.heads()) == (99, {"query": 99})
    late = replace(decided[3], files=(DataFile("late.parquet", 1, 1),))
    assert manifest.decide(late) == decided[3]


def test_a_death_while_batches_are_put_together(tmp_path: Path, manifest: Manifest) -> None:
    """Some are in two files then, and who was very late has created one anew: each is there once, as decided."""
    decided = small_batches(40)
    for one in decided[:13]:
        manifest.decide(one)
    left = {file: file.read_bytes() for file in (tmp_path / "_flintmq/manifest/query").iterdir()}
    for one in decided[13:20]:
        manifest.decide(one)
    for file, content in left.items():
        if int(file.stem) in {0, 6, 7, 8, 9}:
            file.write_bytes(content.replace(b"0.parquet", b"late.parquet"))
    assert manifest.batch("query", 0) == decided[0]
    for one in decided[20:]:
        manifest.decide(one)
    assert [*manifest.batches(manifest.heads())] == decided
    assert [manifest.batch("query", number) for number in range(40)] == decided


def test_batches_that_are_put_together_while_they_are_listed(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing may have neither the whole, which came too late for it, nor the parts that went: a second one has."""
    decided = small_batches(17)
    for one in decided[:16]:
        manifest.decide(one)
    listed = os.listdir
    pending = [decided[16]]

    def slowly(folder: Path) -> list[str]:
        before = listed(folder)
        while pending:
            manifest.decide(pending.pop())
        after = listed(folder)
        return [name for name in before if name in after]

    monkeypatch.setattr(os, "listdir", slowly)
    assert [*manifest.batches({"query": 15})] == decided[:16]
    assert [*manifest.batches(manifest.heads())] == decided


def test_files_that_are_moved(tmp_path: Path) -> None:
    """Before its batch is decided, no reader of the directory sees a file; what was moved may have been moved
    before.
    """
    path = tmp_path / "lake"
    lake = a_lake(path)
    decided = batch(lake, 0, messages(0, 10), messages(10, 20))
    assert [file.parent.name for file in parquet_files(path)] == ["staged", "staged"]
    moved = decided.files[0].path
    Manifest(path).decide(decided)
    (path / "_flintmq/staged" / moved).rename(path / moved)
    lake.commit(decided)
    assert rows(path, "parquet", "offset") == [(n,) for n in range(20)]
    (path / moved).unlink()
    with pytest.raises(LakeDamaged, match="another program has removed it"):
        lake.commit(decided)


def test_a_lake_that_is_read_while_it_is_completed(tmp_path: Path) -> None:
    """Readers of the manifest see a decided batch, whether its files were moved or not."""
    path = tmp_path / "lake"
    lake = a_lake(path)
    lake.commit(batch(lake, 0, messages(0, 10)))
    Manifest(path).decide(batch(lake, 1, messages(10, 20)))
    assert [row[0] for row in read_back(path, "offset")] == [*range(20)]


def test_a_file_that_is_moved_before_it_is_read(tmp_path: Path) -> None:
    """A reader that planned before a batch was completed finds its files after they were moved."""
    path = tmp_path / "lake"
    lake = a_lake(path, partitionBy="day")
    decided = batch(lake, 0, messages(0, 10))
    lake.commit(batch(lake, 1, messages(10, 20), query="another"))
    Manifest(path).decide(decided)
    options = lake_read_options({"path": str(path)})
    reader = LakeBatchReader(options, StructType([SCHEMA["offset"]]))
    parts = reader.partitions()
    lake.commit(decided)
    read = [row["offset"] for part in parts for found in reader.read(part) for row in found.to_pylist()]
    assert sorted(read) == [*range(20)]


@pytest.mark.parametrize("format", FORMATS)
def test_a_version_stays(tmp_path: Path, format: str) -> None:
    """A reader of a version continues with it, in the same order, after later versions."""
    path = tmp_path / "lake"
    lake = a_lake(path, format)
    for number in (2, 0, 1):
        lake.commit(batch(lake, (2, 0, 1).index(number), messages(number * 10, number * 10 + 10)))
    table = lake_table(lake_read_options({"path": str(path)}).place)
    before = table.snapshot(None, EVERYTHING)
    lake.commit(batch(lake, 3, messages(-5, 0)))
    assert table.snapshot(before.version, EVERYTHING) == before
    assert len(table.snapshot(None, EVERYTHING).files) == 4
    offsets = [pq.read_table(file.path)["offset"][0].as_py() for file in before.files]
    assert offsets == [0, 10, 20]


def test_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files end at their size; with more values than open files, and more waiting than there is memory for, no row is
    lost.
    """
    monkeypatch.setattr(task_files, "OPEN_FILES_MAX", 3)
    monkeypatch.setattr(task_files, "WAITING_MAX_BYTES", 2000)
    lake = a_lake(tmp_path / "lake", "delta", partitionBy="routing_key", maxFileBytes="10000")
    lake.commit(Batch("q", 0, tuple(lake.write(iter([messages(n, n + 100, keys=7) for n in range(0, 5000, 100)])))))
    assert rows(tmp_path / "lake", "delta", "offset") == [(n,) for n in range(5000)]
    sizes = [file.stat().st_size for file in parquet_files(tmp_path / "lake")]
    assert len(sizes) > 20
    assert max(sizes) < 40_000


def test_a_task_that_fails(tmp_path: Path) -> None:
    """A task that fails leaves nothing behind."""
    path = tmp_path / "lake"

    def failing() -> Any:  # noqa: ANN401 - an iterator that breaks
        yield messages(0, 10)
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        a_lake(path).write(failing())
    assert parquet_files(path) == set()


def test_other_columns(tmp_path: Path) -> None:
    """A lake keeps its columns, its partitioning and its format."""
    path = tmp_path / "lake"
    lake = a_lake(path, partitionBy="routing_key")
    lake.commit(batch(lake, 0, messages(0, 1)))
    text = StructType([StructField("body", StringType()), *SCHEMA.fields[1:]])
    with pytest.raises(ConfigurationError, match="other columns: body is binary there, string here"):
        a_lake(path, schema=text, partitionBy="routing_key")
    with pytest.raises(ConfigurationError, match="extra is only here"):
        a_lake(path, schema=StructType([*SCHEMA.fields, StructField("extra", StringType())]), partitionBy="routing_key")
    with pytest.raises(ConfigurationError, match="is partitioned by routing_key, not by nothing"):
        a_lake(path)
    with pytest.raises(ConfigurationError, match="is in the format parquet, not delta"):
        a_lake(path, "delta", partitionBy="routing_key")


def test_a_lake_begun_by_two(tmp_path: Path) -> None:
    """If two queries create a lake with different columns at once, the later one is refused at its commit."""
    path = tmp_path / "lake"
    one = a_lake(path)
    other = a_lake(path, schema=StructType(SCHEMA.fields[:-1]))
    one.commit(batch(one, 0, messages(0, 1)))
    with pytest.raises(ConfigurationError, match="headers is only there"):
        other.commit(Batch("other", 0, (DataFile("x.parquet", 1, 1),)))


def test_a_manifest_of_another_version(tmp_path: Path) -> None:
    """A manifest of a later FlintMQ is refused."""
    path = tmp_path / "lake"
    lake = a_lake(path)
    lake.commit(batch(lake, 0, messages(0, 1)))
    description = path / "_flintmq/lake.json"
    description.write_text(description.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(LakeDamaged, match="is of version 2"):
        a_lake(path)


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_no_such_table(tmp_path: Path, format: str) -> None:
    """A table that there is not is said to be missing."""
    (tmp_path / "lake").mkdir()
    options = lake_read_options({"path": str(tmp_path / "lake"), "lakeFormat": format})
    with pytest.raises(ConfigurationError, match=f"(?i)there is no {format} table"):
        lake_table(options.place).snapshot(None, EVERYTHING)
    with pytest.raises(ConfigurationError, match="there is no lake in"):
        lake_table(lake_read_options({"path": str(tmp_path / "lake")}).place).snapshot(None, EVERYTHING)


def test_versions_that_are_gone(tmp_path: Path) -> None:
    """Reading does not go on in another version than it began with."""
    path = tmp_path / "lake"
    for format in ("delta", "iceberg"):
        lake = a_lake(path / format, format)
        lake.commit(batch(lake, 0, messages(0, 1)))
        table = lake_table(lake_read_options({"path": str(path / format)}).place)
        with pytest.raises(FlintError, match="no longer exists: begin again"):
            table.snapshot("4711", EVERYTHING)


def test_columns_of_a_file_that_others_wrote(tmp_path: Path) -> None:
    """A directory of Parquet files without a manifest is read, its directories' names as columns, and must not
    change.
    """
    for key in ("a b", "c"):
        directory = tmp_path / "lake" / f"key={key.replace(' ', '%20')}"
        directory.mkdir(parents=True)
        pq.write_table(pa.table({"n": [1, 2]}), directory / "part.parquet")
    assert read_back(tmp_path / "lake") == [(1, "a b"), (2, "a b"), (1, "c"), (2, "c")]
    table = lake_table(lake_read_options({"path": str(tmp_path / "lake")}).place)
    version = table.snapshot(None, EVERYTHING).version
    pq.write_table(pa.table({"n": [3]}), tmp_path / "lake" / "more.parquet")
    with pytest.raises(ConfigurationError, match="has other files than when reading began"):
        table.snapshot(version, EVERYTHING)


def test_formats_are_what_lakes_are_read_as(tmp_path: Path) -> None:
    """A lake says itself in which format it is."""
    for format in FORMATS:
        lake = a_lake(tmp_path / format, format)
        lake.commit(batch(lake, 0, messages(0, 3)))
        assert [row[3] for row in read_back(tmp_path / format)] == [0, 1, 2]
        description = Manifest(tmp_path / format).description()
        assert description is not None
        assert description.format is LakeFormat(format)


@pytest.mark.parametrize("format", FORMATS)
def test_vacuum(tmp_path: Path, format: str) -> None:
    """Only old files that belong to no batch are removed."""
    path = tmp_path / "lake"
    lake = a_lake(path, format)
    lake.commit(batch(lake, 0, messages(0, 10)))
    Manifest(path).decide(batch(lake, 1, messages(10, 20)))
    lake.write(iter([messages(20, 30)]))
    # Names of other programs that write to the table.
    foreign = path / "data" / "00000-0-8a7b6c5d-1234-4abc-9def-0123456789ab.parquet"
    foreign.parent.mkdir(exist_ok=True)
    foreign.touch()
    assert vacuum(str(path)) == 0
    assert vacuum(str(path), older_than_hours=-1) == 1
    assert foreign.exists()
    foreign.unlink()
    lake.commit(batch(lake, 1, messages(10, 20)))
    assert rows(path, format, "offset") == [(n,) for n in range(20)]


@pytest.mark.parametrize("format", FORMATS)
def test_a_file_that_is_gone_before_its_batch_is_decided(tmp_path: Path, format: str) -> None:
    """The batch can be written again, which it could not if it was decided with that file."""
    path = tmp_path / "lake"
    lake = a_lake(path, format)
    gone = batch(lake, 0, messages(0, 10), messages(10, 20))
    min(parquet_files(path)).unlink()
    with pytest.raises(LakeDamaged, match="is not there: another program has removed it, as a vacuum does"):
        lake.commit(gone)
    lake.discard(gone)
    lake.commit(batch(lake, 0, messages(0, 20)))
    assert rows(path, format, "offset") == [(n,) for n in range(20)]


def test_many_columns_of_many_values(tmp_path: Path) -> None:
    """Rows of different keys are told apart, though there are more that could be than a number of 64 bits."""
    names = ["a", "b", "c", "d", "e"]
    schema = StructType([StructField(name, LongType()) for name in [*names, "n"]])
    lake = a_lake(tmp_path / "lake", schema=schema, partitionBy=",".join(names))
    count = 2**13
    columns = {name: [*range(count), 0] for name in ["n", *names[1:]]} | {"a": [*range(count), count // 2]}
    written = pa.RecordBatch.from_pydict({name: pa.array(columns[name], pa.int64()) for name in [*names, "n"]})
    keyed = task_files.TaskFiles(lake._options, lake._layout, lake.attempt)._by_key(written)
    assert {key: found.num_rows for key, found in keyed} == {
        tuple(row[name] for name in names): 1 for row in written.to_pylist()
    }


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    """The state of the disk: synced files, and the entries that directories had when they were synced."""
    found: set[Path] = set()
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        found.update([*path.iterdir()] if path.is_dir() else [path / "content"])
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    return found


def on_the_disk(files: set[Path], root: Path) -> set[Path]:
    """The entries and contents that are needed to find these files."""
    return {path for file in files for path in (file / "content", file, *file.parents) if root in path.parents}


@pytest.mark.parametrize("format", FORMATS)
def test_what_a_loss_of_power_leaves(tmp_path: Path, format: str, synced: set[Path]) -> None:
    """When a batch is committed, all that makes it one is on the disk: what the libraries of tables write, too."""
    path = tmp_path / "lake"
    lake = a_lake(path, format)
    for number in range(2):
        lake.commit(batch(lake, number, messages(number * 10, number * 10 + 10)))
        if number == 0:
            assert on_the_disk(logs_of(path), tmp_path) <= synced
    assert len(logs_of(path)) == {"parquet": 0, "delta": 3, "iceberg": 6}[format]
    assert on_the_disk(logs_of(path), tmp_path) <= synced
    assert format != "iceberg" or path / "catalog.db" in synced


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_what_a_loss_of_power_leaves_of_who_died(tmp_path: Path, format: str, synced: set[Path]) -> None:
    """Whoever finds a batch in the table syncs it: who brought it there may have died before, and another query have
    added to the table since.
    """
    path = tmp_path / "lake"
    lake = a_lake(path, format)
    lake.commit(batch(lake, 0, messages(0, 10)))
    before = logs_of(path)
    lake.commit(batch(lake, 1, messages(10, 20)))
    # Files of Iceberg with earlier states of the table.
    old = {file for file in logs_of(path) - before if format == "iceberg" and not file.name.endswith("-m0.avro")}
    lake.commit(batch(lake, 0, messages(20, 30), query="another"))
    synced.clear()
    lake.commit(batch(lake, 1, messages(10, 20)))
    assert on_the_disk(logs_of(path) - before - old, path) <= synced


def logs_of(path: Path) -> set[Path]:
    """The files that the library of a table has written, without those of Iceberg's empty table."""
    return {*path.glob("_delta_log/*.json"), *path.glob("metadata/*")} - {*path.glob("metadata/00000-*.metadata.json")}
