"""Messages that no client of AMQP 0-9-1 can be sent, which earlier releases took over HTTP: given up, counted, told."""

import pytest

from flintmq.base.limits import FRAME_MAX_BYTES
from flintmq.broker.message import Address, Message, Table
from flintmq.broker.queue.base import Queue
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.wire.amqp091.chunk import decode_chunk
from flintmq.wire.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicQos,
    BasicReject,
    LeaseExtend,
    LeaseFetch,
    LeaseOpen,
    LeaseOpenOk,
    QueueDeclare,
    StreamFetch,
)
from flintmq.wire.amqp091.properties import Properties, encode_properties, headers
from tests.unit.broker.memory import MemoryJournal
from tests.unit.gateway.amqp091.pair import PERSISTENT, TRANSIENT, Client, ClientChannel, Server

LONG = "k" * 300
LARGE = encode_properties(Properties(headers={"h": "x" * FRAME_MAX_BYTES}, delivery_mode=2))


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def channel(server: Server) -> ClientChannel:
    return Client(server).channel()


def declare(server: Server, channel: ClientChannel, name: str = "q", **arguments: object) -> Queue:
    table: Table = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    channel.call(QueueDeclare(queue=name, durable=True, arguments=table))
    return server.vhost.queues[name]


def store(server: Server, queue: Queue, body: str, key: str = "k", properties: bytes = PERSISTENT) -> None:
    """As the journal has it."""
    options = CODEC_091.options(properties)
    message = Message(Address("amq.topic", key), CODEC_091, properties, body.encode(), options, 0)
    server.vhost.deliver(message, [queue])


def fill(server: Server, queue: Queue) -> None:
    """Two that cannot be sent between three that can."""
    store(server, queue, "first")
    store(server, queue, "long", LONG)
    store(server, queue, "second", properties=TRANSIENT)
    store(server, queue, "large", properties=LARGE)
    store(server, queue, "third")


@pytest.mark.parametrize("no_ack", [False, True])
def test_consumers_get_what_is_behind_them(server: Server, channel: ClientChannel, no_ack: bool) -> None:
    """They take no part of a prefetch, nothing of them stays on the queue, and each is told with its reason."""
    queue = declare(server, channel)
    fill(server, queue)
    channel.call(BasicQos(prefetch_count=3), BasicConsume(queue="q", no_ack=no_ack))
    came = channel.deliveries()
    assert [body for _, body, _ in came] == ["first", "second", "third"]
    if not no_ack:
        assert queue.unacked == 3
        channel.call(*(BasicAck(delivery_tag=tag) for tag, _, _ in came))
    assert (queue.message_count, queue.unacked, queue.unacked_bytes) == (0, 0, 0)
    assert server.broker.tick.churn.unsendable == 2
    assert [(vhost, name) for _, vhost, name, _ in server.host.unsent] == [("/", "q")] * 2
    assert "has 300 bytes" in server.host.unsent[0][3]
    assert "bytes of properties" in server.host.unsent[1][3]
    journal = server.storage.journal
    assert isinstance(journal, MemoryJournal)
    assert journal.kept == {}


def test_an_acknowledgement_of_all_before(server: Server, channel: ClientChannel) -> None:
    """Tags of those that were not sent are nobody's: acknowledging up to one behind them settles the rest."""
    queue = declare(server, channel)
    fill(server, queue)
    channel.call(BasicConsume(queue="q"))
    tags = [tag for tag, _, _ in channel.deliveries()]
    channel.call(BasicAck(delivery_tag=tags[-1], multiple=True))
    assert queue.unacked == 0


def test_taking_turns(server: Server, channel: ClientChannel) -> None:
    """Where several consumers share a queue, all of what can be sent is delivered."""
    queue = declare(server, channel)
    other = Client(server).channel()
    other.call(BasicConsume(queue="q"))
    channel.call(BasicConsume(queue="q"))
    for _ in range(5):
        fill(server, queue)
    channel.call()
    other.call()
    assert len(channel.deliveries()) + len(other.deliveries()) == 15
    assert queue.unacked == 15


@pytest.mark.parametrize("no_ack", [False, True])
def test_basic_get(server: Server, channel: ClientChannel, no_ack: bool) -> None:
    """It answers with the next that can be sent, and with get-empty where there is none."""
    queue = declare(server, channel)
    fill(server, queue)
    for _ in range(3):
        channel.call(BasicGet(queue="q", no_ack=no_ack))
    assert [body for _, _, body in channel.contents] == ["first", "second", "third"]
    store(server, queue, "long", LONG)
    assert channel.call(BasicGet(queue="q", no_ack=no_ack)) == [BasicGetEmpty()]
    assert queue.message_count == 0
    assert queue.unacked == (0 if no_ack else 3)
    assert server.broker.tick.churn.unsendable == 3


