"""A broker stopped in order and started again: what is durable is there as it was, what is transient is not."""

import sqlite3
import time
from contextlib import closing
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.crash.with_pika import opened
from tests.servers import BrokerProcess

PERSISTENT = pika.BasicProperties(delivery_mode=2)
HOW = ["stopped", "killed"]


def _end_and_start(broker: BrokerProcess, how: str) -> None:
    if how == "stopped":
        assert broker.stop() == 0
    else:
        broker.kill()
    broker.start()


def _drain(channel: BlockingChannel, queue: str) -> list[tuple[bytes, bool]]:
    """Bodies and redelivered flags of all that is on the queue."""
    got: list[tuple[bytes, bool]] = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return got
        got.append((body, method.redelivered))


@pytest.mark.parametrize("how", HOW)
def test_exchanges_queues_and_bindings_stay(broker: BrokerProcess, how: str) -> None:
    """Durable exchanges of every type route as they did, arguments of bindings included."""
    with opened(broker) as channel:
        for kind in ("direct", "fanout", "topic", "headers"):
            channel.exchange_declare(f"x.{kind}", kind, durable=True)
        channel.exchange_declare("x.internal", "fanout", durable=True, internal=True)
        for queue in ("q.one", "q.two"):
            channel.queue_declare(queue, durable=True, arguments={"x-anything": [1, "two", {"three": None}]})
        channel.queue_bind("q.one", "x.direct", "one")
        channel.queue_bind("q.two", "x.direct", "two")
        channel.queue_bind("q.one", "x.fanout")
        channel.queue_bind("q.two", "x.fanout")
        channel.queue_bind("q.one", "x.topic", "a.*.c")
        channel.queue_bind("q.two", "x.topic", "#")
        channel.queue_bind("q.one", "x.headers", arguments={"x-match": "all", "color": "red", "size": 3})
        channel.queue_bind("q.two", "x.headers", arguments={"x-match": "any", "color": "red", "size": 4})
        channel.queue_bind("q.two", "x.direct", "dropped")
        channel.queue_unbind("q.two", "x.direct", "dropped")
        channel.queue_declare("q.gone", durable=True)
        channel.queue_delete("q.gone")
        channel.exchange_declare("x.gone", durable=True)
        channel.exchange_delete("x.gone")
    _end_and_start(broker, how)
    red = pika.BasicProperties(headers={"color": "red", "size": 3}, delivery_mode=2)
    with opened(broker) as channel:
        for body, exchange, key, properties in (
            (b"direct", "x.direct", "one", PERSISTENT),
            (b"fanout", "x.fanout", "", PERSISTENT),
            (b"topic", "x.topic", "a.b.c", PERSISTENT),
            (b"headers", "x.headers", "", red),
            (b"dropped", "x.direct", "dropped", PERSISTENT),
        ):
            channel.basic_publish(exchange, key, body, properties)
        assert [body for body, _ in _drain(channel, "q.one")] == [b"direct", b"fanout", b"topic", b"headers"]
        assert [body for body, _ in _drain(channel, "q.two")] == [b"fanout", b"topic", b"headers"]
        # An equal declaration finds what is there; nothing of it was forgotten.
        channel.exchange_declare("x.internal", "fanout", durable=True, internal=True)
    for missing in ("q.gone", "x.gone"):
        assert not _exists(broker, missing)


def _exists(broker: BrokerProcess, name: str) -> bool:
    with opened(broker) as channel:
        declare = channel.exchange_declare if name.startswith("x.") else channel.queue_declare
        try:
            declare(name, passive=True)
        except ChannelClosedByBroker as closed:
            if closed.reply_code == 404:
                return False
            raise
        return True


