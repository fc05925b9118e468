"""spark.read.format("flintmq"): a range of a stream as a data frame."""

import random
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import flintmq.client as fc
from tests.servers import BrokerProcess, free_port
from tests.spark.conftest import Queues


@pytest.fixture
def read(spark: SparkSession, broker: BrokerProcess) -> "Read":
    return Read(spark, broker)


class Read:
    def __init__(self, spark: SparkSession, broker: BrokerProcess) -> None:
        self._spark = spark
        self._url = broker.url

    def __call__(self, queue: str, **options: str) -> DataFrame:
        return self._spark.read.format("flintmq").options(**{"url": self._url, "queue": queue, **options}).load()


def bodies(frame: DataFrame) -> list[bytes]:
    return [bytes(row.body) for row in frame.orderBy("offset").select("body").collect()]


def test_nodes_of_a_cluster(read: Read, queues: Queues, broker: BrokerProcess) -> None:
    """The driver and the tasks pass over a node that does not run."""
    queue = queues.stream(b"one", b"two")
    lost = f"amqp://guest:guest@127.0.0.1:{free_port()}/%2f"
    assert bodies(read(queue, url=f"{lost} {broker.url}")) == [b"one", b"two"]


def test_what_was_published(read: Read, queues: Queues) -> None:
    """Every message is read as it was published: empty, binary, of odd sizes, larger than a fetch; with its place."""
    chance = random.Random(5)  # noqa: S311 - a repeatable test
    exchange = queues.exchange()
    queue = queues.stream()
    queues.channel.bind(queue, exchange, "#")
    sent = [chance.randbytes(size) for size in (0, 1, 17, 255, 4096, 70_001, 300_000, 0, 3)]
    before = datetime.now(UTC)
    queues.channel.publish_batch([(exchange, f"key.{number}", body) for number, body in enumerate(sent)])
    rows = read(queue, fetchBytes="65536").orderBy("offset").collect()
    assert [bytes(row.body) for row in rows] == sent
    assert [row.offset for row in rows] == list(range(len(sent)))
    assert [row.routing_key for row in rows] == [f"key.{number}" for number in range(len(sent))]
    assert {(row.exchange, row.queue) for row in rows} == {(exchange, queue)}
    for row in rows:
        assert abs(row.timestamp.astimezone(UTC) - before).total_seconds() < 60


def test_headers_within_headers(read: Read, queues: Queues) -> None:
    """Headers that are nested as deep as they may be cost a reader no more than others."""
    value: object = "deep"
    for _ in range(63):
        value = {"a": value}
    queue = queues.stream()
    properties = fc.encode_properties(fc.Properties(headers={"h": value}))
    queues.channel.publish_batch([("", queue, b"", properties)] * 10)
    rows = read(queue, columns="headers, headers_typed").collect()
    assert len(rows) == 10
    for row in rows:
        assert row.headers["h"].count("deep") == row.headers_typed["h"].value.count("deep") == 1
        assert len(row.headers_typed["h"].value) < 2000


def test_ranges(read: Read, queues: Queues) -> None:
    """Options choose a range of offsets, from which nothing is missing and nothing else comes."""
    queue = queues.stream(*[b"%d" % number for number in range(100)])
    frame = read(queue, startingOffsets="13", endingOffsets="57")
    assert bodies(frame) == [b"%d" % number for number in range(13, 57)]
    assert read(queue, startingOffsets="57", endingOffsets="57").count() == 0
    assert read(queue, startingOffsets="latest").count() == 0
    with pytest.raises(Exception, match="start to offset 57 of the stream .* and the end to 13, which is before"):
        read(queue, startingOffsets="57", endingOffsets="13").collect()


def test_partitions(read: Read, queues: Queues) -> None:
    """A range is cut into as many partitions as asked for; together they are the range."""
    queue = queues.stream(*[b"%d" % number for number in range(100)])
    frame = read(queue, minPartitions="3", startingOffsets="1")
    assert frame.rdd.getNumPartitions() == 3
    assert bodies(frame) == [b"%d" % number for number in range(1, 100)]
    assert read(queue, maxMessagesPerPartition="10").rdd.getNumPartitions() == 10


def test_properties_and_headers(read: Read, queues: Queues) -> None:
    """Properties and headers are columns when they are asked for."""
    queue = queues.stream(b"plain")
    properties = fc.Properties(content_type="text/plain", message_id="m-1", headers={"tries": 3, "who": "ü"})
    queues.channel.publish_batch([("", queue, b"said", properties)])
    plain, said = read(queue, includeProperties="true", includeHeaders="true").orderBy("offset").collect()
    assert (plain.content_type, plain.message_id, plain.headers) == (None, None, None)
    assert (said.content_type, said.message_id, said.headers) == ("text/plain", "m-1", {"tries": "3", "who": "ü"})


