"""spark.readStream.format("flintmq"): every message once, whatever stops the query in between."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.servers import BrokerProcess
from tests.spark.conftest import PATIENCE_SECONDS, Queues


def numbers(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


class Pipeline:
    """A stream captured as Parquet files, and what a restart needs."""

    def __init__(self, spark: SparkSession, url: str, directory: Path) -> None:
        self._spark = spark
        self._url = url
        self.lake = str(directory / "lake")
        self.checkpoint = str(directory / "checkpoint")

    def read(self, queue: str, **options: str) -> DataFrame:
        given = {"url": self._url, "queue": queue, "startingOffsets": "earliest", **options}
        return self._spark.readStream.format("flintmq").options(**given).load()

    def capture(self, queue: str, **options: str) -> DataStreamWriter:
        writer = self.read(queue, **options).writeStream.format("parquet")
        return writer.option("path", self.lake).option("checkpointLocation", self.checkpoint)

    def capture_now(self, queue: str, **options: str) -> StreamingQuery:
        """Capture what there is, and end."""
        query = self.capture(queue, **options).trigger(availableNow=True).start()
        assert query.awaitTermination(PATIENCE_SECONDS)
        return query

    def captured(self) -> list[tuple[int, bytes]]:
        rows = self._spark.read.schema("offset long, body binary").parquet(self.lake).orderBy("offset").collect()
        return [(row.offset, bytes(row.body)) for row in rows]

    def wait_for(self, query: StreamingQuery, count: int) -> None:
        until(lambda: not query.isActive or len(self.captured()) >= count)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.fixture
def pipeline(spark: SparkSession, broker: BrokerProcess, tmp_path: Path) -> Pipeline:
    return Pipeline(spark, broker.url, tmp_path)


def test_restarts(pipeline: Pipeline, queues: Queues, tmp_path: Path) -> None:
    """A query that is started again goes on where it was; nothing in its checkpoint tells the password."""
    queue = queues.stream()
    for start, end in ((0, 100), (100, 300)):
        queues.add(queue, *numbers(start, end))
        pipeline.capture_now(queue, minPartitions="3")
        assert pipeline.captured() == list(enumerate(numbers(0, end)))
    pipeline.capture_now(queue)
    assert len(pipeline.captured()) == 300
    files = [file for file in tmp_path.joinpath("checkpoint").rglob("*") if file.is_file()]
    assert any(b':{"%s":300}' % queue.encode() in file.read_bytes().replace(b" ", b"") for file in files)
    assert not any(b"guest" in file.read_bytes() for file in files)


def test_going_on(pipeline: Pipeline, queues: Queues) -> None:
    """A running query takes what comes, after a pause too; its progress tells how far the stream goes."""
    queue = queues.stream(*numbers(0, 10))
    query = pipeline.capture(queue).start()
    try:
        pipeline.wait_for(query, 10)
        time.sleep(1.0)
        queues.add(queue, *numbers(10, 20))
        pipeline.wait_for(query, 20)
        until(lambda: f'"{queue}": 20' in str(query.lastProgress))
    finally:
        query.stop()
    assert pipeline.captured() == list(enumerate(numbers(0, 20)))


def test_a_failed_first_batch(pipeline: Pipeline, queues: Queues) -> None:
    """A query that starts with "latest" and fails in its very first batch does that batch again, not a later one."""
    queue = queues.stream(*numbers(0, 5))
    attempts: list[tuple[int, list[bytes]]] = []

    def sink(frame: DataFrame, batch: int) -> None:
        attempts.append((batch, [bytes(row.body) for row in frame.orderBy("offset").collect()]))
        if len(attempts) == 1:
            raise RuntimeError("the sink is away")

    writer = pipeline.read(queue, startingOffsets="latest").writeStream.foreachBatch(sink)
    writer = writer.option("checkpointLocation", pipeline.checkpoint)
    query = writer.start()
    sent = 5
    while query.exception() is None:
        # Messages keep coming, so that there are some between the query's start and the end of its first batch.
        queues.add(queue, *numbers(sent, sent + 1))
        sent += 1
        time.sleep(0.01)
    assert "the sink is away" in str(query.exception())
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE_SECONDS)
    first, again = attempts[:2]
    assert first[0] == 0
    assert first[1] != []
    assert again == first
    assert [body for _, bodies in attempts[1:] for body in bodies] == numbers(int(first[1][0]), sent)


def test_partitioned_streams(pipeline: Pipeline, queues: Queues) -> None:
    """Several streams are one source, and may become more: what was read of each stands in the checkpoint."""
    first, second, third = (queues.stream(name=name) for name in ("first", "second", "third"))
    queues.add(first, *numbers(0, 30))
    queues.add(second, *numbers(30, 40))
    query = pipeline.capture_now(f"{first},{second}", maxMessagesPerTrigger="20")
    assert [progress.numInputRows for progress in query.recentProgress if progress.numInputRows] == [20, 20]
    queues.add(first, *numbers(40, 45))
    queues.add(third, *numbers(45, 50))
    pipeline.capture_now(f"{first},{second},{third}")
    assert sorted(int(body) for _, body in pipeline.captured()) == list(range(50))
    query = pipeline.capture(f"{first},{second}").trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match="queues can be added to a query, but not removed"):
        query.awaitTermination(PATIENCE_SECONDS)
