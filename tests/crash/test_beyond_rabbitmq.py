"""What ordinary queues do here beyond RabbitMQ, over a crash of the broker: held, remembered and paused as before."""

import time

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.crash.with_pika import opened
from tests.servers import BrokerProcess


def again(broker: BrokerProcess) -> None:
    broker.kill()
    broker.start()


def properties(message_id: str | None = None, **headers: object) -> pika.BasicProperties:
    return pika.BasicProperties(delivery_mode=2, message_id=message_id, headers=headers)


def numbered(number: int) -> pika.BasicProperties:
    return pika.BasicProperties(delivery_mode=2, headers={"x-producer-id": "p", "x-producer-seq": number})


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
    deadline = time.monotonic() + 60
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
        found = drain(channel, "q")
        # A machine that was slower than that has found what was due.
        if time.monotonic() - started < 4.9:
            assert found == []
        found += wait_for(channel, "q", 2 - len(found))
        assert sorted(found) == [b"kept ", b"kept x"]
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


def test_what_came_once_comes_once(broker: BrokerProcess) -> None:
    """Duplicates are known after the crash, those of consumed messages too; what was never confirmed may come."""
    with opened(broker) as channel:
        channel.queue_declare("q", durable=True, arguments={"x-dedup-window": 600_000})
        for name in ("consumed", "there"):
            channel.basic_publish("", "q", name.encode(), properties(name))
        for number in (1, 2):
            channel.basic_publish("", "q", b"%d" % number, numbered(number))
        method, _, body = channel.basic_get("q")
        assert body == b"consumed"
        channel.basic_ack(method.delivery_tag)
        # What is confirmed comes after the acknowledgement in the journal.
        channel.basic_publish("", "q", b"last", properties())
    again(broker)
    for _ in range(2):
        with opened(broker) as channel:
            for name in ("consumed", "there", "new"):
                channel.basic_publish("", "q", name.encode(), properties(name))
            for number in (1, 2, 3):
                channel.basic_publish("", "q", b"%d" % number, numbered(number))
            assert channel.queue_declare("q", passive=True).method.message_count == 6
        again(broker)
    with opened(broker) as channel:
        assert drain(channel, "q") == [b"there", b"1", b"2", b"last", b"new", b"3"]


def test_unconfirmed_messages_can_be_published_again(broker: BrokerProcess) -> None:
    """Whatever a crash in the middle takes: what is published once more is there once, in order of its numbers."""
    published = 0
    with opened(broker) as channel:
        channel.queue_declare("q", durable=True, arguments={"x-dedup-size": 10})
    for _ in range(3):
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        hasty = connection.channel()
        for number in range(1, published + 301):
            hasty.basic_publish("", "q", b"%d" % number, numbered(number))
        published += 300
        again(broker)
    with opened(broker) as channel:
        for number in range(1, published + 1):
            channel.basic_publish("", "q", b"%d" % number, numbered(number))
        assert drain(channel, "q") == [b"%d" % number for number in range(1, published + 1)]


def test_a_pause_goes_on(broker: BrokerProcess) -> None:
    """A queue that was told to pause, or to go on, does so after the crash."""
    with opened(broker) as channel:
        channel.queue_declare("q", durable=True)
        channel.queue_declare("other", durable=True, arguments={"x-paused": True})
        for queue, command in (("q", "pause"), ("other", "resume")):
            channel.basic_publish("", queue, b"m", properties())
            channel.basic_publish("", queue, b"", properties(**{"x-queue-command": command}), mandatory=True)
    again(broker)
    with opened(broker) as channel:
        assert drain(channel, "q") == []
        assert drain(channel, "other") == [b"m"]
        channel.basic_publish("", "q", b"", properties(**{"x-queue-command": "resume"}), mandatory=True)
        assert drain(channel, "q") == [b"m"]