@pytest.mark.parametrize("how", HOW)
def test_what_is_transient_ends_with_the_broker(broker: BrokerProcess, how: str) -> None:
    """Transient exchanges, queues and messages, and exclusive queues, are not there after a restart."""
    with opened(broker) as channel:
        channel.exchange_declare("x.transient", durable=False)
        channel.queue_declare("q.transient", durable=False)
        channel.queue_declare("q.durable", durable=True)
        channel.queue_declare("q.exclusive", durable=True, exclusive=True)
        channel.queue_bind("q.transient", "amq.direct", "key")
        channel.queue_bind("q.durable", "x.transient", "key")
        channel.queue_bind("q.durable", "amq.direct", "key")
        channel.basic_publish("amq.direct", "key", b"persistent", PERSISTENT)
        channel.basic_publish("amq.direct", "key", b"transient")
        if how == "killed":
            broker.kill()
    if how == "stopped":
        assert broker.stop() == 0
    broker.start()
    for name in ("x.transient", "q.transient", "q.exclusive"):
        assert not _exists(broker, name)
    with opened(broker) as channel:
        assert [body for body, _ in _drain(channel, "q.durable")] == [b"persistent"]


@pytest.mark.parametrize("how", HOW)
def test_messages_stay_as_they_were(broker: BrokerProcess, how: str) -> None:
    """Order, properties, headers, bodies of all sizes and addresses survive; what was taken and not settled is back."""
    headers: dict[str, Any] = {"text": "ü", "n": -5, "big": 2**40, "list": [1, [True, None]], "table": {"deep": "x"}}
    sent = pika.BasicProperties("text/plain", "utf-8", headers, 2, 5, "corr", "reply", None, "id", 1_700_000_000, "t")
    bodies = [b"", b"x", bytes(100_000), b"last"]
    with opened(broker) as channel:
        channel.queue_declare("q", durable=True)
        channel.queue_bind("q", "amq.topic", "some.#")
        for body in bodies[:-1]:
            channel.basic_publish("amq.topic", "some.key", body, sent)
        settled = channel.basic_get("q", auto_ack=True)
        assert settled[2] == b""
        assert channel.basic_get("q")[2] == b"x"
        # Nothing answers an acknowledgement; the confirm of a later message says that both are synced.
        channel.basic_publish("amq.topic", "some.key", bodies[-1], sent)
    _end_and_start(broker, how)
    with opened(broker) as channel:
        for body in bodies[1:]:
            method, properties, found = channel.basic_get("q", auto_ack=True)
            assert found == body
            assert (method.exchange, method.routing_key) == ("amq.topic", "some.key")
            assert method.redelivered == (how == "killed" or body == b"x")
            assert properties == sent
        assert channel.basic_get("q")[0] is None


@pytest.mark.parametrize("how", HOW)
def test_a_stream_goes_on_at_its_offset(broker: BrokerProcess, how: str) -> None:
    """Records keep their offsets over a restart, and the next one gets the next."""
    stream = {"x-queue-type": "stream"}
    with opened(broker) as channel:
        channel.queue_declare("s", durable=True, arguments=stream)
        for number in range(5):
            channel.basic_publish("", "s", b"%d" % number)
    _end_and_start(broker, how)
    with opened(broker) as channel:
        assert channel.queue_declare("s", durable=True, arguments=stream).method.message_count == 5
        channel.basic_publish("", "s", b"5")
        channel.basic_qos(prefetch_count=10)
        found = []
        for method, properties, body in channel.consume("s", arguments={"x-stream-offset": 3}, inactivity_timeout=60):
            found.append((properties.headers["x-stream-offset"], body))
            channel.basic_ack(method.delivery_tag)
            if len(found) == 3:
                break
        channel.cancel()
    assert found == [(3, b"3"), (4, b"4"), (5, b"5")]


