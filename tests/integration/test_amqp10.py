"""AMQP 1.0 over sockets: what clients find of a broker that stops, that is killed, and that speaks both protocols."""

from collections.abc import Iterator

import pytest

import flintmq.client as fc
import flintmq.client.amqp10 as amqp
from flintmq.base.errors import FlintError
from tests.servers import BrokerProcess

SECONDS = 30.0


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("amqp10") / "data") as running:
        with fc.connect(running.url) as connection, connection.channel(confirms=True) as channel:
            channel.declare_queue("q")
        yield running


def test_a_broker_that_stops_says_so(broker: BrokerProcess) -> None:
    """Clients are told that it is the broker's doing, as RabbitMQ tells them."""
    connection = amqp.connect(broker.url)
    receiver = connection.receiver("/queues/q")
    assert broker.stop() == 0
    with pytest.raises(FlintError, match="broker forced connection closure with reason 'shutdown'"):
        receiver.receive(timeout=SECONDS)


def test_what_was_accepted_survives_a_kill(broker: BrokerProcess) -> None:
    """Accepted means on the disk, and settled means gone from it; what was not settled is there again, flagged so."""
    with amqp.connect(broker.url) as connection:
        sender = connection.sender("/queues/q")
        for body in ("settled", "unsettled", "waiting"):
            assert sender.send(amqp.Message(body)) == amqp.Accepted()
        receiver = connection.receiver("/queues/q", credit=2)
        first = receiver.receive(timeout=SECONDS)
        assert first is not None
        assert receiver.receive(timeout=SECONDS) is not None
        receiver.accept(first)
        # Behind this, the settlement is on the disk as well.
        assert sender.send(amqp.Message("last")) == amqp.Accepted()
        broker.kill()
    broker.start()
    with amqp.connect(broker.url) as connection:
        receiver = connection.receiver("/queues/q")
        found = [receiver.receive(timeout=SECONDS) for _ in range(3)]
        assert [each.message.body for each in found if each is not None] == ["unsettled", "waiting", "last"]
        assert found[0] is not None
        assert not found[0].message.header.first_acquirer


def test_a_connection_that_is_lost_gives_back_what_it_had(broker: BrokerProcess) -> None:
    """Another consumer gets it at once."""
    with amqp.connect(broker.url) as keeper:
        assert keeper.sender("/queues/q").send(amqp.Message("one")) == amqp.Accepted()
        lost = amqp.connect(broker.url)
        assert lost.receiver("/queues/q").receive(timeout=SECONDS) is not None
        lost.close()
        delivery = keeper.receiver("/queues/q").receive(timeout=SECONDS)
        assert delivery is not None
        assert delivery.message.body == "one"


def test_both_protocols_share_a_port_and_a_queue(broker: BrokerProcess) -> None:
    """A consumer of one gets what a publisher of the other sent."""
    with (
        amqp.connect(broker.url) as connection,
        fc.connect(broker.url) as other,
        other.channel(confirms=True) as channel,
    ):
        channel.publish(b"from 0-9-1", routing_key="q")
        delivery = connection.receiver("/queues/q").receive(timeout=SECONDS)
        assert delivery is not None
        assert delivery.message.body == b"from 0-9-1"
