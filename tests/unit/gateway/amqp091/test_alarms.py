"""Alarms: publishers wait, and are told so; everybody else goes on."""

import pytest

from flintmq.base.errors import ClosedByPeer
from flintmq.base.limits import ARGUMENTS_IN_ALARM_MAX_BYTES
from flintmq.broker.dialect import STRICT
from flintmq.broker.message import Table
from flintmq.wire.amqp091.methods import (
    BasicConsume,
    ChannelFlow,
    ChannelFlowOk,
    ConfirmSelect,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.unit.gateway.amqp091.pair import NOTIFIED, Client, ClientChannel, Server

TOLD: Table = {"capabilities": {"connection.blocked": True, "consumer_cancel_notify": True}}


class Alarm:
    """Turns the alarm of a server on and off for these clients, as its host does."""

    def __init__(self, server: Server, *clients: Client) -> None:
        self._server = server
        self._clients = clients

    def on(self) -> None:
        self._server.gateway.alarm = "low on memory"
        for client in self._clients:
            client.connection.block()

    def off(self) -> None:
        self._server.gateway.alarm = ""
        for client in self._clients:
            client.connection.unblock()
            client.connection.engine.receive(b"", 0.0)
            client.tick()


@pytest.fixture
def server() -> Server:
    return Server()


def told(server: Server) -> tuple[Client, ClientChannel]:
    """A client that understands connection.blocked, and its channel, on which q was declared."""
    client = Client(server, properties=TOLD)
    channel = client.channel()
    channel.call(QueueDeclare(queue="q", durable=True))
    return client, channel


def count(channel: ClientChannel) -> int:
    (answer,) = channel.call(QueueDeclare(queue="q", durable=True, passive=True))
    assert isinstance(answer, QueueDeclareOk)
    return answer.message_count


def test_a_publisher_is_told_at_its_next_publish(server: Server) -> None:
    """Nothing is said while it does not publish; then it is told once, with the reason, and its messages wait."""
    client, channel = told(server)
    other = Client(server).channel()
    alarm = Alarm(server, client)
    alarm.on()
    client.tick()
    assert client.side.blocked == []
    channel.publish("one")
    channel.publish("two")
    client.tick()
    assert client.side.blocked == ["low on memory"]
    assert client.connection.engine.is_holding
    assert not client.connection.engine.is_paused
    assert count(other) == 0
    alarm.off()
    assert client.side.blocked == ["low on memory", None]
    assert count(other) == 2


def test_what_is_no_publish_goes_on_up_to_one(server: Server) -> None:
    """Acknowledgements and other methods are heard, those behind a publish once it is taken, in their order."""
    client, channel = told(server)
    channel.publish("m")
    channel.call(BasicConsume(queue="q"))
    alarm = Alarm(server, client)
    alarm.on()
    channel.channel.send_ack(1, False)
    client.tick()
    assert server.storage.memory_journal.kept == {}
    channel.call(ConfirmSelect())
    channel.publish("held")
    channel.send(QueueDeclare(queue="behind"))
    client.tick()
    assert "behind" not in server.vhost.queues
    alarm.off()
    client.durable()
    assert "behind" in server.vhost.queues
    assert [body for _, body, _ in channel.deliveries()] == ["m", "held"]
    assert channel.acks == [(1, False)]


def test_deliveries_to_a_blocked_publisher_go_on(server: Server) -> None:
    """A connection that waits with its publishes still gets what its consumers are due."""
    client, channel = told(server)
    channel.call(BasicConsume(queue="q", no_ack=True))
    publisher = Client(server).channel()
    Alarm(server, client).on()
    channel.publish("held")
    client.tick()
    publisher.publish("delivered")
    publisher.call()
    client.tick()
    assert [body for _, body, _ in channel.deliveries()] == ["delivered"]


def test_a_message_that_has_begun_is_taken(server: Server) -> None:
    """Its header and body may come when the alarm is on already: they would wait in memory anyway."""
    client, channel = told(server)
    channel.publish("begun")
    sent = client.side.sent()
    client.connection.engine.receive(sent[:-3], 0.0)
    Alarm(server, client).on()
    client.connection.engine.receive(sent[-3:], 0.0)
    client.tick()
    assert client.side.blocked == []
    assert count(channel) == 1


def test_a_client_that_cannot_be_told_is_asked_to_stop() -> None:
    """Channels that published get channel.flow at once, others at their first publish; and all get it back."""
    server = Server(STRICT)
    client = Client(server, properties=NOTIFIED)
    publishes, first, silent = client.channel(), client.channel(), client.channel()
    publishes.call(QueueDeclare(queue="q", durable=True))
    publishes.publish("m")
    client.tick()
    alarm = Alarm(server, client)
    alarm.on()
    client.tick()
    stop, go = ChannelFlow(active=False), ChannelFlow(active=True)
    assert [channel.came() for channel in (publishes, first, silent)] == [[stop], [], []]
    publishes.send(ChannelFlowOk(active=False))
    assert count(publishes) == 1
    first.publish("held")
    client.tick()
    assert [channel.came() for channel in (publishes, first, silent)] == [[], [stop], []]
    alarm.off()
    assert [channel.came() for channel in (publishes, first, silent)] == [[go], [go], []]
    assert client.side.blocked == []
    assert count(publishes) == 2


def test_nobody_is_asked_to_stop_by_flow_in_rabbitmqs_dialect(server: Server) -> None:
    """Clients made for RabbitMQ do not expect it: one that cannot be told of alarms waits without a word."""
    client = Client(server, properties=NOTIFIED)
    publishes, first = client.channel(), client.channel()
    publishes.call(QueueDeclare(queue="q", durable=True))
    publishes.publish("m")
    client.tick()
    alarm = Alarm(server, client)
    alarm.on()
    first.publish("held")
    client.tick()
    assert client.connection.engine.is_holding
    alarm.off()
    assert [channel.came() for channel in (publishes, first)] == [[], []]
    assert count(publishes) == 2


def test_who_comes_during_an_alarm_waits_too(server: Server) -> None:
    """A new connection may do everything but publish."""
    server.gateway.alarm = "low on disk"
    client, channel = told(server)
    channel.publish("held")
    client.tick()
    assert client.side.blocked == ["low on disk"]
    assert server.vhost.queues["q"].message_count == 0


def test_a_blocked_connection_can_be_closed(server: Server) -> None:
    """Our close is answered although a publish waits before the answer; what waited is dropped."""
    client, channel = told(server)
    Alarm(server, client).on()
    channel.publish("held")
    client.tick()
    client.connection.engine.close(320, "shutdown")
    client.connection.engine.receive(b"", 0.0)
    client.tick()
    assert client.connection.engine.state.value == "closed"
    assert server.vhost.queues["q"].message_count == 0
    Alarm(server, client).off()


def test_a_publish_where_none_may_be_is_no_reason_to_wait(server: Server) -> None:
    """On a channel that is not open it is a fault, alarm or not."""
    client, channel = told(server)
    Alarm(server, client).on()
    channel.channel.number = 7
    channel.publish("nowhere")
    client.tick()
    assert "504" in str(client.closed)


@pytest.mark.parametrize(
    "declaration",
    [
        QueueDeclare(queue="p", arguments={"x-what": "x" * ARGUMENTS_IN_ALARM_MAX_BYTES}),
        ExchangeDeclare(exchange="x", type="fanout", arguments={"x-what": "x" * ARGUMENTS_IN_ALARM_MAX_BYTES}),
        QueueBind(queue="q", exchange="amq.topic", arguments={"x-what": "x" * ARGUMENTS_IN_ALARM_MAX_BYTES}),
    ],
)
def test_nothing_large_is_declared_meanwhile(server: Server, declaration: Method) -> None:
    """What is new and has large arguments would take more of the memory that is short: it ends in 506. Consumers can
    declare what they consume from, and what is there already can be declared again.
    """
    channel = Client(server).channel()
    channel.call(QueueDeclare(queue="q", durable=True))
    server.gateway.alarm = "low on memory"
    channel.call(QueueDeclare(queue="mine", exclusive=True, arguments={"x-message-ttl": 1000}))
    assert "mine" in server.vhost.queues
    channel.call(declaration)
    assert isinstance(channel.closed, ClosedByPeer)
    assert channel.closed.code == 506
    assert channel.closed.text.startswith("RESOURCE_ERROR - low on memory")
    again = Client(server).channel()
    server.gateway.alarm = ""
    again.call(declaration)
    server.gateway.alarm = "low on memory"
    assert [type(answer) for answer in again.call(declaration)] != []
