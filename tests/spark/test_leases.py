"""Ordinary queues in Spark: each message once, taken from the queue when Spark has it, and what users get wrong."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.servers import BrokerProcess
from tests.spark.conftest import PATIENCE_SECONDS, Queues

CONSUMER = "capture"


def numbers(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


class Capture:
    """A queue captured as Parquet files."""

    def __init__(self, spark: SparkSession, url: str, directory: Path) -> None:
        self._spark = spark
        self.url = url
        self.lake = str(directory / "lake")
        self.checkpoint = str(directory / "checkpoint")

    def read(self, queue: str, **options: str) -> DataFrame:
        given = {"url": self.url, "queue": queue, "consumerName": CONSUMER, **options}
        return self._spark.readStream.format("flintmq").options(**given).load()

    def start(self, queue: str, now: bool = False, every: str = "0 seconds", **options: str) -> StreamingQuery:
        writer = self.read(queue, **options).writeStream.format("parquet").option("path", self.lake)
        writer = writer.option("checkpointLocation", self.checkpoint)
        return (writer.trigger(availableNow=True) if now else writer.trigger(processingTime=every)).start()

    def now(self, queue: str, **options: str) -> StreamingQuery:
        query = self.start(queue, now=True, **options)
        assert query.awaitTermination(PATIENCE_SECONDS)
        return query

    def captured(self) -> list[bytes]:
        rows = self._spark.read.schema("offset long, body binary").parquet(self.lake).orderBy("offset").collect()
        return [bytes(row.body) for row in rows]


@pytest.fixture
def capture(spark: SparkSession, broker: BrokerProcess, tmp_path: Path) -> Capture:
    return Capture(spark, broker.url, tmp_path)


@pytest.fixture
def queue(queues: Queues) -> Iterator[str]:
    name = queues.channel.declare_queue(f"lease.{time.monotonic_ns()}").name
    yield name
    queues.channel.delete_queue(name)


def ready(queues: Queues, queue: str) -> int:
    return queues.channel.declare_queue(queue, passive=True).message_count


def failure(query: StreamingQuery) -> str:
    """What ended it, as its user is told, without the ids that Spark puts before it."""
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination(PATIENCE_SECONDS)
    told = str(raised.value)
    assert "Traceback" not in told
    return told


def test_all_that_is_there(capture: Capture, queues: Queues, queue: str) -> None:
    """A query that is to end takes what is on the queue, in batches and parallel, and settles the last batch too."""
    queues.add(queue, *numbers(0, 2500))
    query = capture.now(queue, maxMessagesPerTrigger="1000", minPartitions="3")
    assert [progress.numInputRows for progress in query.recentProgress if progress.numInputRows] == [1000, 1000, 500]
    assert capture.captured() == numbers(0, 2500)
    assert ready(queues, queue) == 0
    lease = queues.channel.lease_open(queue, CONSUMER)
    assert (lease.first, lease.next) == (2500, 2500)
    queues.add(queue, *numbers(2500, 2600))
    capture.now(queue)
    assert capture.captured() == numbers(0, 2600)


def test_a_failed_batch(capture: Capture, queues: Queues, queue: str) -> None:
    """A batch that fails, the very first one too, comes again as it was, and nothing is settled before it is done."""
    queues.add(queue, *numbers(0, 50))
    attempts: list[tuple[int, list[bytes]]] = []

    def sink(frame: DataFrame, batch: int) -> None:
        attempts.append((batch, [bytes(row.body) for row in frame.orderBy("offset").collect()]))
        if len(attempts) in (1, 3):
            raise RuntimeError("the sink is away")

    writer = capture.read(queue, maxMessagesPerTrigger="20").writeStream.foreachBatch(sink)
    writer = writer.option("checkpointLocation", capture.checkpoint).trigger(availableNow=True)
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="the sink is away"):
            writer.start().awaitTermination(PATIENCE_SECONDS)
        queues.add(queue, b"later")
    assert writer.start().awaitTermination(PATIENCE_SECONDS)
    assert attempts[:4] == [
        (0, numbers(0, 20)),
        (0, numbers(0, 20)),
        (1, numbers(20, 40)),
        (1, numbers(20, 40)),
    ]
    assert attempts[4:] == [(2, [*numbers(40, 50), b"later", b"later"])]


def test_two_queries_that_are_started_again(
    capture: Capture, spark: SparkSession, broker: BrokerProcess, queues: Queues, queue: str, tmp_path: Path
) -> None:
    """With one consumerName they do not take it from each other by turns: it is the one's that began last."""
    queues.add(queue, *numbers(0, 10))
    capture.now(queue)
    other = Capture(spark, broker.url, tmp_path / "other")
    queues.add(queue, *numbers(10, 20))
    other.now(queue)
    assert "a query with a new checkpoint has begun with this name" in failure(capture.start(queue, now=True))
    queues.add(queue, *numbers(20, 30))
    other.now(queue)
    assert (capture.captured(), other.captured()) == (numbers(0, 10), numbers(10, 30))


