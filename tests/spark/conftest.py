"""A broker, and Spark as its users run it: in one process, and as a small cluster."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

import flintmq
import flintmq.client as fc
from prerequisites import JAVA_PACKAGE, has_java
from tests.servers import BrokerProcess
from tests.spark.jvm import prepare_environment

# What the packages under test are imported from: executors have no other way to learn it.
PACKAGES = str(Path(flintmq.__file__).parents[1])
# Of a query, and of a test. On a busy machine, a JVM takes a minute to start, and Spark's workers another one.
PATIENCE_SECONDS: Final = 150
TEST_SECONDS: Final = 400

prepare_environment()

Settings = dict[str, bool | float | int | str | None]


class Queues:
    """Streams and exchanges of one test, which others cannot have met."""

    def __init__(self, channel: fc.Channel, prefix: str) -> None:
        self.channel = channel
        self._prefix = prefix

    def stream(self, *bodies: bytes, name: str = "stream") -> str:
        """Declare a stream of these messages, which are sent to it directly."""
        queue = f"{self._prefix}.{name}"
        self.channel.declare_queue(queue, arguments={"x-queue-type": "stream"})
        self.add(queue, *bodies)
        return queue

    def add(self, queue: str, *bodies: bytes) -> None:
        self.channel.publish_batch([("", queue, body) for body in bodies])

    def exchange(self, type: str = "topic") -> str:
        name = f"{self._prefix}.exchange"
        self.channel.declare_exchange(name, type=type)
        return name

    def bound(
        self, exchange: str, routing_key: str = "#", name: str = "bound", arguments: dict[str, object] | None = None
    ) -> str:
        """A queue of what comes to this exchange."""
        queue = f"{self._prefix}.{name}"
        self.channel.declare_queue(queue, arguments=arguments)
        self.channel.bind(queue, exchange, routing_key)
        return queue

    def taken(self, queue: str) -> list[fc.Delivery]:
        """All messages of a queue, and there is none left."""
        count = self.channel.declare_queue(queue, passive=True).message_count
        found: list[fc.Delivery] = []
        while len(found) < count:
            message = self.channel.get(queue, no_ack=True)
            assert message is not None
            found.append(message)
        return found


@pytest.fixture(scope="session")
def broker(broker: BrokerProcess) -> BrokerProcess:
    """BROKER_URL is set before there is a JVM: what plans queries has the environment that it was started with."""
    os.environ["BROKER_URL"] = broker.url
    return broker


@pytest.fixture
def queues(broker: BrokerProcess, request: pytest.FixtureRequest) -> Iterator[Queues]:
    with fc.connect(broker.url) as connection, connection.channel(confirms=True) as channel:
        yield Queues(channel, f"{request.path.stem}.{request.node.name}")


class Sessions:
    """One at a time: the one that is there, if it has the master that is asked for. Its workers are warm by then."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._master = ""
        self._session: SparkSession | None = None

    def get(self, master: str, settings: Settings) -> SparkSession:
        if self._session is None or self._master != master:
            self.stop()
            self._session = _session(master, self._directory / master.partition("[")[0], settings)
            self._master = master
        return self._session

    def stop(self) -> None:
        if self._session is not None:
            self._session.stop()
            self._session = None


@pytest.fixture(scope="session")
def sessions(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    made = Sessions(tmp_path_factory.mktemp("spark"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def spark(sessions: Sessions) -> SparkSession:
    """Two tasks at a time, in the driver's process."""
    return sessions.get("local[2]", {})


@pytest.fixture(scope="module")
def cluster(broker: BrokerProcess, sessions: Sessions) -> SparkSession:
    """Two executors in processes of their own, to which readers and writers travel. They know BROKER_URL too."""
    environment: Settings = {"spark.executorEnv.PYTHONPATH": PACKAGES, "spark.executorEnv.BROKER_URL": broker.url}
    return sessions.get("local-cluster[2,1,1024]", environment)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives these tests their time, and skips them where there is no Java.

    Those that need the cluster run last, so that it is started once.
    """
    ours = [item for item in items if item.path.is_relative_to(Path(__file__).parent)]
    for item in ours:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_SECONDS))
    if not has_java():
        for item in ours:
            item.add_marker(pytest.mark.skip(f"Java is not installed: apt-get install {JAVA_PACKAGE}"))
    items.sort(key=lambda item: "cluster" in getattr(item, "fixturenames", ()))


def _session(master: str, directory: Path, settings: Settings) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = (
        SparkSession.builder.master(master)
        .appName("tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executor.memory", "512m")
        .config("spark.local.dir", str(directory / "local"))
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config(map=settings)
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session
