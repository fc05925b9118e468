"""pika, and py-amqp where pika has no way to ask, on what ordinary queues do here beyond RabbitMQ."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial

import amqp
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, NackError

from tests.interop.peer import WAIT_SECONDS
from tests.servers import BrokerProcess


@pytest.fixture
def channel(broker: BrokerProcess) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    opened = connection.channel()
    opened.confirm_delivery()
    yield opened
    connection.close()


def properties(message_id: str | None = None, **headers: object) -> pika.BasicProperties:
    return pika.BasicProperties(delivery_mode=2, message_id=message_id, headers=headers)


def numbered(number: int) -> pika.BasicProperties:
    return pika.BasicProperties(delivery_mode=2, headers={"x-producer-id": "p", "x-producer-seq": number})


def wait_for(channel: BlockingChannel, queue: str) -> bytes:
    """The next message, however long it takes within reason."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is not None:
            return bytes(body)
        time.sleep(0.02)
    pytest.fail("nothing came")


def depth(channel: BlockingChannel, queue: str) -> int:
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def test_delayed_messages_can_be_taken_back(channel: BlockingChannel, name: str) -> None:
    """A publish with x-delay-cancel takes back what the queue holds; too late, it is refused."""
    channel.queue_declare(name, durable=True)
    channel.basic_publish("", name, b"never", properties("a", **{"x-delay": 60_000}))
    channel.basic_publish("", name, b"soon", properties("b", **{"x-delay": 200}))
    channel.basic_publish("", name, b"", properties(**{"x-delay-cancel": "a"}))
    assert wait_for(channel, name) == b"soon"
    with pytest.raises(NackError):
        channel.basic_publish("", name, b"", properties(**{"x-delay-cancel": "b"}))
    assert channel.queue_delete(name).method.message_count == 0


def test_a_delayed_exchange(channel: BlockingChannel, name: str) -> None:
    """What is published to it comes when it is due, and not if it was cancelled there."""
    channel.exchange_declare(name, "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"})
    channel.queue_declare(name, durable=True)
    channel.queue_bind(name, name, "k")
    channel.basic_publish(name, "k", b"never", properties("a", **{"x-delay": 4900}))
    channel.basic_publish(name, "k", b"soon", properties("b", **{"x-delay": 5000}))
    channel.basic_publish(name, "k", b"", properties(**{"x-delay-cancel": "a"}))
    assert depth(channel, name) == 0
    assert wait_for(channel, name) == b"soon"
    channel.exchange_delete(name)


def test_retries_pause(channel: BlockingChannel, name: str) -> None:
    """A rejected message comes again after its pause, and is dead-lettered in the end."""
    dead = f"{name}-dead"
    channel.queue_declare(dead)
    arguments = {
        "x-delayed-retry-type": "failed",
        "x-delayed-retry-min": 200,
        "x-delivery-limit": 1,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": dead,
    }
    channel.queue_declare(name, durable=True, arguments=arguments)
    channel.basic_publish("", name, b"task", properties())
    deliveries = channel.consume(name, inactivity_timeout=WAIT_SECONDS)
    method, _, _ = next(deliveries)
    assert not method.redelivered
    failed = time.monotonic()
    channel.basic_nack(method.delivery_tag)
    method, sent, _ = next(deliveries)
    assert method.redelivered
    assert sent.headers["x-delivery-count"] == 1
    assert time.monotonic() - failed > 0.15
    channel.basic_nack(method.delivery_tag)
    channel.cancel()
    assert wait_for(channel, dead) == b"task"


def test_selectors(channel: BlockingChannel, name: str) -> None:
    """Two consumers of one queue get what each selects by headers of pika's types and by properties."""
    channel.queue_declare(name)
    got: dict[str, list[bytes]] = {"large": [], "late": []}
    for tag, selector in {
        "large": "total BETWEEN 1000 AND 5000.5 AND NOT test AND placed > 1700000000",
        "late": "\"x-late\" = TRUE AND properties.message_id LIKE 'm-_'",
    }.items():
        channel.basic_consume(
            name, lambda _1, _2, _3, body, tag=tag: got[tag].append(body), True, arguments={"x-selector": selector}
        )
    placed = datetime(2026, 1, 1, tzinfo=UTC)
    published: dict[bytes, dict[str, object]] = {
        b"small": {"total": 999, "test": False, "placed": placed},
        b"large": {"total": 5000, "test": False, "placed": placed},
        b"tested": {"total": 5000, "test": True, "placed": placed},
        b"late": {"x-late": True},
    }
    for body, headers in published.items():
        channel.basic_publish("", name, body, properties("m-1", **headers))
    deadline = time.monotonic() + WAIT_SECONDS
    while not all(got.values()) and time.monotonic() < deadline:
        channel.connection.process_data_events(0.05)
    assert got == {"large": [b"large"], "late": [b"late"]}
    assert [channel.basic_get(name, auto_ack=True)[2] for _ in range(3)] == [b"small", b"tested", None]


def test_a_selector_that_is_none(channel: BlockingChannel, name: str) -> None:
    """It closes the channel, and tells what was expected where."""
    channel.queue_declare(name)
    with pytest.raises(ChannelClosedByBroker) as refused:
        channel.basic_consume(name, lambda *_: None, arguments={"x-selector": "total >"})
    expected = "at character 8 (the end): expected a name, a string, a number, ("
    where = f"queue '{name}' in vhost '/'"
    assert refused.value.reply_code == 406
    assert refused.value.reply_text == f"PRECONDITION_FAILED - invalid arg 'x-selector' for {where}: {expected}"