def test_dead_letters(server: Server, channel: ClientChannel) -> None:
    """Where the queue has somewhere to send them, they go there: under the front of their key, and say why."""
    declare(server, channel, "grave")
    queue = declare(server, channel, dead_letter_exchange="amq.fanout")
    server.vhost.exchanges.bind_queue(server.vhost.queues["grave"], "amq.fanout", "", {})
    store(server, queue, "long", LONG)
    channel.call(BasicConsume(queue="q"))
    assert channel.deliveries() == []
    channel.call(BasicGet(queue="grave", no_ack=True))
    ((method, properties, body),) = channel.contents
    assert isinstance(method, BasicGetOk)
    assert (method.routing_key, body) == ("k" * 255, "long")
    deaths = headers(properties)["x-death"]
    assert isinstance(deaths, list)
    (death,) = deaths
    assert (death["reason"], death["queue"], death["routing-keys"]) == ("oversized", "q", [LONG])
    assert server.broker.tick.churn.dead_letters == {("classic", "at_most_once", "oversized"): 1}


def test_a_history_that_would_be_too_long(server: Server, channel: ClientChannel) -> None:
    """Dead letters get as much of their history as a frame has room for: the message goes before it."""
    declare(server, channel, "grave")
    queue = declare(server, channel, dead_letter_exchange="amq.fanout")
    server.vhost.exchanges.bind_queue(server.vhost.queues["grave"], "amq.fanout", "", {})
    keys: list[object] = [f"{number:03}{'k' * 250}" for number in range(300)]
    stored = encode_properties(Properties(headers={"CC": keys}, delivery_mode=2))
    store(server, queue, "letter", properties=stored)
    channel.call(BasicGet(queue="q"))
    channel.call(BasicReject(delivery_tag=1, requeue=False))
    channel.call(BasicGet(queue="grave", no_ack=True))
    method, properties, body = channel.contents[-1]
    assert isinstance(method, BasicGetOk)
    assert body == "letter"
    deaths = headers(properties)["x-death"]
    assert isinstance(deaths, list)
    (death,) = deaths
    assert (death["queue"], death["reason"], death["routing-keys"]) == ("q", "rejected", ["k"])
    assert server.broker.tick.churn.unsendable == 0


def test_a_stream_is_read_past_them(server: Server, channel: ClientChannel) -> None:
    """It keeps them, and its readers get what is behind."""
    stream = declare(server, channel, "s", queue_type="stream")
    fill(server, stream)
    channel.call(BasicQos(prefetch_count=3), BasicConsume(queue="s", arguments={"x-stream-offset": "first"}))
    channel.call()
    came = [(method.delivery_tag, body) for method, _, body in channel.contents if isinstance(method, BasicDeliver)]
    assert [body for _, body in came] == ["first", "second", "third"]
    channel.call(*(BasicAck(delivery_tag=tag) for tag, _ in came))
    assert stream.unacked == 0


def test_browsing_passes_over_them(server: Server, channel: ClientChannel) -> None:
    """Who only looks is shown the others, and nothing is taken."""
    queue = declare(server, channel)
    fill(server, queue)
    channel.call(BasicConsume(queue="q", no_ack=True, arguments={"x-browse": True}))
    assert [body for _, body, _ in channel.deliveries()] == ["first", "second", "third"]
    assert queue.message_count == 5


def test_a_stream_that_is_fetched(server: Server, channel: ClientChannel) -> None:
    """Records have room for longer names, so whoever fetches gets all of them."""
    stream = declare(server, channel, "s", queue_type="stream")
    fill(server, stream)
    channel.call()
    channel.call(StreamFetch(queue="s", offset=0, end_offset=5))
    found = decode_chunk(channel.bodies[0])
    assert [record.body for record in found] == [b"first", b"long", b"second", b"large", b"third"]
    assert found[1].routing_key == LONG


def test_a_lease(server: Server, channel: ClientChannel) -> None:
    """The same for messages that are leased."""
    queue = declare(server, channel)
    fill(server, queue)
    (opened,) = channel.call(LeaseOpen(queue="q", consumer="c"))
    assert isinstance(opened, LeaseOpenOk)
    channel.call(LeaseExtend(queue="q", consumer="c", epoch=opened.epoch, max_messages=5))
    channel.call(LeaseFetch(queue="q", consumer="c", offset=0, end_offset=5))
    found = decode_chunk(channel.bodies[0])
    assert [len(record.routing_key) for record in found] == [1, 300, 1, 1, 1]
