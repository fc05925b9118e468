"""The source under Spark's own order of calls, without Spark: a driver that may die between any two of them.

What Spark does was traced: a batch's end is in its log before the batch runs, and the batch in its other log behind it;
the start of the first one is in neither. A sink that knows batches by their numbers, as files do, takes each once.
"""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

import flintmq.client as fc
from flintmq.spark.columns import read_schema
from flintmq.spark.errors import QueryFailed
from flintmq.spark.source.options import stream_read_options
from flintmq.spark.source.queue_source import BatchUnread
from flintmq.spark.source.reader import StreamReader
from tests.servers import BrokerProcess, free_port

PERSISTENT = fc.encode_properties(fc.Properties(delivery_mode=2))
SCHEMA = read_schema(["offset", "body", "queue", "generation"])


class Died(Exception):
    """The driver is no more."""


class Checkpoint:
    """What outlives a driver: Spark's two logs, and the sink's batches."""

    def __init__(self) -> None:
        self.offsets: list[str] = []
        self.commits = 0
        self.batches: dict[int, list[bytes]] = {}
        self.generations: set[int | None] = set()
        # Numbers of batches that the sink has of another query.
        self.known: frozenset[int] = frozenset()

    @property
    def bodies(self) -> list[bytes]:
        return [body for number in sorted(self.batches) for body in self.batches[number]]


class Driver:
    """One life of it. `step` is called between all that it does."""

    def __init__(self, url: str, checkpoint: Checkpoint, step: Callable[[], None], **options: str) -> None:
        given = stream_read_options({"url": url, "minPartitions": "3", **options})
        self.reader = StreamReader(given, SCHEMA)
        self._checkpoint = checkpoint
        self._step = step

    def run(self) -> None:
        """All that is there when it begins."""
        kept = self._checkpoint
        self.reader.prepareForTriggerAvailableNow()
        if len(kept.offsets) == kept.commits:
            self._plan()
        while len(kept.offsets) > kept.commits:
            self._run_batch(kept.commits)
            if not self._plan():
                return

    def _start(self, number: int) -> str:
        return self._checkpoint.offsets[number - 1] if number else json.dumps(self.reader.initialOffset())

    def _plan(self) -> bool:
        """Whether there is one more batch: all before are done."""
        kept = self._checkpoint
        start = self._start(kept.commits)
        self._step()
        end = json.dumps(self.reader.latestOffset(json.loads(start), self.reader.getDefaultReadLimit()))
        self._step()
        if end == start:
            return False
        kept.offsets.append(end)
        self._step()
        if kept.commits:
            self.reader.commit(json.loads(kept.offsets[kept.commits - 1]))
            self._step()
        return True

    def _run_batch(self, number: int) -> None:
        kept = self._checkpoint
        start, end = json.loads(self._start(number)), json.loads(kept.offsets[number])
        found: list[bytes] = []
        partitions = self.reader.partitions(start, end)
        for partition in partitions if number not in kept.known else ():
            self._step()
            for batch in self.reader.read(partition):
                kept.generations.update(batch.column("generation").to_pylist())
                found += batch.column("body").to_pylist()
        self._step()
        kept.batches.setdefault(number, found)
        self._step()
        kept.commits = number + 1
        self._step()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("batches"), FLINTMQ_LISTEN_PORT=str(free_port())) as process:
        yield process


def publish(broker: BrokerProcess, queue: str, start: int, end: int, kind: str = "classic") -> None:
    with fc.connect(broker.url) as connection, connection.channel(confirms=True) as channel:
        channel.declare_queue(queue, arguments={"x-queue-type": kind})
        channel.publish_batch([("", queue, b"%d" % number, PERSISTENT) for number in range(start, end)])


def left(broker: BrokerProcess, queue: str) -> int:
    with fc.connect(broker.url) as connection, connection.channel() as channel:
        return channel.declare_queue(queue, passive=True).message_count


def numbers(bodies: list[bytes]) -> list[int]:
    return [int(body) for body in bodies]


