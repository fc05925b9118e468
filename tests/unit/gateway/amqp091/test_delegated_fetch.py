"""Fetches of streams that another node answers: what it is asked, and who answers if it cannot."""

from collections.abc import Callable

import pytest

from flintmq.base.errors import PreconditionFailed
from flintmq.broker.message import Table
from flintmq.broker.ports import StreamPlace
from flintmq.broker.queue.stream import StreamQueue
from flintmq.gateway.amqp091.delegated_fetch import DelegatedFetch, decode
from flintmq.protocol.amqp091.connection import Tuning
from flintmq.wire.amqp091.methods import QueueDeclare, StreamFetch, StreamFetchOk, StreamQuery, StreamQueryOk
from tests.unit.broker.memory import MemoryStream
from tests.unit.gateway.amqp091.pair import Client, ClientChannel, Server

PLACE = StreamPlace("streams/1/0.stream", 0, b"magic", 40, 4000)
STREAM: Table = {"x-queue-type": "stream"}


class OtherNode:
    """The node to which a client is connected."""

    def __init__(self, client: Client) -> None:
        self.asked: list[tuple[DelegatedFetch, int]] = []
        self.answered: Callable[[int, int], None] | None = None
        self.is_busy = False
        client.connection.delegate = self._delegate

    def _delegate(self, asked: bytes, size: int, answered: Callable[[int, int], None]) -> bool:
        if self.is_busy:
            return False
        self.asked.append((decode(asked), size))
        self.answered = answered
        return True

    def answer(self, following: int, count: int) -> None:
        assert self.answered is not None
        self.answered(following, count)


@pytest.fixture
def connected() -> tuple[Client, ClientChannel, StreamQueue, OtherNode]:
    """A client at another node, which reads a stream of ten messages."""
    client = Client(Server(), tuning=Tuning(frame_max=8192))
    channel = client.channel()
    channel.call(QueueDeclare(queue="s", durable=True, arguments=STREAM))
    for number in range(10):
        channel.publish(str(number), key="s")
    client.tick()
    client.durable()
    stream = client.server.vhost.queues["s"]
    assert isinstance(stream, StreamQueue)
    assert isinstance(stream.log, MemoryStream)
    stream.log.placed = PLACE
    return client, channel, stream, OtherNode(client)


def fetch(channel: ClientChannel, client: Client, start: int, stop: int) -> None:
    channel.send(StreamFetch(queue="s", offset=start, end_offset=stop, max_bytes=1000))
    client.tick()


def test_another_node_answers(connected: tuple[Client, ClientChannel, StreamQueue, OtherNode]) -> None:
    """It is asked for durable messages only; the answer counts as if it were ours, and nothing else is sent."""
    client, channel, stream, node = connected
    fetch(channel, client, 3, 99)
    ((asked, size),) = node.asked
    assert (asked.channel, asked.frame_max, asked.start, asked.stop, asked.max_bytes) == (1, 8192, 3, 10, 1000)
    place = asked.place
    assert (place.path, place.first_offset, place.magic, place.position, place.end) == (
        "streams/1/0.stream",
        0,
        b"magic",
        40,
        4000,
    )
    assert size == 1000
    # The client's next method waits, so that answers are in order.
    channel.send(StreamQuery(queue="s"))
    client.connection.engine.receive(client.side.sent(), 0.0)
    assert channel.came() == []
    node.answer(8, 5)
    client.tick()
    assert channel.came() == [StreamQueryOk(first_offset=0, next_offset=10, offset_at=0, stream=1)]
    assert channel.contents == []
    assert (stream.delivered_no_ack, stream.fetched_offset) == (5, 8)


def test_a_node_that_cannot_answer(connected: tuple[Client, ClientChannel, StreamQueue, OtherNode]) -> None:
    """The messages come from here, then and later."""
    client, channel, stream, node = connected
    fetch(channel, client, 3, 6)
    node.answer(0, 0)
    client.tick()
    fetch(channel, client, 6, 8)
    methods = [method for method, _, _ in channel.contents]
    assert methods == [
        StreamFetchOk(first_offset=3, next_offset=6, record_count=3),
        StreamFetchOk(first_offset=6, next_offset=8, record_count=2),
    ]
    assert len(node.asked) == 1
    assert (stream.delivered_no_ack, stream.fetched_offset) == (5, 8)


def test_messages_that_went_while_the_node_was_asked(
    connected: tuple[Client, ClientChannel, StreamQueue, OtherNode],
) -> None:
    """The client gets the same error as from the leader."""
    client, channel, stream, node = connected
    fetch(channel, client, 3, 6)
    assert isinstance(stream.log, MemoryStream)
    stream.log.first = 5
    node.answer(0, 0)
    client.tick()
    assert "offset 3 of stream 's'" in str(channel.closed)


@pytest.mark.parametrize("reason", ["busy", "placeless", "empty"])
def test_what_the_leader_answers_itself(
    connected: tuple[Client, ClientChannel, StreamQueue, OtherNode], reason: str
) -> None:
    """A node that has to wait for its client, a message whose place is not known, and a range without messages."""
    client, channel, stream, node = connected
    assert isinstance(stream.log, MemoryStream)
    if reason == "busy":
        node.is_busy = True
    elif reason == "placeless":
        stream.log.placed = None
    start = 10 if reason == "empty" else 7
    fetch(channel, client, start, 99)
    assert [method for method, _, _ in channel.contents] == [
        StreamFetchOk(first_offset=start, next_offset=10, record_count=10 - start)
    ]
    assert node.asked == []


def test_a_channel_that_ends_while_the_node_is_asked(
    connected: tuple[Client, ClientChannel, StreamQueue, OtherNode],
) -> None:
    """Its answer counts for nobody, and the connection goes on."""
    client, channel, stream, node = connected
    fetch(channel, client, 3, 6)
    client.connection.channels[1].close(PreconditionFailed("enough"))
    node.answer(6, 3)
    client.tick()
    assert stream.fetched_offset == 0
    other = client.channel()
    assert other.call(StreamQuery(queue="s"))
