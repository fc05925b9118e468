import pytest

from flintmq.base.limits import TABLE_ENTRIES_MAX
from flintmq.broker.message import TRANSIENT, Address, Entry, Message, Table
from flintmq.broker.queue.base import Queue
from flintmq.broker.tap import Client as TapClient
from flintmq.broker.tap import Tap
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.wire.amqp091.committed_attempts import encode_attempts
from flintmq.wire.amqp091.methods import (
    BasicConsume,
    BasicDeliver,
    BasicGet,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    StageCommit,
    StageOpen,
    StageOpenOk,
    StageReady,
    StageSelect,
)
from flintmq.wire.amqp091.properties import Properties, decode_properties, encode_properties
from tests.unit.gateway.amqp091.pair import PERSISTENT, Client, ClientChannel, Server


def traced() -> tuple[Server, ClientChannel]:
    """A server with the firehose on, and a channel that gets all of it."""
    server = Server()
    server.gateway.tracing.trace(server.vhost, True)
    channel = Client(server).channel()
    channel.call(
        QueueDeclare(queue="traces"),
        QueueBind(queue="traces", exchange="amq.rabbitmq.trace", routing_key="#"),
        BasicConsume(queue="traces", consumer_tag="t", no_ack=True),
    )
    return server, channel


def copies(channel: ClientChannel) -> list[tuple[str, dict[str, object], str]]:
    """The key, the headers and the body of each copy that came."""
    channel.came()
    found = []
    for method, properties, body in channel.contents:
        assert isinstance(method, BasicDeliver)
        assert method.exchange == "amq.rabbitmq.trace"
        found.append((method.routing_key, decode_properties(properties).headers or {}, body))
    return found


def test_a_publish_is_copied() -> None:
    """Under publish.<exchange>, with who, where to, and what it said of itself."""
    server, watcher = traced()
    client = Client(server)
    channel = client.channel()
    channel.call(QueueDeclare(queue="a"), QueueBind(queue="a", exchange="amq.direct", routing_key="k"))
    properties = encode_properties(Properties(headers={"n": 1}, delivery_mode=2, app_id="shop", timestamp=7))
    channel.publish("hello", "k", "amq.direct", properties)
    client.tick()
    watcher._client.tick()
    ((key, headers, body),) = copies(watcher)
    assert (key, body) == ("publish.amq.direct", "hello")
    assert headers == {
        "exchange_name": "amq.direct",
        "routing_keys": ["k"],
        "properties": {"headers": {"n": 1}, "delivery_mode": 2, "app_id": "shop", "timestamp": 7},
        "node": "flintmq@localhost",
        "vhost": "/",
        "connection": "test:1",
        "channel": 1,
        "user": "u",
        "routed_queues": ["a"],
    }


def test_a_delivery_is_copied() -> None:
    """Under deliver.<queue>, to consumers and to basic.get; copies of copies there are none."""
    server, watcher = traced()
    client = Client(server)
    channel = client.channel()
    channel.call(QueueDeclare(queue="a"))
    channel.publish("x", "a")
    channel.publish("y", "a")
    channel.call(BasicGet(queue="a", no_ack=True))
    channel.call(BasicConsume(queue="a", consumer_tag="c"))
    watcher._client.tick()
    found = [(key, headers.get("redelivered"), body) for key, headers, body in copies(watcher)]
    assert found == [
        ("publish.", None, "x"),
        ("publish.", None, "y"),
        ("deliver.a", 0, "x"),
        ("deliver.a", 0, "y"),
    ]


def test_all_routing_keys_are_told() -> None:
    """Those of CC and BCC, too; the latter is told to nobody else."""
    server, watcher = traced()
    client = Client(server)
    channel = client.channel()
    channel.publish("m", "a", "", encode_properties(Properties(headers={"CC": ["b"], "BCC": ["c"]})))
    client.tick()
    watcher._client.tick()
    ((_, headers, _),) = copies(watcher)
    assert headers["routing_keys"] == ["a", "b", "c"]


