"""Connections of AMQP 1.0: login, virtual host, limits, alarms, and what ends with them."""

import pytest

from flintmq.base.errors import ConnectionForced, EndedByPeer
from flintmq.broker.ports import LimitRecord, VHostRecord
from flintmq.wire.amqp10.performatives import Attach
from flintmq.wire.amqp10.spec import SND_UNSETTLED
from flintmq.wire.amqp10.states import ACCEPTED
from flintmq.wire.amqp10.termini import Source
from tests.unit.gateway.amqp10.pair import Client, Server


def _reason(client: Client) -> tuple[str, str]:
    (error,) = client.closed
    assert isinstance(error, EndedByPeer)
    return error.condition, error.text


def _strict(server: Server) -> None:
    server.broker.put_vhost(VHostRecord("/", "strict"))


def test_the_open_says_who_we_are(server: Server) -> None:
    """Container, properties and what RabbitMQ's clients look for among capabilities."""
    (opened,) = Client(server).opened
    assert opened.container_id == "broker"
    assert opened.properties == {"product": "test"}
    assert opened.offered_capabilities == ["LINK_PAIR_V1_0", "ANONYMOUS-RELAY"]


@pytest.mark.parametrize("hostname", [None, "", "localhost", "vhost:/"])
def test_a_hostname_that_names_no_virtual_host_means_the_default(server: Server, hostname: str | None) -> None:
    """vhost: is the prefix that names one (RabbitMQ)."""
    access = Client(server, hostname=hostname).connection.access
    assert access is not None
    assert access.vhost.name == "/"


def test_a_hostname_names_a_virtual_host(server: Server) -> None:
    """Another virtual host has its own queues and permissions."""
    server.broker.put_vhost(VHostRecord("other", "strict"))
    assert _reason(Client(server, hostname="vhost:other")) == (
        "amqp:unauthorized-access",
        "access to vhost 'other' refused for user 'u'",
    )
    server.allow(vhost="other")
    assert Client(server, hostname="vhost:other").receiver().refusal[0] == "amqp:not-found"


def test_a_virtual_host_that_is_not_there(server: Server) -> None:
    """Where the default one is strict, the connection is opened, and closed with RabbitMQ's words."""
    _strict(server)
    assert _reason(Client(server, hostname="vhost:no")) == (
        "amqp:unauthorized-access",
        "AMQP 1.0 connection failed: virtual host 'no' does not exist",
    )


@pytest.mark.parametrize(
    ("hostname", "why"),
    [
        ("vhost:no", "AMQP 1.0 connection failed: virtual host 'no' does not exist"),
        ("vhost:other", "access to vhost 'other' refused for user 'u'"),
    ],
)
def test_who_may_not_enter_is_hung_up_on(server: Server, hostname: str, why: str) -> None:
    """As RabbitMQ does: its clients would take a connection that was opened for one to recover. We know the reason."""
    server.broker.add_vhost("other")
    client = Client(server, hostname=hostname)
    assert client.connection.engine.is_closed
    assert (client.opened, client.closed) == ([], [])
    assert why in str(client.connection.closed)


def test_limits_of_connections_hold(server: Server) -> None:
    """A user's, or a virtual host's, counts connections of all protocols."""
    _strict(server)
    server.broker.put_rule(LimitRecord("vhost", "/", "max-connections", 1))
    first = Client(server)
    assert _reason(Client(server))[0] == "amqp:resource-limit-exceeded"
    first.engine.close()
    first.tick()
    assert Client(server).closed == []


def test_sessions_count_as_channels(server: Server) -> None:
    """A user's limit of channels holds for sessions, which give theirs back when they end."""
    client = Client(server)
    client.begin()
    assert server.user.channels == 2
    client.session.end()
    client.tick()
    assert server.user.channels == 1
    client.connection.engine.lost(None)
    assert server.user.channels == 0


def test_who_is_deleted_is_expelled(server: Server) -> None:
    """The client is told why."""
    client = Client(server)
    server.broker.delete_user("u")
    client.tick()
    assert _reason(client) == ("amqp:connection:forced", "Connection forced: user 'u' is deleted")
    assert server.vhost.connections == {}


def test_a_shutdown_is_told(server: Server) -> None:
    """As RabbitMQ tells it."""
    client = Client(server)
    client.connection.fail(ConnectionForced("broker forced connection closure with reason 'shutdown'"))
    client.tick()
    assert _reason(client) == (
        "amqp:connection:forced",
        "Connection forced: broker forced connection closure with reason 'shutdown'",
    )


def test_an_alarm_that_is_on_gives_no_credit(server: Server) -> None:
    """Who comes meanwhile waits, and goes on afterwards."""
    server.gateway.alarm = "memory"
    client = Client(server)
    sender = client.sender()
    assert sender.link.credit == 0
    server.gateway.alarm = ""
    client.connection.unblock()
    client.tick()
    assert sender.publish("one") == [ACCEPTED]


def test_what_comes_through_an_alarm_is_held_in_the_end(server: Server) -> None:
    """A client that goes on sending is not read from, and loses nothing."""
    client = Client(server)
    sender = client.sender()
    server.gateway.alarm = "memory"
    client.connection.block()
    for _ in range(3):
        sender.send("x" * 600_000, settled=True)
    client.tick()
    assert client.connection.engine.is_holding
    assert server.vhost.queues["q"].message_count == 2
    server.gateway.alarm = ""
    client.connection.unblock()
    client.connection.engine.receive(b"", 0.0)
    client.tick()
    assert server.vhost.queues["q"].message_count == 3


def test_consumers_receive_while_an_alarm_is_on(server: Server) -> None:
    """An alarm is about publishers."""
    client = Client(server)
    client.sender().publish("one")
    server.gateway.alarm = "disk"
    client.connection.block()
    receiver = client.receiver(attach=Attach(name="r", snd_settle_mode=SND_UNSETTLED))
    assert receiver.bodies() == ["one"]


def test_a_link_whose_terminus_cannot_be_stored_is_refused(server: Server) -> None:
    """Nothing is attached that a restart would not find, and no consumer stays behind."""
    client = Client(server)
    receiver = client.receiver(source=Source(address="/queues/q", durable=2, expiry_policy="never"), credit=0)
    server.storage.fence("no disk")
    server.gateway.on_durable()
    client.tick()
    assert receiver.refusal[0] == "amqp:resource-limit-exceeded"
    assert server.vhost.queues["q"].consumers == []
