"""Who gets what next: queues whose consumers share a limit take turns, and who waits goes before who asks."""

import pytest

from flintmq.base.limits import OUTPUT_HIGH_WATER_BYTES
from flintmq.wire.amqp091.methods import (
    BasicConsume,
    BasicGet,
    BasicGetEmpty,
    BasicQos,
    QueueDeclare,
)
from tests.unit.gateway.amqp091.pair import Client, ClientChannel, Server

QUEUES = ("a", "b", "c")


@pytest.fixture
def client() -> Client:
    return Client(Server())


@pytest.fixture
def channel(client: Client) -> ClientChannel:
    return client.channel()


def consuming(channel: ClientChannel, no_ack: bool = False) -> None:
    for queue in QUEUES:
        channel.call(QueueDeclare(queue=queue), BasicConsume(queue=queue, consumer_tag=queue, no_ack=no_ack))


def settled_one_by_one(client: Client, channel: ClientChannel, count: int, busy: str = "") -> list[str]:
    """Bodies in the order they came, each acknowledged before the next; `busy` is published to before each."""
    bodies = []
    for _ in range(count):
        ((tag, body, _),) = channel.deliveries()
        bodies.append(body)
        if busy:
            channel.publish(busy, busy)
        channel.channel.send_ack(tag, False)
        client.tick()
    return bodies


@pytest.mark.parametrize("busy", ["", "a", "b", "c"])
def test_queues_share_a_window(client: Client, channel: ClientChannel, busy: str) -> None:
    """Under a prefetch of one for the channel, queues take turns, also where one is published to all the time."""
    channel.call(BasicQos(prefetch_count=1, global_=True))
    consuming(channel)
    for queue in QUEUES:
        for _ in range(9):
            channel.publish(queue, queue)
    client.tick()
    assert settled_one_by_one(client, channel, 9, busy) == list("abc" * 3)


def test_an_empty_queue_is_passed_over(client: Client, channel: ClientChannel) -> None:
    """The others take turns, and nobody waits for what is not there."""
    channel.call(BasicQos(prefetch_count=1, global_=True))
    consuming(channel)
    for _ in range(4):
        channel.publish("a", "a")
        channel.publish("c", "c")
    client.tick()
    assert settled_one_by_one(client, channel, 8) == list("ac" * 4)
    channel.publish("b", "b")
    client.tick()
    assert channel.deliveries()[0][1] == "b"


def test_a_connection_that_reads_slowly_gets_of_all_its_queues(client: Client) -> None:
    """Queues take turns at the room of a socket, on one channel as on several."""
    channels = [client.channel() for _ in QUEUES]
    publisher = Client(client.server).channel()
    large = "x" * (OUTPUT_HIGH_WATER_BYTES // 2)
    for queue in QUEUES:
        publisher.call(QueueDeclare(queue=queue))
        for _ in range(6):
            publisher.publish(queue + large, queue)
    publisher.call()
    for channel, queue in zip(channels, QUEUES, strict=True):
        channel.send(BasicConsume(queue=queue, consumer_tag=queue, no_ack=True))
    found = []
    for _ in range(9):
        client.connection.resume()
        client.tick()
        found += [body[0] for channel in channels for _, body, _ in channel.deliveries()]
    assert sorted(found) == sorted("abc" * 6)
    assert set(found[:9]) == set(QUEUES)


def test_a_get_does_not_overtake_a_consumer(client: Client, channel: ClientChannel) -> None:
    """What is published while a consumer waits is the consumer's, however soon somebody else asks for it."""
    channel.call(QueueDeclare(queue="q"), BasicConsume(queue="q", consumer_tag="c"))
    channel.publish("m")
    channel.send(BasicGet(queue="q"))
    client.tick()
    (answer,) = channel.came()
    assert isinstance(answer, BasicGetEmpty)
    assert [body for _, body, _ in channel.deliveries()] == ["m"]


def test_a_get_has_what_consumers_have_no_credit_for(client: Client, channel: ClientChannel) -> None:
    """A consumer whose window is full does not keep others from the rest."""
    channel.call(QueueDeclare(queue="q"), BasicQos(prefetch_count=1), BasicConsume(queue="q", consumer_tag="c"))
    channel.publish("1")
    channel.publish("2")
    channel.call(BasicGet(queue="q"))
    assert sorted(body.decode() for body in channel.bodies) == ["1", "2"]