@pytest.mark.parametrize("how", HOW)
def test_a_named_reader_goes_on_at_its_place(broker: BrokerProcess, how: str) -> None:
    """What a reader acknowledged is not delivered again, but for the last moment before a crash; all else is."""
    with opened(broker) as channel:
        channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
        for number in range(20):
            channel.basic_publish("", "s", b"%d" % number)
        assert _read_as_reader(channel, 8) == list(range(8))
        _wait_until_kept(broker, 8)
    for first in (8, 14):
        _end_and_start(broker, how)
        with opened(broker) as channel:
            assert _read_as_reader(channel, 4) == list(range(first, first + 4))
            assert _read_as_reader(channel, 2) == [first + 4, first + 5]
            _wait_until_kept(broker, first + 6)


def _wait_until_kept(broker: BrokerProcess, place: int) -> None:
    """Return once the place of the reader is where a kill leaves it."""
    deadline = time.monotonic() + 60
    with closing(sqlite3.connect(f"file:{broker.data}/definitions.sqlite?mode=ro", uri=True)) as database:
        while database.execute("SELECT offset FROM reader_offsets").fetchall() != [(place,)]:
            assert time.monotonic() < deadline, "the place is not kept"
            time.sleep(0.01)


def _read_as_reader(channel: BlockingChannel, count: int) -> list[int]:
    """Read and acknowledge the next messages."""
    channel.basic_qos(prefetch_count=3)
    found: list[int] = []
    where = {"x-stream-reader": "reader", "x-stream-offset": "first"}
    for method, properties, _ in channel.consume("s", arguments=where, inactivity_timeout=60):
        found.append(properties.headers["x-stream-offset"])
        channel.basic_ack(method.delivery_tag)
        if len(found) == count:
            break
    channel.cancel()
    return found


def test_many_restarts(broker: BrokerProcess) -> None:
    """What is never touched stays where it is, however often the broker starts; what is added comes behind it."""
    with opened(broker) as channel:
        channel.queue_declare("q", durable=True)
    for number in range(4):
        with opened(broker) as channel:
            channel.basic_publish("", "q", b"%d" % number, PERSISTENT)
        _end_and_start(broker, HOW[number % 2])
    with opened(broker) as channel:
        assert [body for body, _ in _drain(channel, "q")] == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("how", HOW)
def test_what_nobody_had_is_not_redelivered(broker: BrokerProcess, how: str) -> None:
    """A stop in order knows which messages were delivered; after a kill any may have been."""
    with opened(broker) as channel:
        channel.queue_declare("q", durable=True)
        channel.queue_declare("priorities", durable=True, arguments={"x-max-priority": 3})
        for number in range(6):
            channel.basic_publish("", "q", b"%d" % number, PERSISTENT)
            ranked = pika.BasicProperties(delivery_mode=2, priority=number % 4)
            channel.basic_publish("", "priorities", b"%d" % number, ranked)
        for _ in range(2):
            channel.basic_get("q")
            channel.basic_get("priorities")
    _end_and_start(broker, how)
    if how == "stopped":
        # A start that delivers nothing knows as much as the one before.
        _end_and_start(broker, how)
    is_known = how == "stopped"
    with opened(broker) as channel:
        assert _drain(channel, "q") == [(b"%d" % number, number < 2 or not is_known) for number in range(6)]
        assert sorted(_drain(channel, "priorities")) == [
            (b"%d" % number, number in (2, 3) or not is_known) for number in range(6)
        ]


def test_a_crash_after_a_stop_flags_all(broker: BrokerProcess) -> None:
    """What a stop knew is over when the next start begins: nothing tells what was delivered since."""
    with opened(broker) as channel:
        channel.queue_declare("q", durable=True)
        for number in range(3):
            channel.basic_publish("", "q", b"%d" % number, PERSISTENT)
    _end_and_start(broker, "stopped")
    with opened(broker) as channel:
        method, _, _ = channel.basic_get("q")
        assert method is not None
        assert not method.redelivered
    _end_and_start(broker, "killed")
    with opened(broker) as channel:
        assert _drain(channel, "q") == [(b"%d" % number, True) for number in range(3)]
