"""What ordinary queues do here beyond RabbitMQ, over a crash of the broker: held, remembered and paused as before."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError

from tests.servers import BrokerProcess


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data") as running:
        yield running


@contextmanager
def opened(broker: BrokerProcess) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.confirm_delivery()
    yield channel
    # A broker that was killed meanwhile does not answer.
    with suppress(AMQPError):
        connection.close()


def again(broker: BrokerProcess) -> None:
    broker.kill()
    broker.start()


def properties(message_id: str | None = None, **headers: object) -> pika.BasicProperties:
    return pika.BasicProperties(delivery_mode=2, message_id=message_id, headers=headers)


def drain(channel: BlockingChannel, queue: str) -> list[bytes]:
    found: list[bytes] = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        found.append(body)


def wait_for(channel: BlockingChannel, queue: str, count: int) -> list[bytes]:
    """So many messages, and whatever else comes with them."""
    found: list[bytes] = []
    deadline = time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        found += drain(channel, queue)
        time.sleep(0.02)
    return found


def test_what_was_held_is_held(broker: BrokerProcess) -> None:
    """Queues and delayed exchanges deliver after the restart what is due by then, but for what was cancelled."""
    with opened(broker) as channel:
        channel.queue_declare("q", durable=True)
        channel.exchange_declare("x", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"})
        channel.queue_bind("q", "x")
        started = time.monotonic()
        for exchange in ("", "x"):
            for message_id in ("kept", "cancelled"):
                sent = properties(f"{message_id}{exchange}", **{"x-delay": 5000})
                channel.basic_publish(exchange, "q", f"{message_id} {exchange}".encode(), sent)
            channel.basic_publish(exchange, "q", b"", properties(**{"x-delay-cancel": f"cancelled{exchange}"}))
    again(broker)
    with opened(broker) as channel:
        early = drain(channel, "q") if time.monotonic() - started < 4.5 else []
        assert early == []
        assert sorted(wait_for(channel, "q", 2)) == [b"kept ", b"kept x"]
        assert channel.queue_delete("q").method.message_count == 0
    again(broker)
    with opened(broker) as channel:
        channel.queue_declare("q", durable=True)
        assert drain(channel, "q") == []


def test_what_was_selected_is_selected(broker: BrokerProcess) -> None:
    """A durable binding has its selector after a crash, and is unbound by it."""
    selecting = {"x-selector": "size = 'large'"}
    with opened(broker) as channel:
        channel.queue_declare("q", durable=True)
        channel.queue_bind("q", "amq.direct", "k", arguments=selecting)
        for size in ("small", "large"):
            channel.basic_publish("amq.direct", "k", f"{size} before".encode(), properties(size=size))
    again(broker)
    with opened(broker) as channel:
        for size in ("small", "large"):
            channel.basic_publish("amq.direct", "k", f"{size} after".encode(), properties(size=size))
        assert drain(channel, "q") == [b"large before", b"large after"]
        channel.queue_unbind("q", "amq.direct", "k", selecting)
        channel.basic_publish("amq.direct", "k", b"unbound", properties(size="large"))
        assert drain(channel, "q") == []
