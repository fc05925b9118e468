"""kombu as its users, Celery among them, write it: producers, consumers, simple queues, broadcasts."""

# ruff: noqa: ANN401 - kombu has no types
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

import pytest

from tests.interop.peer import WAIT_SECONDS
from tests.servers import BrokerProcess

kombu: Final[Any] = import_module("kombu")
common: Final[Any] = import_module("kombu.common")


def connect(broker: BrokerProcess, **options: Any) -> Any:
    """It gives up after five seconds, if nobody tells it otherwise."""
    return kombu.Connection(broker.url, connect_timeout=WAIT_SECONDS, **options)


@pytest.fixture
def connection(broker: BrokerProcess) -> Iterator[Any]:
    with connect(broker, transport_options={"confirm_publish": True}) as opened:
        yield opened


def test_json_task(connection: Any, name: str) -> None:
    """A producer declares what it needs, and a consumer gets the payload decoded as it was given."""
    queue = kombu.Queue(name, kombu.Exchange(name, "direct", durable=True), routing_key="task", durable=True)
    payload = {"task": "add", "args": [1, 2], "kwargs": {"naïve": True, "none": None}}
    with connection.Producer() as producer:
        producer.publish(
            payload, exchange=queue.exchange, routing_key="task", declare=[queue], compression="zlib", retry=True
        )
    taken: list[object] = []

    def take(body: object, message: Any) -> None:
        taken.append(body)
        message.ack()

    with kombu.Consumer(connection.default_channel, [queue], callbacks=[take], prefetch_count=1):
        while not taken:
            connection.drain_events(timeout=WAIT_SECONDS)
    assert taken == [payload]
    bound = queue(connection.default_channel)
    assert bound.purge() == 0
    bound.delete()
    queue.exchange(connection.default_channel).delete()


def test_requeued_and_rejected(connection: Any, name: str) -> None:
    """A message that is requeued comes again with the flag, and once rejected no more."""
    simple = connection.SimpleQueue(name)
    simple.put({"n": 1})
    first = simple.get(timeout=WAIT_SECONDS)
    assert first.delivery_info["redelivered"] is False
    first.requeue()
    second = simple.get(timeout=WAIT_SECONDS)
    assert second.delivery_info["redelivered"] is True
    second.reject()
    with pytest.raises(simple.Empty):
        simple.get(block=False)
    assert simple.qsize() == 0
    simple.close()
    connection.default_channel.queue_delete(name)
    connection.default_channel.exchange_delete(name)


def test_broadcast(connection: Any, broker: BrokerProcess, name: str) -> None:
    """Every worker's auto-delete queue of a broadcast gets each message, as Celery's remote control does."""
    with connect(broker) as worker:
        taken: list[tuple[int, object]] = []
        consumers = [
            kombu.Consumer(
                opened.channel(),
                [common.Broadcast(name)],
                callbacks=[lambda body, message, number=number: taken.append((number, body))],
                no_ack=True,
            )
            for number, opened in enumerate((connection, worker))
        ]
        for consumer in consumers:
            consumer.consume()
        kombu.Producer(connection.channel(), kombu.Exchange(name, "fanout")).publish("all of you")
        deadline = time.monotonic() + WAIT_SECONDS
        while len(taken) < 2 and time.monotonic() < deadline:
            for opened in (connection, worker):
                with suppress(TimeoutError):
                    opened.drain_events(timeout=0.1)
        assert sorted(taken) == [(0, "all of you"), (1, "all of you")]


def test_reconnects(connection: Any, broker: BrokerProcess, name: str) -> None:
    """After a connection error, `ensure` connects again and the publish succeeds."""
    channel = connection.channel()
    stream = channel.queue_declare(
        name + "-stream", arguments={"x-queue-type": "stream"}, durable=True, auto_delete=False
    )
    with pytest.raises(connection.connection_errors, match="NOT_IMPLEMENTED"):
        channel.basic_get(stream.queue)
    queue = kombu.Queue(name, auto_delete=True)
    producer = kombu.Producer(connection, auto_declare=False)
    publish = connection.ensure(producer, producer.publish, max_retries=3)
    publish("again", routing_key=name, declare=[queue])
    message = queue(connection.default_channel).get(no_ack=True)
    assert message.payload == "again"
    queue(connection.default_channel).delete()


def test_heartbeat_check(broker: BrokerProcess) -> None:
    """The broker agrees to the heartbeats that a worker asks for, and a worker's checks find it alive."""
    with connect(broker, heartbeat=10) as opened:
        opened.connect()
        assert opened.get_heartbeat_interval() == 10
        for _ in range(4):
            opened.heartbeat_check()
        opened.channel().exchange_declare("amq.direct", "direct", passive=True)
