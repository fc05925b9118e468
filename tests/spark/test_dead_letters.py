"""Dead letters in the lake: why they died, as columns, and some of them back where they died."""

import time
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import flintmq.client as fc
from flintmq.base.errors import ConfigurationError
from flintmq.spark.lake.dead_letters import capture_dead_letters, redrive, summary, with_deaths
from tests.servers import BrokerProcess
from tests.spark.conftest import PATIENCE_SECONDS, Queues
from tests.spark.lakes import rows


class Graveyard:
    """Two queues whose messages die, the queue where they go, and the lake that it is captured into."""

    def __init__(self, spark: SparkSession, url: str, queues: Queues, directory: Path) -> None:
        self.spark = spark
        self.url = url
        self.directory = directory
        self.path = directory / "lake"
        self.channel = queues.channel
        self.exchange = queues.exchange()
        self.letters = f"{self.exchange}.letters"
        self.channel.declare_queue(self.letters)
        self.queues = [f"{self.exchange}.{name}" for name in ("orders", "bills")]
        for queue, limit in zip(self.queues, (None, 2), strict=True):
            arguments: dict[str, object] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": self.letters}
            if limit is not None:
                arguments |= {"x-max-length": limit}
            self.channel.declare_queue(queue, arguments=arguments)
            self.channel.bind(queue, self.exchange, queue.rpartition(".")[2])

    def die(self) -> None:
        """Six orders are rejected, and of five bills three have no room."""
        said = fc.Properties(headers={"tenant": 7})
        self.channel.publish_batch([(self.exchange, "orders", b"order-%d" % n, said) for n in range(6)])
        self.channel.publish_batch([(self.exchange, "bills", b"bill-%d" % n, said) for n in range(5)])
        for _ in range(6):
            message = self.channel.get(self.queues[0])
            assert message is not None
            self.channel.nack(message.delivery_tag, requeue=False)
        while self.channel.declare_queue(self.letters, passive=True).message_count < 9:
            time.sleep(0.05)

    def capture(self) -> None:
        query = capture_dead_letters(
            self.spark,
            {"url": self.url, "queue": self.letters, "consumerName": "graveyard"},
            {"path": str(self.path)},
            checkpoint=str(self.directory / "capturing"),
            available_now=True,
        )
        assert query.awaitTermination(PATIENCE_SECONDS)

    def redrive(self, where: str, checkpoint: str, *, to_exchange: bool = False) -> None:
        query = redrive(
            self.spark,
            {"path": str(self.path)},
            {"url": self.url},
            checkpoint=str(self.directory / checkpoint),
            where=where,
            to_exchange=to_exchange,
        )
        assert query.awaitTermination(PATIENCE_SECONDS)

    def read(self) -> DataFrame:
        return self.spark.read.format("flintmq_lake").option("path", str(self.path)).load()


@pytest.fixture
def graveyard(spark: SparkSession, broker: BrokerProcess, queues: Queues, tmp_path: Path) -> Graveyard:
    return Graveyard(spark, broker.url, queues, tmp_path)


def test_triage(graveyard: Graveyard, queues: Queues) -> None:
    """Letters are captured with why they died, counted by that, and a selection goes back to the queue where it died,
    once, without its history and with its headers.
    """
    orders, bills = graveyard.queues
    graveyard.die()
    graveyard.capture()
    found = rows(graveyard.path, "parquet", "body", "death_reason", "death_queue", "death_exchange", "death_count")
    assert found == sorted(
        [(b"order-%d" % n, "rejected", orders, graveyard.exchange, 1) for n in range(6)]
        + [(b"bill-%d" % n, "maxlen", bills, graveyard.exchange, 1) for n in range(3)]
    )
    assert [tuple(row)[:6] for row in summary(graveyard.read()).collect()] == [
        ("rejected", orders, graveyard.exchange, "orders", 6, 1),
        ("maxlen", bills, graveyard.exchange, "bills", 3, 1),
    ]
    for _ in range(2):
        graveyard.redrive("death_reason = 'rejected' AND body != 'order-3'", "first")
    back = queues.taken(orders)
    assert sorted(message.body for message in back) == [b"order-%d" % n for n in (0, 1, 2, 4, 5)]
    assert {repr(message.properties.headers) for message in back} == {repr({"tenant": 7})}
    assert len(queues.taken(bills)) == 2
    graveyard.redrive("body = 'bill-1'", "second", to_exchange=True)
    (again,) = queues.taken(bills)
    assert (again.body, again.exchange, again.routing_key) == (b"bill-1", graveyard.exchange, "bills")


def test_messages_without_deaths(spark: SparkSession) -> None:
    """A message that never died has no death, and one that others say died does no harm."""
    frame = spark.sql(
        """SELECT * FROM VALUES (1, map('x-death', 'nonsense')), (2, NULL), (3, map('a', 'b')),
           (4, map('x-death', '[{"reason": "expired", "queue": "q", "count": 3, "time": 60, "routing-keys": ["k"]}]'))
           AS t(n, headers)"""
    )
    found = with_deaths(frame).selectExpr("n", "death_reason", "death_count", "unix_seconds(death_time) AS time")
    assert [tuple(row) for row in found.orderBy("n").collect()] == [
        (1, None, None, None),
        (2, None, None, None),
        (3, None, None, None),
        (4, "expired", 3, 60),
    ]


def test_what_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    """Letters need their headers, and a redrive a selection."""
    with pytest.raises(ConfigurationError, match="has no column headers"):
        with_deaths(spark.range(1))
    with pytest.raises(ConfigurationError, match="say which dead letters go back"):
        redrive(spark, {"path": str(tmp_path)}, {}, checkpoint="x", where=" ")
