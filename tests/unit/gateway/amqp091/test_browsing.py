"""Browsing as clients ask for it: basic.consume with x-browse."""

import pytest

from flintmq.wire.amqp091.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicNack,
    BasicQos,
    BasicRecover,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
)
from flintmq.wire.amqp091.properties import Properties, encode_properties
from tests.unit.gateway.amqp091.pair import Client, Server


def browse() -> BasicConsume:
    return BasicConsume(queue="q", arguments={"x-browse": True})


def test_acknowledgements_give_credit_and_nothing_else() -> None:
    """The prefetch holds; a copy that is rejected or given back is on the queue as before."""
    client = Client(Server())
    channel = client.channel()
    channel.call(QueueDeclare(queue="q", durable=True), BasicQos(prefetch_count=1))
    for body in "abc":
        channel.publish(body)
    channel.call(browse())
    assert channel.deliveries() == [(1, "a", False)]
    channel.call(BasicNack(delivery_tag=1, requeue=True))
    assert channel.deliveries() == [(2, "b", False)]
    channel.call(BasicNack(delivery_tag=2, requeue=False))
    assert channel.deliveries() == [(3, "c", False)]
    channel.call(BasicRecover(requeue=True))
    channel.call(BasicAck(delivery_tag=0, multiple=True))
    assert channel.deliveries() == []
    (found,) = channel.call(QueueDeclare(queue="q", passive=True))
    assert isinstance(found, QueueDeclareOk)
    assert (found.message_count, found.consumer_count) == (3, 0)


def test_a_browser_uses_up_nothing() -> None:
    """An auto-delete queue waits for its first consumer; one that nobody consumes from counts as unused."""
    client = Client(Server())
    channel = client.channel()
    named = BasicConsume(queue="q", consumer_tag="c", arguments={"x-browse": True})
    channel.call(QueueDeclare(queue="q", auto_delete=True), named, BasicCancel(consumer_tag="c"))
    assert "q" in client.server.vhost.queues
    channel.call(browse())
    channel.call(QueueDelete(queue="q", if_unused=True))
    assert "q" not in client.server.vhost.queues


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-browse": "yes"}, "invalid arg 'x-browse' for queue 'q' in vhost '/': {unacceptable_type,longstr}"),
        ({"x-browse": 1}, "invalid arg 'x-browse' for queue 'q' in vhost '/': {unacceptable_type,signedint}"),
    ],
)
def test_it_is_yes_or_no(arguments: dict[str, object], text: str) -> None:
    """Other values are refused."""
    client = Client(Server())
    channel = client.channel()
    channel.call(QueueDeclare(queue="q"), BasicConsume(queue="q", arguments=arguments))
    assert str(channel.closed) == f"406 PRECONDITION_FAILED - {text}"


def test_browsers_select() -> None:
    """A selector chooses what a browser sees; what another did not want is still there for it."""
    client = Client(Server())
    channel = client.channel()
    channel.call(QueueDeclare(queue="q", arguments={"x-max-priority": 9}))
    for priority in (1, 9):
        channel.publish(str(priority), properties=encode_properties(Properties(priority=priority)))
    channel.call(BasicConsume(queue="q", arguments={"x-browse": True, "x-selector": "JMSPriority > 5"}))
    assert channel.deliveries() == [(1, "9", False)]
    channel.call(browse())
    assert channel.deliveries() == [(2, "9", False), (3, "1", False)]


def test_no_is_no() -> None:
    """x-browse false is an ordinary consumer."""
    client = Client(Server())
    channel = client.channel()
    channel.publish("m")
    channel.call(QueueDeclare(queue="q"), BasicConsume(queue="q", no_ack=True, arguments={"x-browse": False}))
    channel.publish("n")
    client.tick()
    assert channel.deliveries() == [(1, "n", False)]
    assert client.server.vhost.queues["q"].message_count == 0
