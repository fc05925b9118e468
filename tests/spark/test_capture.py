"""Queues to the lake: each message in it once, in files whose manifest says what is in them, whatever happens
between.
"""

import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from flintmq.spark.columns import READABLE
from flintmq.spark.lake.capture import capture
from flintmq.spark.lake.manifest import Manifest
from tests.servers import BrokerProcess
from tests.spark.conftest import PATIENCE_SECONDS, Queues
from tests.spark.lakes import FORMATS, parquet_files, read_lake, rows


def numbers(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


class Lake:
    """One lake, what is captured into it, and what a restart needs."""

    def __init__(self, spark: SparkSession, url: str, directory: Path) -> None:
        self.spark = spark
        self.url = url
        self.path = directory / "lake"
        self.checkpoint = directory / "checkpoint"

    def read(self, queue: str, **options: str) -> DataFrame:
        given = {"url": self.url, "queue": queue, "startingOffsets": "earliest", **options}
        return self.spark.readStream.format("flintmq").options(**given).load()

    def capture(self, frame: DataFrame, format: str, **options: str) -> StreamingQuery:
        """Capture what there is, and end."""
        given = {"path": str(self.path), "lakeFormat": format, **options}
        writer = frame.writeStream.format("flintmq_lake").options(**given)
        query = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(PATIENCE_SECONDS)
        return query

    def write(self, frame: DataFrame, format: str = "parquet", **options: str) -> None:
        """A whole query as one batch."""
        given = {"path": str(self.path), "lakeFormat": format, **options}
        frame.write.format("flintmq_lake").options(**given).mode("append").save()


@pytest.fixture
def lake(spark: SparkSession, broker: BrokerProcess, tmp_path: Path) -> Lake:
    return Lake(spark, broker.url, tmp_path)


@pytest.mark.parametrize("format", FORMATS)
def test_every_message_once(lake: Lake, queues: Queues, format: str) -> None:
    """A stream is in the lake, message by message, also after a restart; the manifest has a row for each of its
    files.
    """
    exchange = queues.exchange()
    queue = queues.stream()
    queues.channel.bind(queue, exchange, "#")
    for start, end in ((0, 1000), (1000, 1500)):
        queues.channel.publish_batch([(exchange, f"k/{n % 3}", b"%d" % n) for n in range(start, end)])
        frame = lake.read(queue, minPartitions="2", maxMessagesPerTrigger="600")
        lake.capture(frame, format, partitionBy="day,routing_key")
        expected = [(n, b"%d" % n, f"k/{n % 3}") for n in range(end)]
        assert rows(lake.path, format, "offset", "body", "routing_key") == expected
    manifest = Manifest(lake.path)
    batches = [*manifest.batches(manifest.heads())]
    assert [batch.number for batch in batches] == [0, 1, 2]
    for file in (file for batch in batches for file in batch.files):
        stored = pq.read_table(lake.path / file.path, columns=["offset", "timestamp"])
        offsets = stored["offset"].to_pylist()
        assert (file.rows, file.first_offset, file.last_offset) == (len(offsets), min(offsets), max(offsets))
        assert file.size_bytes == (lake.path / file.path).stat().st_size
        assert (file.queue, file.partition["routing_key"]) == (queue, f"k/{offsets[0] % 3}")
    assert sum(file.rows for batch in batches for file in batch.files) == 1500


@pytest.mark.parametrize("format", FORMATS)
def test_failing_after_the_commit(lake: Lake, queues: Queues, format: str) -> None:
    """A batch that was added to its table, and whose query failed before Spark knew, is not added again; every file of
    it is told of.
    """
    queue = queues.stream(*numbers(0, 100))
    exchange = f"{queue}.events"
    options = {"url": lake.url, "eventsExchange": exchange, "eventsRoutingKey": "new"}
    with pytest.raises(StreamingQueryException, match="no exchange"):
        lake.capture(lake.read(queue, minPartitions="2"), format, **options)
    committed = parquet_files(lake.path)
    assert rows(lake.path, format, "offset") == [(n,) for n in range(100)]
    queues.channel.declare_exchange(exchange, type="topic")
    events = queues.bound(exchange, name="events")
    # More tasks than before: the files of this attempt would be others.
    lake.capture(lake.read(queue, minPartitions="3"), format, **options)
    assert rows(lake.path, format, "offset") == [(n,) for n in range(100)]
    assert parquet_files(lake.path) == committed
    told = [json.loads(event.body) for event in queues.taken(events)]
    assert {lake.path / event["path"] for event in told} == committed
    assert sorted((event["first_offset"], event["last_offset"]) for event in told) == [(0, 49), (50, 99)]


@pytest.mark.parametrize(("format", "obstacle"), [("parquet", "routing_key=k"), ("delta", "_delta_log")])
def test_failing_before_the_commit(lake: Lake, queues: Queues, format: str, obstacle: str) -> None:
    """A batch that was decided, and did not get into its table, gets there when it is done again."""
    exchange = queues.exchange()
    queue = queues.stream()
    queues.channel.bind(queue, exchange, "#")
    queues.channel.publish_batch([(exchange, "k", b"%d" % n) for n in range(100)])
    lake.path.mkdir()
    (lake.path / obstacle).touch()
    with pytest.raises(StreamingQueryException):
        lake.capture(lake.read(queue, minPartitions="2"), format, partitionBy="routing_key")
    decided = {path.name for path in parquet_files(lake.path)}
    assert len(decided) == 2
    (lake.path / obstacle).unlink()
    lake.capture(lake.read(queue, minPartitions="3"), format, partitionBy="routing_key")
    assert rows(lake.path, format, "offset") == [(n,) for n in range(100)]
    assert {path.name for path in parquet_files(lake.path)} == decided


def test_an_application_that_counts(lake: Lake) -> None:
    """A batch query that says which batch of an application it is adds that once, as foreachBatch needs it."""
    for version, number in (("3", 1), ("3", 1), ("4", 2), ("3", 1)):
        lake.write(lake.spark.sql(f"SELECT {number} AS n"), "delta", transactionalId="app", batchId=version)
    assert rows(lake.path, "delta", "n") == [(1,), (2,)]


@pytest.mark.parametrize("format", FORMATS)
def test_values_of_partition_columns(lake: Lake, format: str) -> None:
    """Anything may stand in a partition column: slashes, spaces, null; but neither Delta's log nor names of directories
    know an empty text.
    """
    keys = ["a/b=c%", "ü", " ", "", None]
    said = [(number, key, number % 2 == 0) for number, key in enumerate(keys)]
    lake.write(lake.spark.createDataFrame(said, "n int, key string, even boolean"), format, partitionBy="key,even")
    if format == "delta":
        said[3] = (3, None, False)
    again = lake.spark.read.format("flintmq_lake").option("path", str(lake.path)).load()
    assert sorted(tuple(row) for row in again.select("n", "key", "even").collect()) == said
    if format == "parquet":
        said[3] = (3, None, False)
        by_spark = lake.spark.read.parquet(str(lake.path)).select("n", "key").collect()
        assert sorted(tuple(row) for row in by_spark) == [(number, key) for number, key, _ in said]
    others = read_lake(lake.path, format).select(["n", "key"]).to_pylist()
    assert sorted((row["n"], row["key"]) for row in others) == [(number, key) for number, key, _ in said]


def test_parts_of_time(lake: Lake) -> None:
    """Year, month, day and hour are made of a time, in UTC."""
    frame = lake.spark.sql("SELECT timestamp'2026-11-22 23:59:59' AS at, 1 AS n")
    lake.write(frame, partitionBy="year,month,day,hour", timeColumn="at")
    (file,) = parquet_files(lake.path)
    assert str(file.parent.relative_to(lake.path)) == "year=2026/month=2026-11/day=2026-11-22/hour=23"
    (row,) = lake.spark.read.format("flintmq_lake").option("path", str(lake.path)).load().collect()
    assert (row.n, row.year, row.month, str(row.day), row.hour) == (1, 2026, "2026-11", "2026-11-22", 23)


def test_size_of_files(lake: Lake) -> None:
    """A file that has grown to its size is ended, and another one begun."""
    frame = lake.spark.range(0, 200_000, 1, 1).selectExpr("id", "sha2(cast(id AS string), 256) AS body")
    lake.write(frame, maxFileBytes="1000000")
    sizes = [file.stat().st_size for file in parquet_files(lake.path)]
    assert len(sizes) > 5
    assert max(sizes) < 2_000_000
    assert rows(lake.path, "parquet", "id") == [(n,) for n in range(200_000)]


def test_many_values(lake: Lake) -> None:
    """With more values than files that a task may have open, all rows are there."""
    frame = lake.spark.range(0, 20_000, 1, 1).selectExpr("id", "cast(id % 150 AS int) AS key")
    lake.write(frame, "delta", partitionBy="key")
    assert rows(lake.path, "delta", "id", "key") == [(n, n % 150) for n in range(20_000)]


def failing_beside(staged: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The task that has the row 900 fails when another one has written its file."""
    for batch in batches:
        if 900 in batch.column("id").to_pylist():
            while not is_written(staged):
                time.sleep(0.05)
            raise ValueError("not this one")
        yield batch


def is_written(staged: Path) -> bool:
    try:
        return any(pq.read_metadata(file).num_rows for file in staged.glob("*.parquet"))
    except pa.ArrowInvalid:
        return False


def test_a_task_that_fails(lake: Lake) -> None:
    """Nothing is left of a query that fails in a task, also of what its other tasks had done by then."""
    staged = lake.path / "_flintmq/staged"
    frame = lake.spark.range(0, 1000, 1, 2).mapInArrow(partial(failing_beside, staged), "id long")
    with pytest.raises(Exception, match="not this one"):
        lake.write(frame)
    assert staged.exists()
    assert not parquet_files(lake.path)


def test_a_writer_for_each_batch(lake: Lake, queues: Queues) -> None:
    """Spark makes one for each micro-batch, so that no name of a file of one begins as those of another do; all tasks
    of a batch have the same.
    """
    frame = lake.read(queues.stream(*numbers(0, 1000)), minPartitions="2", maxMessagesPerTrigger="500")
    lake.capture(frame, "delta")
    batches = [*Manifest(lake.path).batches(Manifest(lake.path).heads())]
    attempts = [{Path(file.path).stem[:16] for file in batch.files} for batch in batches]
    assert [len(batch.files) for batch in batches] == [2, 2]
    assert [len(attempt) for attempt in attempts] == [1, 1]
    assert attempts[0] != attempts[1]


def test_other_columns(lake: Lake) -> None:
    """A lake keeps its columns, its partitioning and its format: anything else is refused before it is written."""
    lake.write(lake.spark.sql("SELECT 1 AS n, 'x' AS key"), partitionBy="key")
    with pytest.raises(Exception, match="has other columns: n is int there, string here"):
        lake.write(lake.spark.sql("SELECT '1' AS n, 'x' AS key"), partitionBy="key")
    with pytest.raises(Exception, match="m is only here"):
        lake.write(lake.spark.sql("SELECT 1 AS n, 'x' AS key, 2 AS m"), partitionBy="key")
    with pytest.raises(Exception, match="is partitioned by key, not by nothing"):
        lake.write(lake.spark.sql("SELECT 1 AS n, 'x' AS key"))
    with pytest.raises(Exception, match="is in the format parquet, not delta"):
        lake.write(lake.spark.sql("SELECT 1 AS n, 'x' AS key"), "delta", partitionBy="key")
    assert rows(lake.path, "parquet", "n") == [(1,)]


def test_a_lake_without_generations(lake: Lake, queues: Queues) -> None:
    """What is captured says which lease or stream its offsets are of; a lake that was begun without that goes on so."""
    source = {"url": lake.url, "queue": queues.stream(*numbers(0, 10))}
    old = [name for name in READABLE if name != "generation"]
    given = {"path": str(lake.path), "lakeFormat": "parquet"}
    lake.capture(lake.read(source["queue"], columns=",".join(old)), "parquet")
    queues.add(source["queue"], *numbers(10, 15))
    query = capture(lake.spark, source, given, checkpoint=str(lake.checkpoint), available_now=True)
    assert query.awaitTermination(PATIENCE_SECONDS)
    assert rows(lake.path, "parquet", "offset") == [(n,) for n in range(15)]
    anew = {**given, "path": f"{lake.path}.new"}
    query = capture(lake.spark, source, anew, checkpoint=f"{lake.checkpoint}.new", available_now=True)
    assert query.awaitTermination(PATIENCE_SECONDS)
    found = lake.spark.read.format("flintmq_lake").options(**anew).load()
    (generation,) = found.select("generation").distinct().collect()
    assert generation[0] > 0


def test_wrong_options(lake: Lake) -> None:
    """A wrong option is one clear error, before anything is written."""
    with pytest.raises(Exception, match=r"no option partitionedby: did you mean partitionBy\?"):
        lake.write(lake.spark.sql("SELECT 1 AS n"), partitionedBy="day")
    assert not lake.path.exists()
