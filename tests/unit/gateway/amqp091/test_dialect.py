"""What the strict dialect refuses, and RabbitMQ's takes."""

import pytest

from flintmq.broker.dialect import DIALECTS
from flintmq.broker.message import Table
from flintmq.wire.amqp091.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)
from flintmq.wire.amqp091.properties import Properties, encode_properties
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


@pytest.mark.parametrize("name", ["a b", "a/b", "ä", "a\n", "x" * 128])
def test_names_keep_to_the_lexicon_in_strict_only(channel: ClientChannel, strict: bool, name: str) -> None:
    """406 for a queue of any other name; RabbitMQ takes what fits."""
    came = channel.call(QueueDeclare(queue=name))
    if strict:
        assert not came
        assert code(channel) == 406
    else:
        assert came == [QueueDeclareOk(queue=name)]


def test_a_name_of_all_characters_of_the_lexicon_is_good(channel: ClientChannel) -> None:
    """As long as it may be."""
    name = "azAZ09-_.:" + "x" * 117
    assert answer(channel, QueueDeclare(queue=name)) == QueueDeclareOk(queue=name)


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


def test_deleting_a_queue_that_is_not_there_is_a_fault_in_strict_only(channel: ClientChannel, strict: bool) -> None:
    """404, or nothing deleted."""
    came = channel.call(QueueDelete(queue="absent"))
    if strict:
        assert not came
        assert code(channel) == 404
    else:
        assert came == [QueueDeleteOk()]


def test_arguments_are_compared_in_full_in_strict_only(channel: ClientChannel, strict: bool) -> None:
    """An argument that nobody knows is 406 when it differs, or is not there; RabbitMQ looks at those it knows."""
    channel.call(QueueDeclare(queue="q", arguments={"colour": "red"}))
    came = channel.call(QueueDeclare(queue="q"))
    if strict:
        assert not came
        assert code(channel) == 406
    else:
        assert len(came) == 1


def test_auto_delete_is_compared_by_rabbitmq_only(channel: ClientChannel, strict: bool) -> None:
    """The specification wants it ignored once the queue is there."""
    channel.call(QueueDeclare(queue="q", auto_delete=True))
    came = channel.call(QueueDeclare(queue="q"))
    if strict:
        assert len(came) == 1
    else:
        assert not came
        assert code(channel) == 406


def test_a_consumer_tag_belongs_to_its_channel_in_strict_only(
    client: Client, channel: ClientChannel, strict: bool
) -> None:
    """530 ends the connection; RabbitMQ answers as if there had been such a consumer."""
    assert len(channel.call(QueueDeclare(queue="q"), BasicConsume(queue="q", consumer_tag="tag"))) == 2
    other = client.channel()
    came = other.call(BasicCancel(consumer_tag="tag"))
    if strict:
        assert not came
        assert code(other) == 530
    else:
        assert came == [BasicCancelOk(consumer_tag="tag")]


def test_a_consumer_whose_queue_has_gone_can_be_cancelled_once(
    client: Client, channel: ClientChannel, strict: bool
) -> None:
    """amqp-0-9-1 basic.cancel: whoever cancels may not have heard of it yet. Twice is a fault in strict."""
    channel.call(QueueDeclare(queue="q"), BasicConsume(queue="q", consumer_tag="tag"))
    channel.call(QueueDelete(queue="q"))
    assert answer(channel, BasicCancel(consumer_tag="tag")) == BasicCancelOk(consumer_tag="tag")
    came = channel.call(BasicCancel(consumer_tag="tag"))
    assert bool(came) is not strict


def test_an_exclusive_queue_is_not_redeclared_as_a_shared_one(client: Client, channel: ClientChannel) -> None:
    """405 both ways, by its own connection, too: RabbitMQ's answer, and the specification has none."""
    for first, second in ((True, False), (False, True)):
        channel = client.channel()
        queue = f"q{first}"
        channel.call(QueueDeclare(queue=queue, exclusive=first))
        assert not channel.call(QueueDeclare(queue=queue, exclusive=second))
        assert code(channel) == 405
