"""pika alone: streams, many channels and connections, sizes it negotiates, and a broker that is stopped."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from flintmq.base.limits import MESSAGE_MAX_BYTES
from tests.interop.peer import WAIT_SECONDS
from tests.servers import BrokerProcess

MANY = 200


@pytest.fixture
def stream(channel: BlockingChannel, name: str) -> Iterator[str]:
    """A stream of ten messages, "0" to "9"."""
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    for number in range(10):
        channel.basic_publish("", name, b"%d" % number)
    yield name
    channel.connection.channel().queue_delete(name)


def read(channel: BlockingChannel, stream: str, start: object, count: int) -> list[tuple[int, bytes]]:
    """The next `count` messages from `start` on, with their offsets."""
    channel.basic_qos(prefetch_count=4)
    taken: list[tuple[int, bytes]] = []
    found = channel.consume(stream, arguments={"x-stream-offset": start}, inactivity_timeout=WAIT_SECONDS)
    for method, properties, body in found:
        assert method is not None, f"only {taken} came"
        taken.append((properties.headers["x-stream-offset"], body))
        channel.basic_ack(method.delivery_tag)
        if len(taken) == count:
            break
    channel.cancel()
    return taken


@pytest.mark.parametrize(("start", "first"), [("first", 0), ("last", 9), (0, 0), (7, 7)])
def test_stream_from_an_offset(channel: BlockingChannel, stream: str, start: object, first: int) -> None:
    """A stream is read from its first or last message or an offset on, by every reader again."""
    expected = [(offset, b"%d" % offset) for offset in range(first, 10)]
    for _ in range(2):
        assert read(channel, stream, start, len(expected)) == expected


def test_stream_from_a_time(channel: BlockingChannel, stream: str) -> None:
    """A timestamp in the past finds the first message at or after it, one in the future finds none that is there."""
    now = datetime.now(UTC)
    assert read(channel, stream, now - timedelta(hours=1), 10)[0] == (0, b"0")
    # Timestamps are whole seconds: the next one begins after this loop.
    while datetime.now(UTC).replace(microsecond=0) <= now:
        time.sleep(0.05)
    boundary = datetime.now(UTC).replace(microsecond=0)
    channel.basic_publish("", stream, b"later")
    assert read(channel, stream, boundary, 1) == [(10, b"later")]


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("basic_get", {"queue": "stream"}),
        ("queue_purge", {"queue": "stream"}),
        ("basic_consume", {"queue": "stream", "on_message_callback": print, "auto_ack": True}),
    ],
)
def test_not_implemented(broker: BrokerProcess, method: str, arguments: dict[str, Any]) -> None:
    """What streams do not do is 540, closes the connection, and is never ignored."""
    other = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = other.channel()
    channel.queue_declare("stream", durable=True, arguments={"x-queue-type": "stream"})
    with pytest.raises(ConnectionClosedByBroker) as raised:
        getattr(channel, method)(**arguments)
    assert raised.value.reply_code == 540
    assert raised.value.reply_text.startswith("NOT_IMPLEMENTED - ")
    assert other.is_closed


def test_internal_exchange(channel: BlockingChannel, name: str) -> None:
    """Nobody publishes to an internal exchange."""
    channel.exchange_declare(name, internal=True, auto_delete=True)
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, name)
    with pytest.raises(ChannelClosedByBroker) as raised:
        channel.basic_publish(name, "", b"")
    assert raised.value.reply_code == 403
    text = f"ACCESS_REFUSED - cannot publish to internal exchange '{name}' in vhost '/'"
    assert raised.value.reply_text == text


def test_a_body_of_the_maximum_and_one_above(connection: pika.BlockingConnection, channel: BlockingChannel) -> None:
    """A body of the maximum passes; a byte more is 406, and the connection goes on."""
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.basic_publish("", queue, bytes(MESSAGE_MAX_BYTES))
    assert len(channel.basic_get(queue, auto_ack=True)[2]) == MESSAGE_MAX_BYTES
    with pytest.raises(ChannelClosedByBroker) as raised:
        channel.basic_publish("", queue, bytes(MESSAGE_MAX_BYTES + 1))
    assert raised.value.reply_code == 406
    assert raised.value.reply_text == (
        f"PRECONDITION_FAILED - message size {MESSAGE_MAX_BYTES + 1} is larger than configured max size "
        f"{MESSAGE_MAX_BYTES}"
    )
    assert connection.channel().queue_declare(queue, passive=True).method.message_count == 0


def test_small_frames(broker: BrokerProcess) -> None:
    """A client that asks for small frames sends and gets a body in many of them."""
    small = pika.BlockingConnection(pika.URLParameters(broker.url + "?frame_max=4096"))
    channel = small.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    body = bytes(range(256)) * 200
    channel.basic_publish("", queue, body)
    assert channel.basic_get(queue)[2] == body
    small.close()


def test_many_channels(connection: pika.BlockingConnection) -> None:
    """Two hundred channels of one connection work side by side, and one that fails leaves the rest."""
    channels = [connection.channel() for _ in range(MANY)]
    queue = channels[0].queue_declare("", exclusive=True).method.queue
    for number, channel in enumerate(channels):
        channel.basic_publish("", queue, b"%d" % number)
        channel.queue_declare(queue, passive=True)
    with pytest.raises(ChannelClosedByBroker):
        channels[100].queue_declare("not there", passive=True)
    bodies = {channel.basic_get(queue)[2] for channel in channels if channel.is_open}
    assert len(bodies) == MANY - 1
    for channel in channels[101:]:
        channel.close()
    assert channels[0].queue_declare(queue, passive=True).method.message_count == MANY - 100


def test_many_connections(broker: BrokerProcess, channel: BlockingChannel) -> None:
    """Two hundred connections at once each publish and are confirmed."""
    queue = channel.queue_declare("many", auto_delete=True).method.queue
    opened = [pika.BlockingConnection(pika.URLParameters(broker.url)) for _ in range(MANY)]
    for connection in opened:
        publisher = connection.channel()
        publisher.confirm_delivery()
        publisher.basic_publish("", queue, b"one of many", mandatory=True)
    assert channel.queue_purge(queue).method.message_count == MANY
    for connection in opened:
        connection.close()
    channel.queue_delete(queue)


def test_the_broker_is_stopped(tmp_path: Path) -> None:
    """A broker told to stop says 320 to its clients, and has what it confirmed when it is there again."""
    with BrokerProcess(tmp_path / "data") as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("kept", durable=True)
        channel.basic_publish("", "kept", b"persistent", pika.BasicProperties(delivery_mode=2))
        channel.basic_publish("", "kept", b"transient")
        broker.process.terminate()
        with pytest.raises(ConnectionClosedByBroker) as raised:
            connection.sleep(WAIT_SECONDS)
        assert raised.value.reply_code == 320
        text = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
        assert raised.value.reply_text == text
        assert broker.ended() == 0
        broker.start()
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        method, _, body = channel.basic_get("kept")
        assert (body, method.redelivered) == (b"persistent", False)
        assert channel.basic_get("kept")[0] is None
        connection.close()


def test_exchanges_bound_to_exchanges(channel: BlockingChannel, name: str) -> None:
    """exchange_bind and exchange_unbind: a message goes on through another exchange, and once to each queue."""
    channel.exchange_declare(name, "topic", durable=True, arguments={"alternate-exchange": f"{name}.rest"})
    for suffix in ("all", "rest"):
        channel.exchange_declare(f"{name}.{suffix}", "fanout", durable=True)
    queue, rest = (channel.queue_declare("", exclusive=True).method.queue for _ in range(2))
    channel.queue_bind(rest, f"{name}.rest")
    channel.queue_bind(queue, f"{name}.all")
    channel.queue_bind(queue, name, "a.b")
    channel.exchange_bind(f"{name}.all", name, "a.#")
    for key in ("a.b", "a.c", "b"):
        channel.basic_publish(name, key, key.encode(), mandatory=True)
    channel.exchange_unbind(f"{name}.all", name, "a.#")
    channel.basic_publish(name, "a.c", b"unbound", mandatory=True)
    assert [body for _, _, body in _all(channel, queue)] == [b"a.b", b"a.c"]
    assert [body for _, _, body in _all(channel, rest)] == [b"b", b"unbound"]
    for suffix in ("", ".all", ".rest"):
        channel.exchange_delete(name + suffix)


def _all(channel: BlockingChannel, queue: str) -> list[tuple[Any, Any, bytes]]:
    found = []
    while (taken := channel.basic_get(queue, auto_ack=True))[0] is not None:
        found.append(taken)
    return found
