"""format("flintmq") as a sink: every row a message, confirmed before its task is done."""

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from flintmq.spark.data_source import FlintMQDataSource
from tests.servers import BrokerProcess
from tests.spark.conftest import PATIENCE_SECONDS, Queues


class Write:
    def __init__(self, url: str) -> None:
        self._url = url

    def __call__(self, frame: DataFrame, **options: str) -> None:
        frame.write.format("flintmq").options(**{"url": self._url, **options}).mode("append").save()


@pytest.fixture
def write(broker: BrokerProcess) -> Write:
    return Write(broker.url)


def test_rows_arrive(spark: SparkSession, write: Write, queues: Queues) -> None:
    """Every row of every partition is a message where the options say, persistent unless they say otherwise."""
    exchange = queues.exchange()
    queue = queues.bound(exchange)
    frame = spark.range(0, 25_000, 1, 4).selectExpr("cast(id AS string) AS body")
    write(frame, exchange=exchange, routingKey="some.key", batchSize="1000")
    messages = queues.taken(queue)
    assert sorted(int(message.body) for message in messages) == list(range(25_000))
    assert {message.routing_key for message in messages} == {"some.key"}
    assert {message.properties.delivery_mode for message in messages} == {2}


def test_columns(spark: SparkSession, write: Write, queues: Queues) -> None:
    """A row says where it goes and what its properties are."""
    exchange = queues.exchange()
    queue = queues.bound(exchange, "a.#")
    frame = spark.createDataFrame(
        [
            (bytearray(b"\x00\xff"), "a.1", "m-1", {"k": "v"}),
            (bytearray(b""), "a.2", None, None),
            (bytearray(b"lost"), "b.1", None, None),
        ],
        "body binary, routing_key string, message_id string, headers map<string,string>",
    )
    write(frame.coalesce(1), exchange=exchange, contentType="application/x", persistent="false")
    first, second = queues.taken(queue)
    assert (first.body, first.routing_key) == (b"\x00\xff", "a.1")
    assert (first.properties.message_id, first.properties.headers) == ("m-1", {"k": "v"})
    assert (second.body, second.properties.message_id, second.properties.headers) == (b"", None, None)
    assert {m.properties.delivery_mode for m in (first, second)} == {1}
    assert {m.properties.content_type for m in (first, second)} == {"application/x"}


def test_no_rows(spark: SparkSession, write: Write, queues: Queues) -> None:
    """Nothing to publish is no error."""
    write(spark.range(0).selectExpr("cast(id AS string) AS body"), exchange=queues.exchange())


def test_refused_before_anything_is_published(spark: SparkSession, write: Write, queues: Queues) -> None:
    """Wrong options, columns and modes are refused while the job is planned."""
    exchange = queues.exchange()
    queue = queues.bound(exchange)
    frame = spark.sql("SELECT 'x' AS body")
    with pytest.raises(Exception, match="no option routingkeys: did you mean routingKey"):
        write(frame, exchange=exchange, routingKeys="1")
    with pytest.raises(Exception, match="routingkey is nothing that a message has"):
        write(frame.selectExpr("body", "'k' AS routingkey"), exchange=exchange)
    with pytest.raises(Exception, match="cannot be overwritten"):
        frame.write.format("flintmq").option("url", "amqp://h/").mode("overwrite").save()
    assert queues.taken(queue) == []


def test_what_was_read_can_be_written(spark: SparkSession, write: Write, broker: BrokerProcess, queues: Queues) -> None:
    """Replaying a stream needs no transformation: rows carry their address."""
    source = queues.stream()
    exchange = queues.exchange()
    queues.channel.bind(source, exchange, "#")
    queues.channel.publish_batch([(exchange, f"k.{number}", b"%d" % number) for number in range(10)])
    again = queues.bound(exchange)
    frame = spark.read.format("flintmq").options(url=broker.url, queue=source, includeProperties="true").load()
    write(frame.coalesce(1))
    assert [(m.routing_key, m.body) for m in queues.taken(again)] == [(f"k.{n}", b"%d" % n) for n in range(10)]


def test_a_failing_sink_fails_its_query(
    spark: SparkSession, broker: BrokerProcess, queues: Queues, tmp_path: Path
) -> None:
    """A micro-batch that cannot be published ends its query with the reason; nothing is skipped."""
    frame = spark.readStream.format("flintmq")
    stream = frame.options(url=broker.url, queue=queues.stream(b"1"), startingOffsets="earliest").load()
    query = (
        stream.writeStream.format("flintmq")
        .options(url=broker.url, exchange="nowhere", checkpointLocation=str(tmp_path / "checkpoint"))
        .start()
    )
    with pytest.raises(StreamingQueryException, match="no exchange 'nowhere'"):
        query.awaitTermination(PATIENCE_SECONDS)


def test_registered_by_hand(spark: SparkSession, write: Write, queues: Queues) -> None:
    """Where Spark cannot search for modules, registering the class does the same."""
    spark.dataSource.register(FlintMQDataSource)
    exchange = queues.exchange()
    queue = queues.bound(exchange)
    write(spark.sql("SELECT 'x' AS body"), exchange=exchange)
    assert len(queues.taken(queue)) == 1
