"""pika on what ordinary queues do here beyond RabbitMQ."""

import time
from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import NackError

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
    channel.basic_publish(name, "k", b"never", properties("a", **{"x-delay": 400}))
    channel.basic_publish(name, "k", b"soon", properties("b", **{"x-delay": 500}))
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