def test_a_traced_queue_may_be_the_one_that_is_delivered_from() -> None:
    """What is delivered from the queue of the copies is copied, at the end of the dispatch, and that is not again."""
    server = Server()
    server.gateway.tracing.trace(server.vhost, True)
    client = Client(server)
    channel = client.channel()
    channel.call(
        QueueDeclare(queue="t"),
        QueueBind(queue="t", exchange="amq.rabbitmq.trace", routing_key="deliver.#"),
        BasicConsume(queue="t", consumer_tag="c", no_ack=True),
    )
    channel.publish("m", "t")
    client.tick()
    client.tick()
    assert [(body, method.exchange) for method, _, body in channel.contents if isinstance(method, BasicDeliver)] == [
        ("m", ""),
        ("m", "amq.rabbitmq.trace"),
    ]


def test_nothing_is_asked_while_it_is_off() -> None:
    """The broker has nobody to show messages to, before it is turned on anywhere and after it was turned off."""
    server = Server()
    assert server.broker.tick.tap is None
    other = server.broker.add_vhost("other")
    server.gateway.tracing.trace(server.vhost, True)
    server.gateway.tracing.trace(other, True)
    server.gateway.tracing.trace(server.vhost, False)
    assert server.broker.tick.tap is not None
    server.gateway.tracing.trace(other, False)
    assert server.broker.tick.tap is None


def test_other_virtual_hosts_are_left_alone() -> None:
    """One virtual host is traced, and another one is not."""
    server, watcher = traced()
    server.broker.add_vhost("other")
    server.allow(vhost="other")
    client = Client(server, vhost="other")
    channel = client.channel()
    channel.call(QueueDeclare(queue="traces"))
    channel.publish("m", "traces")
    client.tick()
    watcher._client.tick()
    assert copies(watcher) == []


def test_a_queue_that_goes_with_its_copies_waiting() -> None:
    """Copies for a queue that was deleted in the same tick go nowhere, and the broker goes on."""
    server, watcher = traced()
    client = Client(server)
    channel = client.channel()
    channel.publish("m", "nowhere")
    watcher.send(QueueDelete(queue="traces"))
    watcher._client.tick()
    client.tick()
    assert server.host.errors == []


def test_what_is_staged_is_copied_when_it_is_committed() -> None:
    """Once for each queue it goes to, from whoever committed it; and what is discarded is not."""
    server, watcher = traced()
    client = Client(server)
    channel = client.channel()
    for name in ("a", "b"):
        channel.call(QueueDeclare(queue=name, durable=True), QueueBind(queue=name, exchange="amq.fanout"))
    (opened,) = channel.call(StageOpen(transactional_id="tx", owner="query"))
    assert isinstance(opened, StageOpenOk)
    for attempt, body in enumerate(("lost", "won")):
        channel.call(StageSelect("tx", opened.epoch, batch=0, partition=0, attempt=attempt))
        channel.publish(body, "k", "amq.fanout", PERSISTENT)
        channel.call(StageReady())
    watcher._client.tick()
    assert copies(watcher) == []
    channel.call(StageCommit(transactional_id="tx", epoch=opened.epoch, batch=0, attempts=encode_attempts({0: 1})))
    watcher._client.tick()
    found = copies(watcher)
    assert [(key, headers["routed_queues"], body) for key, headers, body in found] == [
        ("publish.amq.fanout", ["a"], "won"),
        ("publish.amq.fanout", ["b"], "won"),
    ]
    assert all((headers["channel"], headers["user"]) == (1, "u") for _, headers, _ in found)


FULL = encode_properties(Properties(headers={"CC": ["q"] * TABLE_ENTRIES_MAX}, delivery_mode=2))