def test_a_new_checkpoint_and_an_old_directory(capture: Capture, queues: Queues, queue: str) -> None:
    """Spark's sink of files leaves out batches whose numbers it knows: no message of these is lost, and the user is
    told; with a new checkpoint and a new directory, all of them are there.
    """
    queues.add(queue, *numbers(0, 150))
    capture.now(queue)
    queues.add(queue, *numbers(150, 300))
    capture.checkpoint += ".new"
    assert "Spark has committed a batch of 150 messages" in failure(capture.start(queue, now=True))
    assert "Start with a new checkpoint location and" in failure(capture.start(queue, now=True))
    capture.checkpoint += ".newer"
    capture.lake += ".new"
    capture.now(queue)
    assert capture.captured() == numbers(150, 300)
    assert ready(queues, queue) == 0


def test_a_checkpoint_that_falls_behind(capture: Capture, queues: Queues, queue: str) -> None:
    """A query whose checkpoint is written behind its work is refused, before it has lost its place."""
    queues.add(queue, *numbers(0, 100))
    reading = capture.read(queue, maxMessagesPerTrigger="10")
    writer = reading.writeStream.format("noop").option("checkpointLocation", capture.checkpoint)
    assert "could not be read again" in failure(writer.option("asyncProgressTrackingEnabled", "true").start())
    # What is settled is in the checkpoint: a query without the option can go on with it, in another session of Spark.
    noted = [file.name for file in (Path(capture.checkpoint) / "offsets").iterdir() if file.name.isdecimal()]
    assert queues.channel.lease_query(queue, CONSUMER).first <= len(noted) * 10


def test_a_queue_that_is_read_twice(capture: Capture, queues: Queues, queue: str) -> None:
    """Two loads in one query are two readers, who need two names."""
    queues.add(queue, *numbers(0, 10))
    both = capture.read(queue).union(capture.read(queue, fetchBytes="5000"))
    writer = both.writeStream.format("noop").option("checkpointLocation", capture.checkpoint)
    assert "give each load its own consumerName" in failure(writer.start())


def test_a_sink_in_a_thread(capture: Capture, spark: SparkSession, queues: Queues, queue: str) -> None:
    """Spark finds sinks in Python by the session that is active in the thread, which a data frame makes it."""
    url = capture.url
    ended: list[bool | None] = []

    def work() -> None:
        spark.createDataFrame([], "n INT")
        rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "5").load()
        writer = rate.selectExpr("CAST(value AS STRING) AS body").writeStream.format("flintmq")
        writer = writer.options(url=url, exchange="", routingKey=queue, checkpointLocation=capture.checkpoint)
        query = writer.trigger(once=True).start()
        ended.append(query.awaitTermination(PATIENCE_SECONDS))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ended == [True]
    assert ready(queues, queue) == 5


def test_a_lease_that_is_gone(capture: Capture, queues: Queues, queue: str) -> None:
    """A lease that was released is no longer what the checkpoint speaks of, also when another one has its name."""
    queues.add(queue, *numbers(0, 10))
    capture.now(queue)
    queues.channel.lease_release(queue, CONSUMER)
    queues.add(queue, *numbers(10, 30))
    lease = queues.channel.lease_open(queue, CONSUMER)
    queues.channel.lease_extend(queue, CONSUMER, lease.epoch, 100)
    assert "the lease was released, a query with a new checkpoint has begun with this name, or" in failure(
        capture.start(queue, now=True)
    )
    assert queues.channel.lease_open(queue, CONSUMER).first == 0
    capture.now(queue, failOnDataLoss="false")
    assert sorted(capture.captured(), key=int) == numbers(0, 30)


def test_browse(spark: SparkSession, broker: BrokerProcess, queues: Queues, queue: str) -> None:
    """A batch shows what is on an ordinary queue, oldest first, and takes nothing."""
    read = spark.read.format("flintmq").options(url=broker.url, queue=queue, fetchBytes="1000")
    assert read.load().count() == 0
    queues.add(queue, *numbers(0, 700))
    rows = read.load().collect()
    assert [bytes(row.body) for row in rows] == numbers(0, 700)
    assert [row.offset for row in rows] == list(range(700))
    assert {(row.queue, row.routing_key, row.timestamp, row.redelivered) for row in rows} == {
        (queue, queue, None, False)
    }
    assert ready(queues, queue) == 700
    with pytest.raises(Exception, match="is not a stream: a batch reads all its messages"):
        read.option("startingOffsets", "5").load().collect()
