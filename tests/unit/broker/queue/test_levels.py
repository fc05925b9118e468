"""Which priorities a queue tells apart: what it was declared to, or what its dialect says of its kind."""

import pytest

from flintmq.broker.broker import Broker
from flintmq.broker.dialect import RABBITMQ, STRICT, Dialect
from flintmq.broker.message import Address, Message, Table
from flintmq.broker.queue.base import Queue
from tests.unit.broker.memory import HeaderCodec, MemoryStorage, got

CODEC = HeaderCodec()
# Those of the messages of a test, in the order in which they are published; a message without one is "-".
PRIORITIES = ("4", "0", "-", "3", "5", "40", "31", "30")


def declare(broker: Broker, dialect: Dialect, arguments: Table) -> Queue:
    return broker.add_vhost("v", dialect).declare_queue("q", True, False, False, arguments, None)


def fill(broker: Broker) -> None:
    vhost = broker.vhosts["v"]
    for priority in PRIORITIES:
        properties = b"persistent=1" if priority == "-" else f"persistent=1;priority={priority}".encode()
        options = CODEC.options(properties)
        message = Message(Address("", "q"), CODEC, properties, priority.encode(), options, 0)
        vhost.deliver(message, [vhost.queues["q"]])


def taken(queue: Queue) -> str:
    found = []
    while (entry := got(queue)) is not None:
        found.append(entry.message.body.decode())
        queue.settle(entry)
    return " ".join(found)


@pytest.mark.parametrize(
    ("dialect", "arguments", "expected"),
    [
        (RABBITMQ, {}, "4 0 - 3 5 40 31 30"),
        (RABBITMQ, {"x-max-priority": 0}, "4 0 - 3 5 40 31 30"),
        (RABBITMQ, {"x-max-priority": 4}, "4 5 40 31 30 3 0 -"),
        (RABBITMQ, {"x-queue-type": "quorum"}, "40 31 30 5 4 - 3 0"),
        (STRICT, {}, "40 31 30 5 4 3 0 -"),
        (STRICT, {"x-max-priority": 0}, "4 0 - 3 5 40 31 30"),
        (STRICT, {"x-queue-type": "quorum"}, "40 31 30 5 4 3 0 -"),
    ],
)
def test_priorities_that_a_queue_tells_apart(dialect: Dialect, arguments: Table, expected: str) -> None:
    """RabbitMQ's classic queues none unless asked, its quorum queues 0 to 31; the specification's 0 to 9."""
    broker = Broker(MemoryStorage())
    queue = declare(broker, dialect, arguments)
    fill(broker)
    assert taken(queue) == expected
