"""What the strict dialect refuses, and RabbitMQ's takes."""

import pytest

from flintmq.broker.dialect import DIALECTS, STRICT
from flintmq.broker.message import Table
from flintmq.wire.amqp091.methods import (
    BasicConsume,
    BasicGet,
    BasicReject,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
)
from flintmq.wire.amqp091.properties import Properties, decode_properties, encode_properties
from tests.unit.gateway.amqp091.pair import Client, ClientChannel, Server


@pytest.fixture(params=["strict", "rabbitmq"])
def strict(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "strict")


@pytest.fixture
def client(strict: bool) -> Client:
    return Client(Server(DIALECTS["strict" if strict else "rabbitmq"]))


@pytest.fixture
def channel(client: Client) -> ClientChannel:
    return client.channel()


def answer(channel: ClientChannel, *methods: Method) -> Method:
    """The one answer to all of these."""
    (method,) = channel.call(*methods)
    return method


def code(channel: ClientChannel) -> int:
    """The reply code the channel ended with, alone or with its connection."""
    return int(getattr(channel.closed, "code", 0))


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r", "\n\n"])
def test_line_ends_are_stripped_where_definitions_are_spoken_of(ends: str) -> None:
    """RabbitMQ's queues and exchanges have names without them, by whichever method they are named."""
    server = Server()
    channel = Client(server).channel()
    queue, exchange, other = f"q{ends}1", f"{ends}x1", f"x2{ends}"
    for method, expected in (
        (QueueDeclare(queue=queue), QueueDeclareOk(queue="q1")),
        (QueueDeclare(queue=queue, passive=True), QueueDeclareOk(queue="q1")),
        (ExchangeDeclare(exchange=exchange, type="fanout"), ExchangeDeclareOk()),
        (ExchangeDeclare(exchange=exchange, passive=True), ExchangeDeclareOk()),
        (ExchangeDeclare(exchange=other, type="fanout"), ExchangeDeclareOk()),
        (QueueBind(queue=queue, exchange=exchange), QueueBindOk()),
        (ExchangeBind(destination=exchange, source=other), ExchangeBindOk()),
    ):
        assert channel.call(method) == [expected]
    exchanges = server.vhost.exchanges.by_name
    assert (exchanges["x1"].binding_count, exchanges["x2"].binding_count) == (1, 1)
    channel.call(QueueUnbind(queue=queue, exchange=exchange))
    channel.call(ExchangeUnbind(destination=exchange, source=other))
    assert (exchanges["x1"].binding_count, exchanges["x2"].binding_count) == (0, 0)
    channel.call(QueueDelete(queue=queue))
    channel.call(ExchangeDelete(exchange=exchange))
    assert ("q1" in server.vhost.queues, "x1" in exchanges) == (False, False)


@pytest.mark.parametrize("field", ["a-b", "1a", "", "a b", "ä", "x" * 129])
def test_field_names_are_checked_in_strict_only(client: Client, strict: bool, field: str) -> None:
    """502 for an argument of a queue, one within a table, and a header of a message."""
    tables: list[Table] = [{field: 1}, {"inner": {field: 1}}]
    for arguments in tables:
        channel = client.channel()
        came = channel.call(QueueDeclare(queue="q", arguments=arguments))
        if strict:
            assert not came
            assert code(channel) == 502
            client = Client(client.server)
        else:
            assert len(came) == 1
    channel = client.channel()
    channel.publish("m", properties=encode_properties(Properties(headers={field: 1})))
    client.tick()
    if strict:
        assert code(channel) == 502
    else:
        channel.channel.close()


def test_field_names_of_the_lexicon_are_good(channel: ClientChannel) -> None:
    """Also those that begin as the specification's own x-match does."""
    good: Table = {"a": 1, "$a": 1, "#a": 1, "a1_$#": 1, "x-match": 1, "x" * 128: 1, "inner": {"a": 1}}
    assert isinstance(answer(channel, QueueDeclare(queue="q", arguments=good)), QueueDeclareOk)


def test_a_frame_may_have_eight_bytes_more_but_in_strict(client: Client, channel: ClientChannel, strict: bool) -> None:
    """Where a payload of frame-max is too long, the connection is closed with 501."""
    size = client.connection.engine.tuning.frame_max
    engine = client.connection.engine
    engine.receive(bytes([3, 0, channel.channel.number]) + size.to_bytes(4, "big"), 0.0)
    client.tick()
    assert getattr(client.side.closed[0], "code", 0) == 501 if strict else not client.side.closed