@pytest.mark.parametrize("arguments", [{}, {"x-queue-type": "stream"}], ids=["entries", "stream"])
def test_as_many_keys_as_there_may_be(arguments: Table) -> None:
    """The copy has no more of them than a list takes; the message comes to its queue, published and staged."""
    server, watcher = traced()
    client = Client(server)
    channel = client.channel()
    channel.call(QueueDeclare(queue="q", durable=True, arguments=arguments))
    channel.publish("at once", "q", "", FULL)
    (opened,) = channel.call(StageOpen(transactional_id="tx", owner="query"))
    assert isinstance(opened, StageOpenOk)
    channel.call(StageSelect(transactional_id="tx", epoch=opened.epoch, batch=0, partition=0, attempt=0))
    for body in ("before", "full", "behind"):
        channel.publish(body, "q", "", FULL if body == "full" else PERSISTENT)
    channel.call(StageReady())
    channel.call(StageCommit(transactional_id="tx", epoch=opened.epoch, batch=0, attempts=encode_attempts({0: 0})))
    watcher._client.tick()
    assert (server.host.errors, client.side.closed) == ([], [])
    assert server.vhost.queues["q"].message_count == 4
    found = [(body, headers["routing_keys"]) for _, headers, body in copies(watcher)]
    full = ["q"] * TABLE_ENTRIES_MAX
    assert found == [("at once", full), ("before", ["q"]), ("full", full), ("behind", ["q"])]


def test_more_queues_than_a_list_takes() -> None:
    """The copy names as many as it can."""
    server, watcher = traced()
    Client(server).channel().call(QueueDeclare(queue="q"))
    tap = server.broker.tick.tap
    assert tap is not None
    message = Message(Address("amq.fanout", "k"), CODEC_091, PERSISTENT, b"m", TRANSIENT, 0)
    queues = [server.vhost.queues["q"]] * (TABLE_ENTRIES_MAX + 1)
    assert tap.published(TapClient("test:1", 1, "u", "/"), message, queues) is message
    watcher._client.tick()
    ((_, headers, _),) = copies(watcher)
    assert headers["routed_queues"] == ["q"] * TABLE_ENTRIES_MAX
    assert server.host.errors == []


def test_a_name_as_long_as_may_be() -> None:
    """The key of its copies is cut to what a routing key takes, between two characters."""
    server, watcher = traced()
    client = Client(server)
    channel = client.channel()
    name = "é" * 127
    channel.call(QueueDeclare(queue=name))
    channel.publish("m", name)
    channel.call(BasicGet(queue=name, no_ack=True))
    watcher._client.tick()
    assert [key for key, _, _ in copies(watcher)] == ["publish.", "deliver." + "é" * 123]


class Faulty(Tap):
    """Fails whatever it is shown."""

    def published(self, client: TapClient, message: Message, queues: list[Queue]) -> Message:
        raise ValueError("published")

    def committed(self, client: TapClient, queue: Queue, message: Message) -> None:
        raise ValueError("released")

    def delivered(self, client: TapClient, queue: Queue, entry: Entry) -> None:
        raise ValueError("delivered")

    def end_dispatch(self) -> None:
        raise ValueError("end_dispatch")


def test_tracing_that_fails_costs_no_message() -> None:
    """Nor a connection, nor the copies of another kind of tracing: it is in the log, once a minute."""
    server, watcher = traced()
    server.broker.now_ms = 1_000_000
    server.gateway.tracing.use(Faulty())
    client = Client(server)
    channel = client.channel()
    channel.call(QueueDeclare(queue="q"), BasicConsume(queue="q", consumer_tag="c", no_ack=True))
    (opened,) = channel.call(StageOpen(transactional_id="tx", owner="query"))
    assert isinstance(opened, StageOpenOk)
    channel.publish("a", "q")
    channel.call(StageSelect(transactional_id="tx", epoch=opened.epoch, batch=0, partition=0, attempt=0))
    channel.publish("b", "q")
    channel.call(StageReady())
    channel.call(StageCommit(transactional_id="tx", epoch=opened.epoch, batch=0, attempts=encode_attempts({0: 0})))
    watcher._client.tick()
    assert channel.bodies == [b"a", b"b"]
    assert [(key, body) for key, _, body in copies(watcher)] == [
        ("publish.", "a"), ("deliver.q", "a"), ("publish.", "b"), ("deliver.q", "b"),
    ]  # fmt: skip
    assert len(server.host.errors) == 1
    publisher = client.channel()
    server.broker.now_ms += 59_999
    publisher.publish("c", "q")
    client.tick()
    assert len(server.host.errors) == 1
    server.broker.now_ms += 1
    publisher.publish("d", "q")
    client.tick()
    assert [type(error) for error in server.host.errors] == [ValueError] * 2
    assert client.side.closed == []
    assert channel.bodies == [b"a", b"b", b"c", b"d"]
