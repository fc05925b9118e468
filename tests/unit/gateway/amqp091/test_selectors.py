"""Selectors as clients set them on consumers and bindings, and what else consumers choose by."""

import pytest

from flintmq.base.errors import ClosedByPeer
from flintmq.base.limits import SELECTOR_MAX_CHARACTERS
from flintmq.broker.dialect import RABBITMQ, STRICT, Dialect
from flintmq.broker.message import Table
from flintmq.wire.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicQos,
    ExchangeBind,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueUnbind,
    QueueUnbindOk,
)
from flintmq.wire.amqp091.properties import Properties, encode_properties
from tests.unit.gateway.amqp091.pair import Client, ClientChannel, Server


def selecting(selector: object, **others: object) -> Table:
    return {"x-selector": selector, **others}


def colored(channel: ClientChannel, *bodies: str, exchange: str = "", key: str = "q") -> None:
    """Publish messages whose header `color` is their body without the number at its end."""
    for body in bodies:
        properties = Properties(delivery_mode=2, headers={"color": body.rstrip("0123456789")})
        channel.publish(body, key, exchange, encode_properties(properties))


def bodies(channel: ClientChannel) -> list[str]:
    return [body for _, body, _ in channel.deliveries()]


def refusal(channel: ClientChannel, *methods: Method) -> str:
    channel.call(*methods)
    assert isinstance(channel.closed, ClosedByPeer)
    assert channel.closed.code == 406
    return channel.closed.text


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_consumers_get_what_they_select(kind: str) -> None:
    """Each consumer gets what its selector matches, nothing holds up anything, and the rest stays for others."""
    client = Client(Server())
    red, blue = client.channel(), client.channel()
    declare = QueueDeclare(queue="q", durable=True, arguments={"x-queue-type": kind})
    red.call(declare, BasicConsume(queue="q", arguments=selecting("color = 'red'")))
    blue.call(BasicConsume(queue="q", arguments=selecting("color LIKE 'b%'")))
    colored(red, "green1", "red1", "blue1", "brown1", "red2")
    client.tick()
    assert (bodies(red), bodies(blue)) == (["red1", "red2"], ["blue1", "brown1"])
    rest = client.channel()
    rest.call(BasicConsume(queue="q"))
    assert bodies(rest) == ["green1"]


def test_an_empty_selector_is_none() -> None:
    """JMS 3.1 §3.8.1: an empty string selects everything."""
    channel = Client(Server()).channel()
    channel.call(QueueDeclare(queue="q"), BasicConsume(queue="q", arguments=selecting(" ")))
    colored(channel, "red1")
    channel.call()
    assert bodies(channel) == ["red1"]


def test_credit_counts_what_is_selected() -> None:
    """A prefetch is filled by matching messages alone, and one whose consumer has none left holds up no others."""
    client = Client(Server())
    red, any_color = client.channel(), client.channel()
    red.call(
        QueueDeclare(queue="q"),
        BasicQos(prefetch_count=1),
        BasicConsume(queue="q", arguments=selecting("color = 'red'")),
    )
    colored(red, "green1", "red1", "red2", "blue1")
    client.tick()
    assert bodies(red) == ["red1"]
    any_color.call(BasicConsume(queue="q", arguments=selecting("color <> 'red'")))
    assert bodies(any_color) == ["green1", "blue1"]
    red.call(BasicAck(delivery_tag=1))
    assert bodies(red) == ["red2"]


def test_what_comes_back_goes_to_whom_it_suits() -> None:
    """A message given back is offered to those alone that select it, in its old place."""
    client = Client(Server())
    channel, other = client.channel(), client.channel()
    channel.call(QueueDeclare(queue="q"), BasicConsume(queue="q", arguments=selecting("color = 'red'")))
    other.call(BasicConsume(queue="q", arguments=selecting("color = 'blue'")))
    colored(channel, "red1", "red2")
    client.tick()
    assert bodies(channel) == ["red1", "red2"]
    channel.call(BasicNack(delivery_tag=2, multiple=True, requeue=True))
    assert (channel.deliveries(), bodies(other)) == ([(3, "red1", True), (4, "red2", True)], [])


def test_get_selects_nothing() -> None:
    """basic.get gets the first message there is, whatever consumers wait for."""
    channel = Client(Server()).channel()
    channel.call(QueueDeclare(queue="q"), BasicConsume(queue="q", arguments=selecting("color = 'red'")))
    colored(channel, "blue1", "red1", "blue2")
    channel.call()
    assert bodies(channel) == ["red1"]
    channel.call(BasicGet(queue="q"), BasicGet(queue="q"))
    assert [body for _, _, body in channel.contents] == ["blue1", "blue2"]