def nothing() -> None:
    """Nobody dies."""


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
@pytest.mark.parametrize("seed", range(2))
def test_drivers_that_die(broker: BrokerProcess, kind: str, seed: int) -> None:
    """Wherever a driver dies, and the broker with it now and then, each message is in exactly one batch."""
    rng = random.Random(seed)  # noqa: S311 - a case to be repeated
    queue = f"dying.{kind}.{seed}"
    publish(broker, queue, 0, 300, kind)
    options = {"queue": queue, "maxMessagesPerTrigger": "70"}
    options |= {"startingOffsets": "earliest"} if kind == "stream" else {"consumerName": "c"}
    checkpoint = Checkpoint()
    sent, deaths = 300, 0

    def step() -> None:
        if rng.random() < 0.06:
            raise Died

    while deaths < 15:
        driver = Driver(broker.url, checkpoint, step, **options)
        try:
            driver.run()
            publish(broker, queue, sent, sent + 100, kind)
            sent += 100
        except Died:
            deaths += 1
            driver.reader.stop()
            if rng.random() < 0.15:
                broker.kill()
                broker.start()
    Driver(broker.url, checkpoint, nothing, **options).run()
    assert numbers(checkpoint.bodies) == list(range(sent))
    if kind != "stream":
        assert left(broker, queue) == 0


def test_a_broker_that_dies_under_a_driver(tmp_path: Path) -> None:
    """A broker that is killed between any two calls is found again by the same driver, and nothing is read twice."""
    with BrokerProcess(tmp_path / "data", FLINTMQ_LISTEN_PORT=str(free_port())) as broker:
        publish(broker, "q", 0, 300)
        rng = random.Random(1)  # noqa: S311 - a case to be repeated

        def step() -> None:
            if rng.random() < 0.1:
                broker.kill()
                broker.start()

        checkpoint = Checkpoint()
        Driver(broker.url, checkpoint, step, queue="q", consumerName="c", maxMessagesPerTrigger="60").run()
        assert numbers(checkpoint.bodies) == list(range(300))
        assert left(broker, "q") == 0


def test_a_queue_and_streams_as_one(broker: BrokerProcess) -> None:
    """Queues of different kinds are one source, and a limit is shared out among them."""
    publish(broker, "mixed.q", 0, 100)
    publish(broker, "mixed.s", 100, 400, "stream")
    checkpoint = Checkpoint()
    options = {"queue": "mixed.q,mixed.s", "consumerName": "c", "maxMessagesPerTrigger": "40"}
    Driver(broker.url, checkpoint, nothing, startingOffsets="earliest", **options).run()
    assert sorted(numbers(checkpoint.bodies)) == list(range(400))
    assert [len(bodies) for bodies in checkpoint.batches.values()] == [40] * 10


def test_nothing_is_settled_before_spark_has_it(broker: BrokerProcess) -> None:
    """What a batch holds stays leased until the next one is asked for, the last one included."""
    publish(broker, "settling", 0, 30)
    given = stream_read_options({"url": broker.url, "queue": "settling", "consumerName": "c"})
    reader = StreamReader(given, SCHEMA)
    start = reader.initialOffset()
    first = reader.latestOffset(start, ReadMaxRows(10))
    with fc.connect(broker.url) as connection, connection.channel() as channel:
        assert channel.lease_fetch("settling", "c", 0, 10).record_count == 10
        second = reader.latestOffset(first, ReadAllAvailable())
        assert second["offsets"] == {"settling": 30}
        assert channel.lease_fetch("settling", "c", 10, 30).record_count == 20
        with pytest.raises(fc.ChannelClosed, match="the first one leased is 10"):
            channel.lease_fetch("settling", "c", 0, 10)
    reader.stop()


def test_a_new_checkpoint_at_the_same_position(broker: BrokerProcess) -> None:
    """Positions of the new lease are not compared with those of the old one: as many messages again are all read."""
    options = {"queue": "anew", "consumerName": "c"}
    publish(broker, "anew", 0, 150)
    older = Checkpoint()
    Driver(broker.url, older, nothing, **options).run()
    publish(broker, "anew", 150, 300)
    anew = Checkpoint()
    Driver(broker.url, anew, nothing, **options).run()
    assert numbers(older.bodies) == list(range(150))
    assert numbers(anew.bodies) == list(range(150, 300))
    assert len(older.generations) == len(anew.generations) == 1
    assert older.generations.isdisjoint(anew.generations)
    assert left(broker, "anew") == 0


