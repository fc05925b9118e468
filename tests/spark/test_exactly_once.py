"""deliveryMode exactly-once: what tasks publish appears as a whole, and once, whatever runs again."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.servers import BrokerProcess
from tests.spark.conftest import PATIENCE_SECONDS, Queues
from tests.waiting import wait_until

TEXT = "cast(id AS string) AS body"


class Target:
    """An exchange with a queue behind it, and what writing to it exactly once needs."""

    def __init__(self, url: str, queues: Queues) -> None:
        self.exchange = queues.exchange()
        self.queue = queues.bound(self.exchange)
        self._queues = queues
        self.options = {
            "url": url,
            "exchange": self.exchange,
            "deliveryMode": "exactly-once",
            "transactionalId": self.exchange,
        }

    def write(self, frame: DataFrame, **options: str) -> None:
        frame.write.format("flintmq").options(**{**self.options, **options}).mode("append").save()

    def ready(self) -> int:
        return self._queues.channel.declare_queue(self.queue, passive=True).message_count

    def taken(self) -> list[int]:
        return sorted(int(message.body) for message in self._queues.taken(self.queue))

    def start(self, frame: DataFrame, checkpoint: Path, **options: str) -> StreamingQuery:
        writer = frame.writeStream.format("flintmq").options(**{**self.options, **options})
        return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()

    def run(self, frame: DataFrame, checkpoint: Path, **options: str) -> None:
        assert self.start(frame, checkpoint, **options).awaitTermination(PATIENCE_SECONDS)


@pytest.fixture
def target(broker: BrokerProcess, queues: Queues) -> Target:
    return Target(broker.url, queues)


def streamed(spark: SparkSession, url: str, queue: str) -> DataFrame:
    options = {"url": url, "queue": queue, "startingOffsets": "earliest", "minPartitions": "2"}
    return spark.readStream.format("flintmq").options(**options).load().select("body")


def numbers(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


def forget_commit(checkpoint: Path, batch: int) -> None:
    """As if the driver had died after the broker's commit, and before its own."""
    for file in (checkpoint / "commits").iterdir():
        if str(batch) in file.name:
            file.unlink()


def test_a_batch_in_pieces(spark: SparkSession, target: Target) -> None:
    """All rows arrive, in the order in which their partition had them, however many pieces that took."""
    target.write(spark.range(0, 20_000, 1, 3).selectExpr(TEXT), batchSize="1500")
    # So many messages take several ticks to their queue, behind the answer to the commit.
    wait_until(lambda: target.ready() == 20_000)
    assert target.taken() == list(range(20_000))
    target.write(spark.range(0, 5000, 1, 1).selectExpr(TEXT), batchSize="400")
    bodies = [int(message.body) for message in target._queues.taken(target.queue)]
    assert bodies == list(range(5000))