def test_a_schema_of_the_users_own(spark: SparkSession, broker: BrokerProcess, queues: Queues) -> None:
    """Whoever needs few columns names them, and no others are made."""
    queue = queues.stream(b"a", b"b")
    reader = spark.read.format("flintmq").options(url=broker.url, queue=queue)
    frame = reader.schema("offset long, body binary, message_id string").load()
    assert sorted((row.offset, bytes(row.body), row.message_id) for row in frame.collect()) == [
        (0, b"a", None),
        (1, b"b", None),
    ]


def test_sql(spark: SparkSession, broker: BrokerProcess, queues: Queues) -> None:
    """A stream is a table in SQL."""
    queue = queues.stream(b"1", b"2", b"3")
    spark.sql(f"CREATE TEMPORARY VIEW numbers USING flintmq OPTIONS (url '{broker.url}', queue '{queue}')")
    assert spark.sql("SELECT sum(cast(cast(body AS string) AS int)) AS total FROM numbers").first() == (6,)


def test_the_password_is_in_no_plan(
    read: Read, spark: SparkSession, broker: BrokerProcess, queues: Queues, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither explain nor a failure shows the password."""
    queue = queues.stream(b"1")
    read(queue).explain(extended=True)
    plan = capsys.readouterr().out
    assert "flintmq" in plan
    assert "guest" not in plan
    wrong = broker.url.replace("guest:guest", "guest:secret")
    with pytest.raises(Exception, match="ACCESS_REFUSED") as failure:
        spark.read.format("flintmq").options(url=wrong, queue=queue).load().collect()
    assert "secret" not in str(failure.value)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffset": "1"}, r"no option startingoffset: did you mean startingOffsets\?"),
        ({"startingOffsets": "soon"}, "must be earliest, latest or an offset"),
        ({"url": ""}, "exactly one of the options url"),
    ],
)
def test_wrong_options(read: Read, queues: Queues, options: dict[str, str], expected: str) -> None:
    """A wrong option is one clear error, before anything is read."""
    with pytest.raises(AnalysisException, match=expected):
        read(queues.stream(), **options)


def test_several_streams(read: Read, queues: Queues) -> None:
    """Several streams are read as one: each row says from which, and offsets may be chosen for each."""
    first = queues.stream(*[b"a%d" % number for number in range(10)], name="first")
    second = queues.stream(*[b"b%d" % number for number in range(5)], name="second")
    frame = read(f"{first},{second}", startingOffsets=f'{{"{first}": 8, "{second}": "earliest"}}', minPartitions="3")
    rows = frame.orderBy("partition", "offset").collect()
    assert [(row.queue, row.partition, row.offset, bytes(row.body)) for row in rows] == [
        *[(first, 0, number, b"a%d" % number) for number in range(8, 10)],
        *[(second, 1, number, b"b%d" % number) for number in range(5)],
    ]


def test_columns_of_choice(read: Read, queues: Queues) -> None:
    """Columns are made by name; headers come with their types when they are asked for."""
    queue = queues.stream()
    queues.channel.publish_batch([("", queue, b"said", fc.Properties(headers={"tries": 3, "who": "ü"}))])
    frame = read(queue, columns="offset, headers_typed")
    assert frame.columns == ["offset", "headers_typed"]
    row = frame.collect()[0]
    assert {key: tuple(value) for key, value in row.headers_typed.items()} == {
        "tries": ("long", "3"),
        "who": ("string", "ü"),
    }


def test_a_queue_that_is_not_there(read: Read) -> None:
    """A queue that there is not is told by its name, and what to do."""
    with pytest.raises(Exception, match="no queue 'missing' in vhost '/': declare it, or correct the name"):
        read("missing").collect()


def test_url_from_a_file(spark: SparkSession, broker: BrokerProcess, queues: Queues, tmp_path: Path) -> None:
    """The URL may stand in a file, and then is nowhere in Spark."""
    queue = queues.stream(b"1")
    (tmp_path / "url").write_text(broker.url)
    frame = spark.read.format("flintmq").options(urlFile=str(tmp_path / "url"), queue=queue).load()
    assert frame.count() == 1


def test_nobody_there(spark: SparkSession) -> None:
    """A broker that cannot be reached is told at once, without the password."""
    frame = spark.read.format("flintmq").options(url="amqp://u:secret@127.0.0.1:1/", queue="q").load()
    with pytest.raises(Exception, match=r"no connection to 127\.0\.0\.1:1.*: is the broker running") as failure:
        frame.collect()
    assert "secret" not in str(failure.value)
    assert "Traceback" not in str(failure.value)