def test_batches_that_the_sink_left_out(broker: BrokerProcess) -> None:
    """What Spark commits and no task has read is not settled: the query ends with an error, as often as it is started,
    and a new checkpoint and a new sink get all of it.
    """
    options = {"queue": "skipped", "consumerName": "c", "maxMessagesPerTrigger": "100"}
    publish(broker, "skipped", 0, 150)
    anew = Checkpoint()
    anew.known = frozenset({0, 1})
    for _ in range(2):
        with pytest.raises(BatchUnread, match="a batch of 100 messages of queue 'skipped' that none of its tasks"):
            Driver(broker.url, anew, nothing, **options).run()
        broker.kill()
        broker.start()
    fresh = Checkpoint()
    Driver(broker.url, fresh, nothing, **options).run()
    assert sorted(numbers(fresh.bodies)) == list(range(150))
    assert left(broker, "skipped") == 0


def test_a_batch_that_was_read_before_the_broker_restarted(broker: BrokerProcess) -> None:
    """That tasks have read a batch is known for good, whoever is killed before Spark asks for the next one."""
    publish(broker, "known", 0, 50)
    checkpoint = Checkpoint()
    died = False

    def step() -> None:
        nonlocal died
        if checkpoint.commits and not died:
            died = True
            broker.kill()
            broker.start()
            raise Died

    options = {"queue": "known", "consumerName": "c"}
    with pytest.raises(Died):
        Driver(broker.url, checkpoint, step, **options).run()
    Driver(broker.url, checkpoint, step, **options).run()
    assert numbers(checkpoint.bodies) == list(range(50))
    assert left(broker, "known") == 0


def test_batches_that_nobody_needs(broker: BrokerProcess) -> None:
    """Where the user says so, a batch is settled that no task has read."""
    publish(broker, "unneeded", 0, 50)
    checkpoint = Checkpoint()
    checkpoint.known = frozenset({0})
    Driver(broker.url, checkpoint, nothing, queue="unneeded", consumerName="c", settleUnread="true").run()
    with fc.connect(broker.url) as connection, connection.channel() as channel:
        assert channel.lease_query("unneeded", "c").first == 50


def test_a_stream_that_was_made_anew_ends_where_the_old_one_did(broker: BrokerProcess) -> None:
    """A query that may lose data reads the new stream, although it has as many messages as the old one had."""
    options = {"queue": "twice", "startingOffsets": "earliest", "failOnDataLoss": "false"}
    publish(broker, "twice", 0, 50, "stream")
    checkpoint = Checkpoint()
    Driver(broker.url, checkpoint, nothing, **options).run()
    with fc.connect(broker.url) as connection, connection.channel() as channel:
        channel.delete_queue("twice")
    publish(broker, "twice", 50, 100, "stream")
    Driver(broker.url, checkpoint, nothing, **options).run()
    assert numbers(checkpoint.bodies) == list(range(100))


def test_an_older_driver_is_told(broker: BrokerProcess) -> None:
    """Of two drivers with one consumerName the older one ends, whatever it does next."""
    publish(broker, "fenced", 0, 30)
    options = {"queue": "fenced", "consumerName": "c", "maxMessagesPerTrigger": "10"}
    older = Driver(broker.url, Checkpoint(), nothing, **options).reader
    start = older.initialOffset()
    end = older.latestOffset(start, ReadMaxRows(10))
    checkpoint = Checkpoint()
    Driver(broker.url, checkpoint, nothing, **options).run()
    assert numbers(checkpoint.bodies) == list(range(30))
    for call in (
        lambda: older.latestOffset(end, ReadMaxRows(10)),
        lambda: older.partitions(start, end),
        older.reportLatestOffset,
    ):
        with pytest.raises(
            QueryFailed, match="another query has begun to read queue 'fenced' with the consumerName 'c'"
        ):
            call()