def test_a_job_that_fails_publishes_nothing(spark: SparkSession, target: Target) -> None:
    """One row that cannot be published, and none is; the job that does it right comes through."""

    def break_last(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.column(0)[0].as_py() == "1500":
                raise ValueError("a row that cannot be computed")
            yield batch

    good = spark.range(0, 2000, 1, 4).selectExpr(TEXT)
    with pytest.raises(Exception, match="a row that cannot be computed"):
        target.write(good.mapInArrow(break_last, "body string"))
    assert target.taken() == []
    with pytest.raises(Exception, match="1 row without a body"):
        target.write(spark.range(0, 2000, 1, 4).selectExpr("if(id = 1999, null, cast(id AS string)) AS body"))
    assert target.taken() == []
    target.write(good)
    assert target.taken() == list(range(2000))
    target.write(good)
    assert target.taken() == list(range(2000))


def test_nothing_to_publish(spark: SparkSession, target: Target) -> None:
    """No rows are no error."""
    target.write(spark.range(0).selectExpr(TEXT))
    assert target.taken() == []


def test_persistent_whatever_the_rows_say(spark: SparkSession, target: Target) -> None:
    """What may be lost in a crash does not arrive exactly once."""
    target.write(spark.sql("SELECT '1' AS body, 1 AS delivery_mode"))
    (message,) = target._queues.taken(target.queue)
    assert message.properties.delivery_mode == 2


def test_a_query_goes_on(
    spark: SparkSession, broker: BrokerProcess, queues: Queues, target: Target, tmp_path: Path
) -> None:
    """A query that ends, and begins again where it was, publishes each message once."""
    source = queues.stream(*numbers(0, 1000))
    target.run(streamed(spark, broker.url, source), tmp_path)
    assert target.taken() == list(range(1000))
    queues.add(source, *numbers(1000, 1500))
    target.run(streamed(spark, broker.url, source), tmp_path)
    assert target.taken() == list(range(1000, 1500))


@pytest.mark.parametrize("batch", [0, 1])
def test_a_batch_that_runs_again(
    spark: SparkSession, broker: BrokerProcess, queues: Queues, target: Target, tmp_path: Path, batch: int
) -> None:
    """Between the broker's commit and Spark's, a driver may die: its successor publishes nothing of it again.

    That holds for the first batch and the last, with any number of partitions.
    """
    source = queues.stream(*numbers(0, 1000))
    for end in range(2000, 2000 + 1000 * batch, 1000):
        target.run(streamed(spark, broker.url, source), tmp_path)
        queues.add(source, *numbers(end - 1000, end))
    target.run(streamed(spark, broker.url, source), tmp_path)
    assert len(target.taken()) == 1000 * (batch + 1)
    forget_commit(tmp_path, batch)
    queues.add(source, *numbers(5000, 5100))
    target.run(streamed(spark, broker.url, source).repartition(5), tmp_path)
    assert target.taken() == list(range(5000, 5100))


def test_state_goes_on_over_a_batch_that_runs_again(
    spark: SparkSession, broker: BrokerProcess, queues: Queues, target: Target, tmp_path: Path
) -> None:
    """A query that counts does not lose count because its sink has the batch already."""
    source = queues.stream(*numbers(0, 10))

    def counts() -> DataFrame:
        return streamed(spark, broker.url, source).dropDuplicates(["body"])

    target.run(counts(), tmp_path)
    assert target.taken() == list(range(10))
    forget_commit(tmp_path, 0)
    queues.add(source, *numbers(5, 15))
    target.run(counts(), tmp_path)
    assert target.taken() == list(range(10, 15))


def test_a_new_checkpoint_begins_anew(
    spark: SparkSession, broker: BrokerProcess, queues: Queues, target: Target, tmp_path: Path
) -> None:
    """Without its checkpoint, a query is another one: it publishes all again, though batches have the same numbers."""
    source = queues.stream(*numbers(0, 100))
    for checkpoint in ("one", "two"):
        target.run(streamed(spark, broker.url, source), tmp_path / checkpoint)
        assert target.taken() == list(range(100))


def test_two_queries_with_one_transactional_id(
    spark: SparkSession, broker: BrokerProcess, queues: Queues, target: Target, tmp_path: Path
) -> None:
    """The one that came last goes on; the other one is told what to do, and does not take the id back."""
    source = queues.stream(*numbers(0, 100))
    target.run(streamed(spark, broker.url, source), tmp_path / "old")
    target.run(streamed(spark, broker.url, source), tmp_path / "new")
    assert len(target.taken()) == 200
    queues.add(source, *numbers(100, 150))
    told = f"another query or job has taken over the transactionalId '{target.exchange}'.*give each its own"
    with pytest.raises(StreamingQueryException, match=told):
        target.run(streamed(spark, broker.url, source), tmp_path / "old")
    target.run(streamed(spark, broker.url, source), tmp_path / "new")
    assert target.taken() == list(range(100, 150))


def test_several_sinks_of_a_batch(
    spark: SparkSession, broker: BrokerProcess, queues: Queues, target: Target, tmp_path: Path
) -> None:
    """foreachBatch writes exactly once, to several places, when each has an id of its own and the batch's number."""
    source = queues.stream(*numbers(0, 10))
    failing = [True]

    def both(frame: DataFrame, batch_id: int) -> None:
        target.write(frame, transactionalId=f"{target.exchange}.all", batchId=str(batch_id))
        if failing:
            failing.clear()
            raise ValueError("between the sinks")
        odd = frame.where("cast(cast(body AS string) AS int) % 2 = 1")
        target.write(odd, transactionalId=f"{target.exchange}.odd", batchId=str(batch_id))

    def query() -> StreamingQuery:
        frame = streamed(spark, broker.url, source)
        return frame.writeStream.foreachBatch(both).option("checkpointLocation", str(tmp_path)).start()

    with pytest.raises(StreamingQueryException, match="between the sinks"):
        query().awaitTermination(PATIENCE_SECONDS)
    again = query()
    again.processAllAvailable()
    again.stop()
    assert target.taken() == sorted([*range(10), *range(1, 10, 2)])