def test_no_local(broker: BrokerProcess, channel: BlockingChannel, name: str) -> None:
    """What py-amqp publishes on any channel of a connection is not for that connection's consumers with no_local."""
    channel.queue_declare(name)
    port = int(broker.url.rsplit(":", 1)[1].split("/")[0])
    with amqp.Connection(f"127.0.0.1:{port}") as connection:
        got: list[object] = []
        connection.channel().basic_consume(
            name, no_local=True, no_ack=True, callback=lambda sent: got.append(sent.body)
        )
        connection.channel().basic_publish(amqp.Message("own"), routing_key=name)
        # Published after it, on a connection of its own.
        connection.channel().queue_declare(name, passive=True)
        channel.basic_publish("", name, b"foreign")
        connection.drain_events(timeout=WAIT_SECONDS)
        assert got == [b"foreign"]
    assert wait_for(channel, name) == b"own"


def take(channel: BlockingChannel, queue: str) -> list[bytes]:
    """All that is ready."""
    found: list[bytes] = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        found.append(got[2])
    return found


def test_each_message_once(channel: BlockingChannel, name: str) -> None:
    """A duplicate is confirmed and goes nowhere, also when its original was consumed."""
    channel.queue_declare(name, durable=True, arguments={"x-dedup-window": 60_000})
    for message_id in ("a", "b", "a"):
        channel.basic_publish("", name, message_id.encode(), properties(message_id), mandatory=True)
    for number in (1, 2, 1, 3):
        channel.basic_publish("", name, b"%d" % number, numbered(number), mandatory=True)
    assert take(channel, name) == [b"a", b"b", b"1", b"2", b"3"]
    channel.basic_publish("", name, b"b", properties("b"), mandatory=True)
    assert take(channel, name) == []


def test_browsing_takes_nothing(channel: BlockingChannel, name: str) -> None:
    """A browser sees what is there and what comes, under its prefetch, and all of it is still there."""
    channel.queue_declare(name, durable=True)
    for body in (b"1", b"2"):
        channel.basic_publish("", name, body, properties())
    channel.basic_qos(prefetch_count=1)
    seen = channel.consume(name, arguments={"x-browse": True}, inactivity_timeout=WAIT_SECONDS)
    for expected in (b"1", b"2"):
        method, _, body = next(seen)
        assert body == expected
        channel.basic_ack(method.delivery_tag)
    channel.basic_publish("", name, b"3", properties())
    method, _, body = next(seen)
    assert body == b"3"
    channel.basic_nack(method.delivery_tag, requeue=False)
    channel.cancel()
    assert take(channel, name) == [b"1", b"2", b"3"]


def test_a_queue_is_paused(channel: BlockingChannel, name: str) -> None:
    """It takes messages and gives none to consumers or basic.get, until it is resumed."""
    channel.queue_declare(name, durable=True)
    taken: list[bytes] = []
    channel.basic_consume(name, lambda _, __, ___, body: taken.append(body), auto_ack=True)
    channel.basic_publish("", name, b"", properties(**{"x-queue-command": "pause"}), mandatory=True)
    channel.basic_publish("", name, b"waits", properties())
    channel.connection.process_data_events(time_limit=0.2)
    assert taken == []
    assert take(channel, name) == []
    assert depth(channel, name) == 1
    channel.basic_publish("", name, b"", properties(**{"x-queue-command": "resume"}), mandatory=True)
    deadline = time.monotonic() + WAIT_SECONDS
    while not taken and time.monotonic() < deadline:
        channel.connection.process_data_events(time_limit=0.1)
    assert taken == [b"waits"]


def keep(bodies: list[bytes], _: object, __: object, ___: object, body: bytes) -> None:
    bodies.append(body)


def test_groups_keep_together(channel: BlockingChannel, name: str) -> None:
    """A group's messages go to the consumer that has the one before, other groups to others."""
    channel.queue_declare(name, arguments={"x-group-header": "group"})
    taken: dict[int, list[bytes]] = {1: [], 2: []}
    for number, consuming in enumerate((channel.connection.channel(), channel.connection.channel()), 1):
        consuming.basic_consume(name, partial(keep, taken[number]))
    for body in (b"a1", b"b1", b"a2", b"b2", b"a3"):
        channel.basic_publish("", name, body, properties(group=body[:1].decode()))
    deadline = time.monotonic() + WAIT_SECONDS
    while sum(map(len, taken.values())) < 5 and time.monotonic() < deadline:
        channel.connection.process_data_events(time_limit=0.1)
    assert sorted(taken.values()) == [[b"a1", b"a2", b"a3"], [b"b1", b"b2"]]


def test_the_last_value_waits(channel: BlockingChannel, name: str) -> None:
    """Of the messages with one key the newest is left."""
    channel.queue_declare(name, durable=True, arguments={"x-last-value-key": "key"})
    for key, body in (("a", b"1"), ("b", b"2"), ("a", b"3")):
        channel.basic_publish("", name, body, properties(key=key))
    assert take(channel, name) == [b"2", b"3"]
