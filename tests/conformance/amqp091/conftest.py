"""Brokers of each dialect, and clients for each test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flintmq.server.config import Settings
from tests.conformance.amqp091.peer import Peer
from tests.conformance.brokers import Broker, MemoryBroker, ProcessBroker
from tests.servers import BrokerProcess

Connect = Callable[..., Peer]


@pytest.fixture(scope="session", params=["strict", "rabbitmq"])
def dialect(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
def strict(dialect: str) -> bool:
    """Whether the specification wins where RabbitMQ differs."""
    return dialect == "strict"


_SETTINGS = """
[[vhosts]]
name = "/"
dialect = "{dialect}"
[[vhosts]]
name = "other"
dialect = "{dialect}"
[[users]]
name = "guest"
password = "guest"
vhosts = ["/", "other"]
[[users]]
name = "limited"
password = "limited"
vhosts = ["/"]
"""


@pytest.fixture(scope="session")
def settings(dialect: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two virtual hosts of the dialect, and a user for both beside one for the first only."""
    file = tmp_path_factory.mktemp(dialect) / "flintmq.toml"
    file.write_text(_SETTINGS.format(dialect=dialect))
    return file


@pytest.fixture(scope="session")
def process(settings: Path) -> Iterator[ProcessBroker]:
    with ProcessBroker(settings.with_name("data"), "--config", str(settings)) as running:
        yield running
        internal = [line for line in running.log if line["event"].startswith("internal error")]
        assert not internal, internal
        assert running.stop() == 0


@pytest.fixture
def full_disk(loaded: Settings) -> Iterator[MemoryBroker]:
    """A broker that is low on disk space: publishers wait."""
    with MemoryBroker(loaded, "low on disk") as running:
        yield running


@pytest.fixture
def small_memory(settings: Path, tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that has room for some tens of megabytes of messages: then publishers wait."""
    limit = str(100_000_000)
    arguments = ("--config", str(settings))
    with BrokerProcess(tmp_path / "small", *arguments, FLINTMQ_ALARMS_MEMORY_HIGH_WATERMARK=limit) as running:
        yield running


@pytest.fixture
def tight(settings: Path, tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that has a megabyte for the messages of deep queues, and journal files of a megabyte."""
    with BrokerProcess(
        tmp_path / "tight",
        *("--config", str(settings)),
        FLINTMQ_STORAGE_QUEUE_MEMORY="1000000",
        FLINTMQ_STORAGE_SEGMENT_BYTES="1000000",
    ) as running:
        yield running


@pytest.fixture
def connect(broker: Broker) -> Iterator[Connect]:
    """Connections to the broker, hung up behind the test. Flags are capabilities of the client."""
    made: list[Peer] = []

    def connect(vhost: str = "/", **capabilities: bool) -> Peer:
        peer = Peer(broker.connect(), **capabilities)
        made.append(peer)
        return peer.start(vhost)

    yield connect
    for peer in made:
        peer.close()


@pytest.fixture
def peer(connect: Connect) -> Peer:
    """A client with channel 1 open."""
    return connect()