def test_selectors_read_streams() -> None:
    """On a stream a consumer is sent the records it selects, with their own offsets, past any number of others."""
    server = Server()
    client = Client(server)
    channel = client.channel()
    channel.call(
        QueueDeclare(queue="s", durable=True, arguments={"x-queue-type": "stream"}), BasicQos(prefetch_count=9)
    )
    colored(channel, *["green"] * 5000, "red1", "blue1", "red2", key="s")
    channel.call()
    arguments = selecting("color = 'red'", **{"x-stream-offset": "first"})
    channel.call(BasicConsume(queue="s", arguments=arguments))
    assert [(b"x-stream-offset" in properties, body) for _, properties, body in channel.contents] == [
        (True, "red1"),
        (True, "red2"),
    ]


@pytest.mark.parametrize("dialect", [RABBITMQ, STRICT])
def test_no_local_and_a_selector(dialect: Dialect) -> None:
    """Who asks for both gets what passes both, in either dialect."""
    server = Server(dialect)
    mine, other = Client(server), Client(server)
    consuming, publishing, foreign = mine.channel(), mine.channel(), other.channel()
    consuming.call(
        QueueDeclare(queue="q"), BasicConsume(queue="q", no_local=True, arguments=selecting("color = 'red'"))
    )
    colored(publishing, "red1", "blue1")
    mine.tick()
    colored(foreign, "red2", "blue2")
    other.tick()
    mine.tick()
    assert bodies(consuming) == ["red2"]


@pytest.mark.parametrize(
    ("selector", "why"),
    [
        ("color = ", "at character 9 (the end): expected a name, a string, a number, ("),
        (7, "{unacceptable_type,signedint}"),
        ("x" * (SELECTOR_MAX_CHARACTERS + 1), f"the selector has {SELECTOR_MAX_CHARACTERS + 1} characters, at most"),
    ],
)
def test_refused_selectors(selector: object, why: str) -> None:
    """What is no selector is 406 for consumers and bindings, and tells where and why."""
    client = Client(Server())
    client.channel().call(QueueDeclare(queue="q"))
    consume = BasicConsume(queue="q", arguments=selecting(selector))
    said = refusal(client.channel(), consume)
    assert said.startswith(f"PRECONDITION_FAILED - invalid arg 'x-selector' for queue 'q' in vhost '/': {why}")
    bind = QueueBind(queue="q", exchange="amq.direct", routing_key="k", arguments=selecting(selector))
    said = refusal(client.channel(), bind)
    where = "binding of exchange 'amq.direct' in vhost '/'"
    assert said.startswith(f"PRECONDITION_FAILED - invalid arg 'x-selector' for {where}: {why}")
    assert not client.server.vhost.exchanges.find("amq.direct").bindings


def test_bindings_select() -> None:
    """A binding leads on what its selector matches, from queues to exchanges, until it is unbound by its arguments."""
    client = Client(Server())
    channel = client.channel()
    channel.call(QueueDeclare(queue="reds"), QueueDeclare(queue="all"), ExchangeDeclare(exchange="e", type="fanout"))
    red = selecting("color = 'red'")
    answers = channel.call(
        QueueBind(queue="reds", exchange="e", arguments=red),
        ExchangeBind(destination="e", source="amq.topic", routing_key="#", arguments=selecting("color <> 'green'")),
        QueueBind(queue="all", exchange="e"),
    )
    assert isinstance(answers[0], QueueBindOk)
    channel.call(BasicConsume(queue="all", no_ack=True))
    for _ in range(2):
        # Twice: the way of an address is remembered where it can be.
        colored(channel, "red1", "blue1", "green1", exchange="amq.topic", key="a.b")
    client.tick()
    assert bodies(channel) == ["red1", "blue1"] * 2
    channel.call(BasicConsume(queue="reds", no_ack=True))
    assert bodies(channel) == ["red1"] * 2
    (answer,) = channel.call(QueueUnbind(queue="reds", exchange="e", arguments=red))
    assert isinstance(answer, QueueUnbindOk)
    assert [binding.destination.name for binding in client.server.vhost.exchanges.find("e").each_binding()] == ["all"]


def test_parsing_is_paid_for() -> None:
    """A client that sends one long selector after the other waits for the next tick between them."""
    server = Server()
    client = Client(server)
    channel = client.channel()
    channel.call(QueueDeclare(queue="q"))
    for number in range(8):
        selector = f"a = {number}".ljust(SELECTOR_MAX_CHARACTERS)
        channel.send(BasicConsume(queue="q", consumer_tag=str(number), arguments=selecting(selector)))
    client.connection.engine.refresh()
    client.connection.engine.receive(client.side.sent(), 0.0)
    assert 0 < len(server.vhost.queues["q"].consumers) < 4
    client.tick()
    assert len(server.vhost.queues["q"].consumers) == 8
