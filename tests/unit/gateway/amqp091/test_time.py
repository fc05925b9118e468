"""What nobody did: deliveries that are not acknowledged, queues that are not used, channels that are paused."""

import pytest

from flintmq.base.errors import ClosedByPeer
from flintmq.broker.message import Table
from flintmq.broker.ports import PolicyRecord
from flintmq.wire.amqp091.methods import (
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicQos,
    ChannelFlow,
    ChannelFlowOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.unit.gateway.amqp091.pair import Client, ClientChannel, Server

START = 1_000_000
HELD: Table = {"x-consumer-timeout": 1_000}


@pytest.fixture
def server() -> Server:
    made = Server()
    made.broker.now_ms = START
    return made


@pytest.fixture
def client(server: Server) -> Client:
    return Client(server)


@pytest.fixture
def channel(client: Client) -> ClientChannel:
    return client.channel()


def at(client: Client, milliseconds: int) -> None:
    """So long after the start."""
    client.server.broker.now_ms = START + milliseconds
    client.tick()


# -- acknowledgements that do not come ----------------------------------------------------------------------------


def filled(channel: ClientChannel, count: int, queue: Table | None = None) -> None:
    channel.call(QueueDeclare(queue="q", arguments=queue or {}))
    for number in range(count):
        channel.publish(str(number))
    channel.call()


def is_open(channel: ClientChannel) -> bool:
    return bool(channel.call(QueueDeclare(queue="q", passive=True)))


@pytest.mark.parametrize("said_by", ["consumer", "queue", "policy"])
def test_an_acknowledgement_that_is_late_costs_the_channel(
    server: Server, client: Client, channel: ClientChannel, said_by: str
) -> None:
    """406 in RabbitMQ's words, and the messages are for others; other channels of the connection go on."""
    if said_by == "policy":
        server.broker.put_rule(PolicyRecord("/", "p", "q", {"consumer-timeout": 1_000}))
    filled(channel, 2, HELD if said_by == "queue" else None)
    late = client.channel()
    late.call(BasicConsume(queue="q", consumer_tag="c", arguments=HELD if said_by == "consumer" else {}))
    assert len(late.deliveries()) == 2
    at(client, 999)
    late.channel.send_ack(1, False)
    assert is_open(late)
    at(client, 1_000)
    reason = late.closed
    assert isinstance(reason, ClosedByPeer)
    assert reason.code == 406
    assert reason.text.startswith(
        "PRECONDITION_FAILED - delivery acknowledgement on channel 2 timed out. Timeout value used: 1000 ms. "
        "This timeout value can be configured"
    )
    channel.call(BasicGet(queue="q"))
    assert [body for _, _, body in channel.contents] == ["1"]


def test_the_oldest_delivery_counts(client: Client, channel: ClientChannel) -> None:
    """Each delivery has its own time; what is settled in time is forgotten, whoever is next."""
    filled(channel, 1)
    channel.call(BasicConsume(queue="q", consumer_tag="c", arguments=HELD))
    for number in range(1, 6):
        at(client, number * 600)
        channel.publish("next")
        client.tick()
        channel.channel.send_ack(number, False)
        client.tick()
    assert is_open(channel)
    at(client, 5 * 600 + 1_000)
    assert isinstance(channel.closed, ClosedByPeer)


@pytest.mark.parametrize("arguments", [{}, {"x-consumer-timeout": 0}])
def test_without_a_timeout_nothing_is_late(client: Client, channel: ClientChannel, arguments: Table) -> None:
    """Nor with one of zero; a consumer's own goes before its queue's."""
    filled(channel, 1, HELD if arguments else None)
    channel.call(BasicConsume(queue="q", consumer_tag="c", arguments=arguments))
    at(client, 100_000_000)
    assert is_open(channel)


def test_what_was_got_and_what_needs_no_ack_is_never_late(client: Client, channel: ClientChannel) -> None:
    """The time is a consumer's, as in RabbitMQ: basic.get has none, and who acknowledges nothing owes nothing."""
    filled(channel, 2, HELD)
    channel.call(BasicGet(queue="q"), BasicConsume(queue="q", consumer_tag="c", no_ack=True))
    at(client, 2_000)
    assert is_open(channel)


@pytest.mark.parametrize("value", [-1, "1000", True, 2**60])
def test_a_timeout_that_is_none(channel: ClientChannel, value: object) -> None:
    """406 for what is no time."""
    filled(channel, 0)
    channel.call(BasicConsume(queue="q", arguments={"x-consumer-timeout": value}))
    reason = channel.closed
    assert isinstance(reason, ClosedByPeer)
    assert (reason.code, "x-consumer-timeout" in reason.text) == (406, True)


# -- queues that are not used -------------------------------------------------------------------------------------


def expiring(channel: ClientChannel) -> QueueDeclare:
    declare = QueueDeclare(queue="q", durable=True, arguments={"x-expires": 1_000})
    assert isinstance(channel.call(declare)[0], QueueDeclareOk)
    return declare


def there(server: Server) -> bool:
    return "q" in server.vhost.queues


def test_a_queue_nobody_uses_ends(server: Server, client: Client, channel: ClientChannel) -> None:
    """With its messages, its bindings and its definition; publishing to it is no use of it (RabbitMQ)."""
    expiring(channel)
    at(client, 999)
    channel.publish("m")
    client.tick()
    assert there(server)
    at(client, 1_000)
    assert not there(server)
    assert (server.storage.memory_definitions.queues, server.storage.memory_journal.kept) == ({}, {})


@pytest.mark.parametrize("use", ["get", "declare", "passive"])
def test_use_puts_the_end_off(server: Server, client: Client, channel: ClientChannel, use: str) -> None:
    """basic.get, even of nothing, and declaring it once more each begin its time anew."""
    declare = expiring(channel)
    uses: dict[str, Method] = {
        "get": BasicGet(queue="q"),
        "declare": declare,
        "passive": QueueDeclare(queue="q", passive=True),
    }
    for number in range(1, 4):
        at(client, number * 900)
        channel.call(uses[use])
    at(client, 3 * 900 + 999)
    assert there(server)
    at(client, 3 * 900 + 1_000)
    assert not there(server)


def test_a_consumer_is_use_as_long_as_it_is_there(server: Server, client: Client, channel: ClientChannel) -> None:
    """However long; the time begins when the last one has gone."""
    expiring(channel)
    channel.call(BasicConsume(queue="q", consumer_tag="c"))
    at(client, 10_500)
    assert there(server)
    channel.call(BasicCancel(consumer_tag="c"))
    at(client, 11_499)
    assert there(server)
    at(client, 11_500)
    assert not there(server)


def test_a_policy_lets_queues_end(server: Server, client: Client, channel: ClientChannel) -> None:
    """From when it is laid down; and no more, once it is withdrawn."""
    channel.call(QueueDeclare(queue="q", durable=True))
    policy = PolicyRecord("/", "p", "q", {"expires": 1_000})
    server.broker.put_rule(policy)
    server.broker.delete_rule(policy)
    at(client, 5_000)
    assert there(server)
    server.broker.put_rule(policy)
    channel.call(QueueDeclare(queue="q", durable=True))
    at(client, 6_000)
    assert not there(server)


# -- flow ---------------------------------------------------------------------------------------------------------


def test_a_client_stops_its_deliveries(client: Client, channel: ClientChannel) -> None:
    """channel.flow holds up all consumers of the channel, and those of no other; what comes back waits, too."""
    filled(channel, 4)
    other = client.channel()
    channel.call(BasicQos(prefetch_count=1), BasicConsume(queue="q", consumer_tag="c"))
    assert channel.call(ChannelFlow(active=False)) == [ChannelFlowOk(active=False)]
    assert [body for _, body, _ in channel.deliveries()] == ["0"]
    channel.call(BasicNack(delivery_tag=1, requeue=True))
    assert channel.deliveries() == []
    getting = client.channel()
    getting.call(BasicGet(queue="q", no_ack=True))
    assert [body for _, _, body in getting.contents] == ["0"]
    other.call(BasicQos(prefetch_count=1), BasicConsume(queue="q", consumer_tag="d"))
    assert [body for _, body, _ in other.deliveries()] == ["1"]
    assert channel.call(ChannelFlow(active=True)) == [ChannelFlowOk(active=True)]
    assert [body for _, body, _ in channel.deliveries()] == ["2"]
