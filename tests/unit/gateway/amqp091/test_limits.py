"""Limits of virtual hosts, users and channels: so many and no more, and room again once something has ended."""

import pytest

from flintmq.base.errors import ConfigurationError
from flintmq.broker.ports import LimitRecord
from flintmq.wire.amqp091.methods import BasicConsume, QueueDeclare, QueueDelete
from tests.unit.gateway.amqp091.pair import Client, Server


def limit(server: Server, scope: str, name: str, value: int) -> LimitRecord:
    record = LimitRecord(scope, {"vhost": "/", "user": "u"}[scope], name, value)
    server.broker.put_rule(record)
    return record


@pytest.mark.parametrize(
    ("scope", "text"),
    [
        ("vhost", "530 NOT_ALLOWED - access to vhost '/' refused for user 'u': connection limit (2) is reached"),
        ("user", "530 NOT_ALLOWED - connection refused for user 'u': user connection limit (2) is reached"),
    ],
)
def test_connections(scope: str, text: str) -> None:
    """Connections above the limit are refused; one that ends makes room, and so does taking the limit away."""
    server = Server()
    record = limit(server, scope, "max-connections", 2)
    first = Client(server)
    assert Client(server).side.closed == []
    assert str(Client(server).closed) == text
    first.side.engine.close(200, "bye")
    first.tick()
    assert Client(server).side.closed == []
    assert str(Client(server).closed) == text
    server.broker.delete_rule(record)
    assert Client(server).side.closed == []


def test_a_lost_connection_makes_room() -> None:
    """However a connection ends."""
    server = Server()
    limit(server, "user", "max-connections", 1)
    client = Client(server)
    client.connection.engine.lost(None)
    assert Client(server).side.closed == []


@pytest.mark.parametrize("scope", ["vhost", "user"])
def test_nobody_and_anybody(scope: str) -> None:
    """A limit of 0 lets nobody in; a negative one is none."""
    server = Server()
    limit(server, scope, "max-connections", 0)
    assert "limit (0) is reached" in str(Client(server).closed)
    limit(server, scope, "max-connections", -1)
    assert Client(server).side.closed == []


def test_channels_of_a_user() -> None:
    """Channels count over all connections of a user, and one too many ends its connection."""
    server = Server()
    limit(server, "user", "max-channels", 3)
    first, second = Client(server), Client(server)
    channel = first.channel()
    first.channel()
    second.channel()
    channel.channel.close(200, "bye")
    first.tick()
    first.channel()
    second.channel()
    assert str(second.closed) == (
        "530 NOT_ALLOWED - number of channels opened for user 'u' has reached the maximum allowed user limit of 3"
    )
    # The channel of the connection that ended counts no more.
    first.channel()
    assert first.side.closed == []
    assert server.user.channels == 3


def test_queues_of_a_vhost() -> None:
    """A queue too many is refused; declaring one that is there is not."""
    server = Server()
    limit(server, "vhost", "max-queues", 2)
    client = Client(server)
    channel = client.channel()
    for name in ("a", "b", "a"):
        assert len(channel.call(QueueDeclare(queue=name))) == 1
    channel.call(QueueDeclare(queue="c"))
    assert str(channel.closed) == (
        "406 PRECONDITION_FAILED - cannot declare queue 'c': queue limit in vhost '/' (2) is reached"
    )
    channel = client.channel()
    channel.call(QueueDelete(queue="a"))
    assert len(channel.call(QueueDeclare(queue="c"))) == 1


def test_consumers_of_a_channel() -> None:
    """A channel may have so many consumers as the settings say."""
    server = Server(consumers_max=2)
    client = Client(server)
    channel = client.channel()
    channel.call(QueueDeclare(queue="q"))
    for tag in ("a", "b"):
        assert len(channel.call(BasicConsume(queue="q", consumer_tag=tag))) == 1
    channel.call(BasicConsume(queue="q", consumer_tag="c"))
    assert str(client.closed) == "530 NOT_ALLOWED - reached maximum (2) of consumers per channel"


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (LimitRecord("vhost", "/", "max-channels", 1), "a vhost has no limit 'max-channels'"),
        (LimitRecord("user", "u", "max-queues", 1), "a user has no limit 'max-queues'"),
        (LimitRecord("node", "n", "max-queues", 1), "limit scope 'node' is unknown"),
        (LimitRecord("vhost", "missing", "max-queues", 1), "there is no vhost 'missing'"),
    ],
)
def test_limits_there_are_not(record: LimitRecord, words: str) -> None:
    """A limit that nothing has is refused."""
    with pytest.raises(ConfigurationError, match=words):
        Server().broker.put_rule(record)
