"""Which consumer of a queue with a single active one is that, and when another one takes over."""

from collections.abc import Callable

import pytest

from flintmq.broker.message import Table
from flintmq.wire.amqp091.methods import BasicAck, BasicCancel, BasicConsume, BasicNack, Method, QueueDeclare
from tests.unit.gateway.amqp091.pair import Client, ClientChannel, Server


def opened(kind: str) -> tuple[Server, ClientChannel]:
    """A server with the queue q, and a channel that publishes to it."""
    server = Server()
    channel = Client(server).channel()
    arguments: Table = {"x-queue-type": kind, "x-single-active-consumer": True}
    channel.call(QueueDeclare(queue="q", durable=True, arguments=arguments))
    return server, channel


def consumer(server: Server, priority: int, selector: str = "") -> ClientChannel:
    """A channel of a connection of its own, with a consumer of this priority."""
    channel = Client(server).channel()
    arguments: Table = {"x-priority": priority}
    if selector:
        arguments["x-selector"] = selector
    channel.call(BasicConsume(queue="q", consumer_tag="c", arguments=arguments))
    return channel


def publish(publisher: ClientChannel, body: str) -> None:
    publisher.publish(body)
    publisher.call()


def bodies(*channels: ClientChannel) -> list[list[str]]:
    """What each of them got since it was asked last."""
    found = []
    for channel in channels:
        channel.call()
        found.append([body for _, body, _ in channel.deliveries()])
    return found


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_the_next_one_in_line_is_that_of_the_highest_priority(kind: str) -> None:
    """However late it came; of equal ones, that which came first."""
    server, publisher = opened(kind)
    active, low, high, late = (consumer(server, priority) for priority in (7, 1, 5, 5))
    active.call(BasicCancel(consumer_tag="c"))
    publish(publisher, "one")
    assert bodies(low, high, late) == [[], ["one"], []]


def test_a_classic_queue_stays_with_its_active_consumer() -> None:
    """As RabbitMQ: priorities order those that wait."""
    server, publisher = opened("classic")
    active, high = consumer(server, 0), consumer(server, 5)
    publish(publisher, "one")
    assert bodies(active, high) == [["one"], []]


def test_a_quorum_queue_goes_over_at_once_where_nothing_is_unsettled() -> None:
    """And not again for one of the same priority."""
    server, publisher = opened("quorum")
    active, high, equal = (consumer(server, priority) for priority in (0, 5, 5))
    publish(publisher, "one")
    assert bodies(active, high, equal) == [[], ["one"], []]
    high.call(BasicCancel(consumer_tag="c"))
    publish(publisher, "two")
    assert bodies(active, high, equal) == [[], [], ["two"]]


@pytest.mark.parametrize(
    ("settlement", "expected"),
    [
        (lambda: BasicAck(delivery_tag=0, multiple=True), ["three"]),
        (lambda: BasicNack(delivery_tag=0, multiple=True, requeue=False), ["three"]),
        (lambda: BasicNack(delivery_tag=0, multiple=True, requeue=True), ["one", "two", "three"]),
    ],
)
@pytest.mark.parametrize("selector", ["", "a IS NULL"])
def test_a_quorum_queue_goes_over_once_all_is_settled(
    settlement: Callable[[], Method], expected: list[str], selector: str
) -> None:
    """Until then nobody gets anything more, so that no message overtakes one that may come back."""
    server, publisher = opened("quorum")
    active = consumer(server, 0, selector)
    publish(publisher, "one")
    publish(publisher, "two")
    assert bodies(active) == [["one", "two"]]
    high = consumer(server, 5, selector)
    publish(publisher, "three")
    assert bodies(active, high) == [[], []]
    active.call(settlement())
    assert bodies(active, high) == [[], expected]


def test_the_relief_may_leave_before_it_takes_over() -> None:
    """Then the active one goes on."""
    server, publisher = opened("quorum")
    active = consumer(server, 0)
    publish(publisher, "one")
    assert bodies(active) == [["one"]]
    high = consumer(server, 5)
    high.call(BasicCancel(consumer_tag="c"))
    publish(publisher, "two")
    assert bodies(active) == [["two"]]


def test_the_active_one_may_leave_before_it_is_relieved() -> None:
    """What it holds is its channel's; the next one begins at once."""
    server, publisher = opened("quorum")
    active = consumer(server, 0)
    publish(publisher, "one")
    assert bodies(active) == [["one"]]
    high = consumer(server, 5)
    active.call(BasicCancel(consumer_tag="c"))
    publish(publisher, "two")
    assert bodies(active, high) == [[], ["two"]]