def test_an_exclusive_queue_is_not_redeclared_as_a_shared_one(client: Client, channel: ClientChannel) -> None:
    """405 both ways, by its own connection, too: RabbitMQ's answer, and the specification has none."""
    for first, second in ((True, False), (False, True)):
        channel = client.channel()
        queue = f"q{first}"
        channel.call(QueueDeclare(queue=queue, exclusive=first))
        assert not channel.call(QueueDeclare(queue=queue, exclusive=second))
        assert code(channel) == 405


def test_a_binding_to_the_default_exchange_outlives_a_restart(strict: bool) -> None:
    """It is written down as others are."""
    if not strict:
        return
    server = Server(STRICT)
    channel = Client(server).channel()
    channel.call(QueueDeclare(queue="q", durable=True), QueueBind(queue="q", exchange="", routing_key="key"))
    (kept,) = server.storage.memory_definitions.bindings
    assert (kept.source, kept.destination, kept.routing_key) == ("", "q", "key")


# -- messages that were rejected --------------------------------------------------------------------------------------


def consumer(client: Client, no_ack: bool = False) -> ClientChannel:
    """A channel with a consumer of the queue "q"."""
    channel = client.channel()
    channel.call(BasicConsume(queue="q", no_ack=no_ack))
    return channel


def rejected(client: Client, count: int = 1) -> ClientChannel:
    """A channel that consumes from "q", and has rejected all it got: a, b, c..."""
    channel = consumer(client)
    for number in range(count):
        channel.publish("abc"[number])
    channel.call()
    assert len(channel.deliveries()) == count
    for number in range(count):
        channel.call(BasicReject(delivery_tag=number + 1, requeue=True))
    return channel


def test_the_end_of_a_channel_gives_back_what_was_withheld_from_it(client: Client, channel: ClientChannel) -> None:
    """In the order that was: a new channel of the same client gets it."""
    channel.call(QueueDeclare(queue="q"))
    rejecter = rejected(client, 3)
    rejecter.channel.close()
    client.tick()
    again = consumer(client)
    assert [(body, redelivered) for _, body, redelivered in again.deliveries()] == [
        ("a", True),
        ("b", True),
        ("c", True),
    ]


def test_two_channels_that_both_reject_get_nothing_back(client: Client, channel: ClientChannel, strict: bool) -> None:
    """Only the last rejection counts for whom it is withheld from: the message goes to and fro, once each time."""
    channel.call(QueueDeclare(queue="q"))
    if not strict:
        return
    first = rejected(client)
    second = consumer(client)
    assert [body for _, body, _ in second.deliveries()] == ["a"]
    second.call(BasicReject(delivery_tag=1, requeue=True))
    assert [body for _, body, _ in first.deliveries()] == ["a"]


def test_what_is_withheld_can_be_purged(client: Client, channel: ClientChannel, strict: bool) -> None:
    """It is gone for good then, from the journal, too."""
    channel.call(QueueDeclare(queue="q", durable=True))
    if not strict:
        return
    rejected(client, 2)
    assert len(client.server.storage.memory_journal.kept) == 2
    assert answer(channel, QueuePurge(queue="q")) == QueuePurgeOk(message_count=2)
    assert client.server.storage.memory_journal.kept == {}
    assert consumer(client).deliveries() == []


def test_a_deleted_queues_messages_are_dead_letters_in_strict_only(channel: ClientChannel, strict: bool) -> None:
    """Those that were withheld, too; each says why it died."""
    to_dead: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.call(QueueDeclare(queue="dead"), QueueDeclare(queue="q", arguments=to_dead))
    channel.publish("a")
    channel.publish("b")
    assert answer(channel, QueueDelete(queue="q")) == QueueDeleteOk(message_count=2)
    (declared,) = channel.call(QueueDeclare(queue="dead", passive=True))
    assert isinstance(declared, QueueDeclareOk)
    assert declared.message_count == (2 if strict else 0)
    if strict:
        channel.call(BasicGet(queue="dead", no_ack=True))
        ((_, properties, body),) = channel.contents
        headers = decode_properties(properties).headers
        assert headers is not None
        assert (body, headers["x-first-death-reason"]) == ("a", "deleted")
