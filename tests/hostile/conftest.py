"""What every hostile case has: a broker that others use too, and proof that they may go on using it."""

from collections.abc import Iterator

import pika
import pytest

from tests.servers import BrokerProcess
from tests.sockets import AmqpSocket


class Bystander:
    """A well-behaved client, connected before anything bad happens."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._connection = pika.BlockingConnection(pika.URLParameters(broker.url + "?heartbeat=0"))
        self._channel = self._connection.channel()
        self._channel.confirm_delivery()
        self._queue = self._channel.queue_declare("", exclusive=True).method.queue

    def is_served(self) -> None:
        """A message goes through the broker: published, confirmed, fetched, acknowledged."""
        self._channel.basic_publish("", self._queue, b"still here", mandatory=True)
        method, _, body = self._channel.basic_get(self._queue)
        assert body == b"still here"
        self._channel.basic_ack(method.delivery_tag)

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("hostile") / "data") as running:
        yield running
        assert running.stop() == 0


@pytest.fixture(scope="package")
def bystander(broker: BrokerProcess) -> Iterator[Bystander]:
    client = Bystander(broker)
    yield client
    client.close()


@pytest.fixture
def attacker(broker: BrokerProcess, bystander: Bystander) -> Iterator[AmqpSocket]:
    """A socket to do harm with. Afterwards the broker serves those who were there before, and those who come."""
    with AmqpSocket(broker.port) as client:
        yield client
    bystander.is_served()
    newcomer = Bystander(broker)
    newcomer.is_served()
    newcomer.close()
    assert not broker.faults, broker.faults
