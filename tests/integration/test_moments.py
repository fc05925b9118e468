"""One moment counts for one tick: how long a tick takes is nothing that a message could die of."""

import itertools
import time
from collections.abc import Callable, Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from flintmq.embedded import Broker
from flintmq.server import amqp
from tests.waiting import WAIT_SECONDS

START_MS = 1_900_000_000_000
AT_ONCE = pika.BasicProperties(expiration="0")


@pytest.fixture
def channel(monkeypatch: pytest.MonkeyPatch) -> Iterator[BlockingChannel]:
    """A channel of a broker whose clock is a millisecond further each time that somebody looks at it."""
    looks = itertools.count(START_MS)
    ticking: Callable[[], int] = lambda: next(looks)  # noqa: E731 - a function of its own would have to be named
    assert amqp.AmqpServer.__init__.__defaults__ is not None
    monkeypatch.setattr(
        amqp.AmqpServer.__init__,
        "__defaults__",
        tuple(ticking if each is amqp.wall_clock_ms else each for each in amqp.AmqpServer.__init__.__defaults__),
    )
    with Broker() as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        yield connection.channel()
        connection.close()


def next_body(channel: BlockingChannel, got: list[bytes], count: int) -> list[bytes]:
    """What consumers got, once there are so many."""
    deadline = time.monotonic() + WAIT_SECONDS
    while len(got) < count and time.monotonic() < deadline:
        channel.connection.process_data_events(0.1)
    return got


def collect(channel: BlockingChannel, queue: str, got: list[bytes], no_ack: bool = True) -> None:
    channel.basic_consume(queue, lambda _c, _m, _p, body: got.append(body), auto_ack=no_ack)


def test_a_message_that_lives_no_time_is_delivered_to_who_waits(channel: BlockingChannel) -> None:
    """With an idle consumer, none of a hundred messages with expiration 0 dies, however the clock moves on."""
    channel.queue_declare("q", exclusive=True)
    got: list[bytes] = []
    collect(channel, "q", got)
    wanted = [str(number).encode() for number in range(100)]
    for number, body in enumerate(wanted):
        channel.basic_publish("", "q", body, AT_ONCE)
        next_body(channel, got, number + 1)
    assert got == wanted


def test_a_dead_letter_meets_who_waits_before_it_expires(channel: BlockingChannel) -> None:
    """A dead letter reaches an idle consumer of a queue whose messages live no time."""
    channel.queue_declare("dead", exclusive=True, arguments={"x-message-ttl": 0})
    channel.queue_declare(
        "q", exclusive=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    )
    got: list[bytes] = []
    collect(channel, "dead", got)
    for number in range(20):
        channel.basic_publish("", "q", b"m")
        method, _, _ = channel.basic_get("q")
        channel.basic_reject(method.delivery_tag, requeue=False)
        assert len(next_body(channel, got, number + 1)) == number + 1


def test_a_delayed_message_meets_who_waits_before_it_expires(channel: BlockingChannel) -> None:
    """A message whose delay ends reaches an idle consumer of a queue whose messages live no time."""
    channel.queue_declare("q", exclusive=True, arguments={"x-message-ttl": 0})
    got: list[bytes] = []
    collect(channel, "q", got)
    for number in range(20):
        channel.basic_publish("", "q", b"m", pika.BasicProperties(headers={"x-delay": 1}))
        assert len(next_body(channel, got, number + 1)) == number + 1


def test_what_comes_back_has_expired(channel: BlockingChannel) -> None:
    """A message with expiration 0 that is rejected with requeue is dead-lettered, and nobody gets it again."""
    channel.queue_declare("dead", exclusive=True)
    channel.queue_declare(
        "q", exclusive=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    )
    deliveries: list[int] = []

    def reject(channel: BlockingChannel, method: pika.spec.Basic.Deliver, *_: object) -> None:
        deliveries.append(method.delivery_tag)
        channel.basic_reject(method.delivery_tag, requeue=True)

    channel.basic_consume("q", reject)
    dead: list[bytes] = []
    collect(channel, "dead", dead)
    channel.basic_publish("", "q", b"m", AT_ONCE)
    assert next_body(channel, dead, 1) == [b"m"]
    assert len(deliveries) == 1
