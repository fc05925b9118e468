"""The lake back to an exchange: what was captured is published again, once, and at a rate if that is asked for."""

import time
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import flintmq.client as fc
from flintmq.base.errors import ConfigurationError
from flintmq.spark.lake.capture import capture
from flintmq.spark.lake.replay import replay
from tests.servers import BrokerProcess
from tests.spark.conftest import PATIENCE_SECONDS, Queues
from tests.spark.lakes import FORMATS


class Replays:
    """A lake, and what replaying it needs."""

    def __init__(self, spark: SparkSession, url: str, directory: Path) -> None:
        self.spark = spark
        self.url = url
        self.lake = {"path": str(directory / "lake")}
        self.directory = directory

    def capture(self, queue: str, format: str = "parquet") -> None:
        query = capture(
            self.spark,
            {"url": self.url, "queue": queue},
            {**self.lake, "lakeFormat": format},
            checkpoint=str(self.directory / "capturing"),
            available_now=True,
        )
        assert query.awaitTermination(PATIENCE_SECONDS)

    def numbers(self, count: int) -> None:
        """A lake that no queue was captured into."""
        frame = self.spark.range(0, count, 1, 4).selectExpr(
            "id AS offset", "cast(cast(id AS string) AS binary) AS body"
        )
        frame.write.format("flintmq_lake").options(**self.lake).mode("append").save()

    def __call__(
        self, where: str = "", body: str = "", lake: dict[str, str] | None = None, **target: str
    ) -> StreamingQuery:
        query = replay(
            self.spark,
            {**self.lake, **(lake or {})},
            {"url": self.url, **target},
            checkpoint=str(self.directory / "replaying"),
            where=where,
            body=body,
        )
        assert query.awaitTermination(PATIENCE_SECONDS)
        return query


@pytest.fixture
def replays(spark: SparkSession, broker: BrokerProcess, tmp_path: Path) -> Replays:
    return Replays(spark, broker.url, tmp_path)


@pytest.mark.parametrize("format", FORMATS)
def test_as_it_was(replays: Replays, queues: Queues, format: str) -> None:
    """Each message goes where it went, with all its publisher said of it, in the types that it had."""
    exchange = queues.exchange()
    queue = queues.stream()
    queues.channel.bind(queue, exchange, "#")
    said = fc.Properties(
        content_type="a/b", message_id="m", delivery_mode=2, headers={"n": 1, "deep": {"list": [True, b"\xff"]}}
    )
    queues.channel.publish_batch([(exchange, f"k.{n}", b"\x00%d" % n, said) for n in range(20)])
    replays.capture(queue, format)
    again = queues.bound(exchange)
    replays()
    messages = queues.taken(again)
    assert [(message.routing_key, message.body) for message in messages] == [
        (f"k.{n}", b"\x00%d" % n) for n in range(20)
    ]
    assert {repr(message.properties) for message in messages} == {repr(said)}


def test_a_selection_elsewhere(replays: Replays, queues: Queues) -> None:
    """Rows are chosen by SQL, bodies made by SQL, and the target's options say where they go."""
    replays.numbers(10)
    exchange = queues.exchange()
    queue = queues.bound(exchange)
    replays("offset >= 7", "to_json(struct(offset))", exchange=exchange, routingKey="again")
    assert [(m.routing_key, m.body) for m in queues.taken(queue)] == [
        ("again", b'{"offset":%d}' % n) for n in range(7, 10)
    ]


def test_some_partitions(replays: Replays, queues: Queues) -> None:
    """What is in other partitions is not read: not by a replay, and not by batch queries of one data frame."""
    frame = replays.spark.range(9).selectExpr(
        "id AS offset",
        "cast(cast(id AS string) AS binary) AS body",
        "date_add(DATE'2026-11-01', cast(id % 3 AS int)) AS day",
    )
    frame.write.format("flintmq_lake").options(**replays.lake, partitionBy="day").mode("append").save()
    for file in Path(replays.lake["path"], "day=2026-11-01").glob("*.parquet"):
        file.unlink()
    chosen = {"partitions": "day=2026-11-02,2026-11-03"}
    exchange = queues.exchange()
    queue = queues.bound(exchange)
    replays(lake=chosen, exchange=exchange)
    assert sorted(message.body for message in queues.taken(queue)) == [b"1", b"2", b"4", b"5", b"7", b"8"]
    read = replays.spark.read.format("flintmq_lake").options(**replays.lake, **chosen).load()
    assert read.where("day = '2026-11-02'").count() == 3
    assert read.count() == 6
    options = f"path '{replays.lake['path']}', partitions 'day>2026-11-02'"
    replays.spark.sql(f"CREATE TEMPORARY VIEW some USING flintmq_lake OPTIONS ({options})")
    assert replays.spark.table("some").count() == 3
    with pytest.raises(Exception, match="names the column hour, by which the lake is not partitioned: choose from day"):
        replays.spark.read.format("flintmq_lake").options(**replays.lake, partitions="hour=1").load().count()


def test_one_that_is_stopped(replays: Replays, queues: Queues) -> None:
    """A replay that fails on its way goes on where it was, in the version it began with, and repeats nothing."""
    replays.numbers(1000)
    exchange = f"{queues.stream()}.later"
    options = {"maxRowsPerTrigger": "300"}
    queues.channel.declare_exchange(exchange, type="topic")
    queue = queues.bound(exchange)
    queues.channel.publish_batch([(exchange, "", b"before")])
    with pytest.raises(StreamingQueryException, match="not this one"):
        replays(body="if(offset = 700, raise_error('not this one'), body)", lake=options, exchange=exchange)
    replays.numbers(5)
    replays(lake=options, exchange=exchange)
    replays(lake=options, exchange=exchange)
    found = [message.body for message in queues.taken(queue)]
    assert sorted(found[1:], key=int) == [b"%d" % n for n in range(1000)]


def test_a_rate(replays: Replays, queues: Queues) -> None:
    """So many messages in a second and no more, from the first to the last."""
    replays.numbers(100)
    exchange = queues.exchange()
    queue = queues.bound(exchange)
    began = time.monotonic()
    query = replays(lake={"rowsPerSecond": "25"}, exchange=exchange)
    assert time.monotonic() - began > 3
    assert [progress.numInputRows for progress in query.recentProgress if progress.numInputRows] == [25] * 4
    assert len(queues.taken(queue)) == 100


def test_what_is_missing(replays: Replays, queues: Queues) -> None:
    """A lake without bodies or addresses is refused before anything is published, and so is one that is not there."""
    with pytest.raises(Exception, match="there is no lake in"):
        replays(exchange="x")
    replays.numbers(1)
    with pytest.raises(ConfigurationError, match="the lake has no column exchange: say where to publish"):
        replays()
    replays.lake["path"] += ".other"
    frame = replays.spark.sql("SELECT 1 AS n")
    frame.write.format("flintmq_lake").options(**replays.lake).mode("append").save()
    with pytest.raises(ConfigurationError, match="the lake has no column body"):
        replays(exchange=queues.exchange())
