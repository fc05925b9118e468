"""Streams as pika sees them: what is kept, what consumers choose, whose turn it is, and readers that come back."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.interop.peer import WAIT_SECONDS

Declare = Callable[..., str]


@pytest.fixture
def channel(channel: BlockingChannel) -> BlockingChannel:
    """Readers of streams need a limit."""
    channel.basic_qos(prefetch_count=50)
    return channel


@pytest.fixture
def declare(connection: pika.BlockingConnection, name: str) -> Iterator[Declare]:
    """Declares the stream with these arguments."""

    def declared(**arguments: object) -> str:
        table = {key.replace("_", "-"): value for key, value in arguments.items()}
        connection.channel().queue_declare(name, durable=True, arguments={"x-queue-type": "stream", **table})
        return name

    yield declared
    connection.channel().queue_delete(name)


def publish(
    channel: BlockingChannel, stream: str, count: int, body: bytes = b"", headers: dict[str, str] | None = None
) -> None:
    for number in range(count):
        channel.basic_publish("", stream, body or b"%d" % number, pika.BasicProperties(headers=headers))


def offsets(
    channel: BlockingChannel, stream: str, count: int, *, is_all: bool = False, **arguments: object
) -> list[int]:
    """Of the next messages: so many, and what else comes within a moment if these are all. All are acknowledged."""
    table = {key.replace("_", "-"): value for key, value in arguments.items()}
    found: list[int] = []
    while True:
        patience = WAIT_SECONDS if len(found) < count else 0.7
        method, properties, _ = next(channel.consume(stream, arguments=table, inactivity_timeout=patience))
        if method is None:
            break
        found.append(properties.headers["x-stream-offset"])
        channel.basic_ack(method.delivery_tag)
        if len(found) >= count and not is_all:
            break
    channel.cancel()
    return found


def test_retention_by_bytes(channel: BlockingChannel, declare: Declare) -> None:
    """Old messages go, the newest are kept, and whoever asks for what is gone gets the first there is."""
    stream = declare(x_max_length_bytes=100_000, x_stream_max_segment_size_bytes=20_000)
    publish(channel, stream, 300, bytes(2_000))
    deadline = time.monotonic() + WAIT_SECONDS
    while (left := channel.queue_declare(stream, passive=True).method.message_count) > 60:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert left > 30
    assert offsets(channel, stream, left, x_stream_offset="first") == list(range(300 - left, 300))
    assert offsets(channel, stream, 1, x_stream_offset=3) == [300 - left]


def test_retention_by_age(channel: BlockingChannel, declare: Declare) -> None:
    """What is too old goes by itself, but for the last file."""
    stream = declare(x_max_age="1s", x_stream_max_segment_size_bytes=20_000)
    publish(channel, stream, 50, bytes(2_000))
    deadline = time.monotonic() + WAIT_SECONDS
    while channel.queue_declare(stream, passive=True).method.message_count > 12:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_declarations_have_to_agree(connection: pika.BlockingConnection, declare: Declare) -> None:
    """The limits of a stream are a part of what it is."""
    stream = declare(x_max_age="1h", x_max_length_bytes=5_000)
    declare(x_max_age="1h", x_max_length_bytes=5_000)
    for argument, told in (("x-max-age", "2h"), ("x-max-length-bytes", 6_000)):
        wanted = {"x-queue-type": "stream", "x-max-age": "1h", "x-max-length-bytes": 5_000, argument: told}
        with pytest.raises(ChannelClosedByBroker, match=f"inequivalent arg .*{argument}") as raised:
            connection.channel().queue_declare(stream, durable=True, arguments=wanted)
        assert raised.value.reply_code == 406


def test_filters(channel: BlockingChannel, declare: Declare) -> None:
    """A consumer gets what has one of its filter values, and with that wish what has none."""
    stream = declare(x_stream_filter_size_bytes=32)
    for value in ("a", "b", None, "a", "c"):
        headers: dict[str, str] = {} if value is None else {"x-stream-filter-value": value}
        publish(channel, stream, 2, headers=headers)
    begin = {"x_stream_offset": "first"}
    assert offsets(channel, stream, 4, is_all=True, x_stream_filter="a", **begin) == [0, 1, 6, 7]
    assert offsets(channel, stream, 4, is_all=True, x_stream_filter=["b", "c"], **begin) == [2, 3, 8, 9]
    both = {"x_stream_filter": "c", "x_stream_match_unfiltered": True}
    assert offsets(channel, stream, 4, is_all=True, **both, **begin) == [4, 5, 8, 9]
    everything = offsets(channel, stream, 10, is_all=True, x_stream_match_unfiltered=True, **begin)
    assert everything == list(range(10))


def test_a_time_ago(channel: BlockingChannel, declare: Declare) -> None:
    """An age is as good as a timestamp."""
    stream = declare()
    publish(channel, stream, 3)
    time.sleep(5.5)
    publish(channel, stream, 3)
    assert offsets(channel, stream, 3, x_stream_offset="5s") == [3, 4, 5]
    assert offsets(channel, stream, 6, x_stream_offset="1Y") == [0, 1, 2, 3, 4, 5]


def test_single_active_consumer(connection: pika.BlockingConnection, declare: Declare) -> None:
    """When the active one ends, the next goes on behind what it has acknowledged."""
    stream = declare(x_single_active_consumer=True)
    publishing = connection.channel()
    publish(publishing, stream, 6)
    taken: dict[str, list[int]] = {"one": [], "two": []}
    channels: list[BlockingChannel] = []

    def take(channel: Any, method: Any, properties: Any, _: bytes) -> None:  # noqa: ANN401 - pika has no types
        mine = taken[method.consumer_tag]
        mine.append(properties.headers["x-stream-offset"])
        if len(mine) <= 2:
            channel.basic_ack(method.delivery_tag)

    for tag in taken:
        channels.append(connection.channel())
        channels[-1].basic_qos(prefetch_count=4)
        channels[-1].basic_consume(stream, take, consumer_tag=tag, arguments={"x-stream-offset": "first"})
    deadline = time.monotonic() + WAIT_SECONDS
    while len(taken["one"]) < 6 and time.monotonic() < deadline:
        connection.process_data_events(0.2)
    assert taken == {"one": [0, 1, 2, 3, 4, 5], "two": []}
    channels[0].close()
    while len(taken["two"]) < 4 and time.monotonic() < deadline:
        connection.process_data_events(0.2)
    assert taken["two"] == [2, 3, 4, 5]


def test_a_reader_that_comes_back(channel: BlockingChannel, declare: Declare) -> None:
    """The broker knows where it was; an offset counts the first time only."""
    stream = declare()
    publish(channel, stream, 10)
    where: dict[str, Any] = {"x_stream_reader": "r", "x_stream_offset": 2}
    assert offsets(channel, stream, 3, **where) == [2, 3, 4]
    assert offsets(channel, stream, 2, **where) == [5, 6]
    assert offsets(channel, stream, 1, x_stream_reader="other", x_stream_offset="last") == [9]
    with pytest.raises(ChannelClosedByBroker, match="invalid arg .*x-stream-reader"):
        channel.basic_consume(stream, print, arguments={"x-stream-reader": ""})
