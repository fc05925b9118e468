"""What a publisher's properties ask for: copies, time to live, delays, answers to this very channel, a user."""

from collections.abc import Callable
from functools import partial

import pytest

from flintmq.base.errors import ClosedByPeer
from flintmq.base.values import Timestamp
from flintmq.broker.message import Table
from flintmq.broker.ports import LimitRecord, PolicyRecord
from flintmq.gateway.amqp091.codec import COMMAND_HEADER
from flintmq.wire.amqp091.methods import (
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetOk,
    LeaseOpen,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    StreamQuery,
)
from flintmq.wire.amqp091.properties import Properties, decode_properties, encode_properties
from tests.unit.gateway.amqp091.pair import Client, ClientChannel, Server

REPLY_TO = "amq.rabbitmq.reply-to"


def opened(server: Server, *queues: str) -> tuple[Client, ClientChannel]:
    client = Client(server)
    channel = client.channel()
    channel.call(*[QueueDeclare(queue=name) for name in queues])
    return client, channel


def code_of(reason: object) -> tuple[int, str]:
    assert isinstance(reason, ClosedByPeer)
    return reason.code, reason.text


def headed(headers: Table) -> bytes:
    return encode_properties(Properties(headers=headers))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no_integer"),
        ("soon", "no_integer"),
        ("10s", '{leftover_string,"s"}'),
        ("1.5", '{leftover_string,".5"}'),
        ("-1", "{value_negative,-1}"),
        ("315360000001", "{value_too_large,315360000001}"),
    ],
)
def test_expiration_that_is_no_time(text: str, why: str) -> None:
    """406 in RabbitMQ's words, and nothing is enqueued."""
    server = Server()
    _, channel = opened(server, "q")
    channel.publish("m", properties=encode_properties(Properties(expiration=text)))
    channel.call()
    assert code_of(channel.closed) == (406, f"PRECONDITION_FAILED - invalid expiration '{text}': {why}")
    assert server.vhost.queues["q"].message_count == 0


def test_expiration_at_its_largest() -> None:
    """Ten years are allowed, and so is no time at all."""
    server = Server()
    _, channel = opened(server, "q")
    for text in ("315360000000", "0"):
        channel.publish("m", properties=encode_properties(Properties(expiration=text)))
    channel.call()
    assert server.vhost.queues["q"].message_count == 1


def test_copies_go_to_further_keys() -> None:
    """CC stays visible, BCC does not; a queue named twice gets one copy."""
    server = Server()
    client, channel = opened(server, "q", "r", "s")
    channel.publish("m", properties=headed({"CC": ["r", "q"], "BCC": ["s"], "h": 1}))
    channel.call()
    for name in ("q", "r", "s"):
        taker = client.channel()
        taker.call(BasicGet(queue=name, no_ack=True))
        ((method, properties, _),) = taker.contents
        assert isinstance(method, BasicGetOk)
        assert (method.routing_key, method.message_count) == ("q", 0)
        assert decode_properties(properties).headers == {"CC": ["r", "q"], "h": 1}


@pytest.mark.parametrize(("value", "kind"), [("r", "longstr"), (1, "signedint"), (True, "bool"), (None, "void")])
@pytest.mark.parametrize("name", ["CC", "BCC"])
def test_copies_are_a_list(name: str, value: object, kind: str) -> None:
    """Anything else in their headers is 406."""
    _, channel = opened(Server(), "q")
    channel.publish("m", properties=headed({name: value}))
    channel.call()
    code, text = code_of(channel.closed)
    assert code == 406
    assert f'invalid message: {{unacceptable_type_in_header,"{name}",{kind}}}' in text


def test_keys_that_are_no_strings_are_passed_over() -> None:
    """They can be no routing keys, and RabbitMQ ignores them."""
    server = Server()
    _, channel = opened(server, "q", "r")
    channel.publish("m", properties=headed({"CC": [1, "r", {"q": 1}]}))
    channel.call()
    assert (server.vhost.queues["q"].message_count, server.vhost.queues["r"].message_count) == (1, 1)


def test_user_id_is_the_user() -> None:
    """A publisher may name itself, and nobody else."""
    server = Server()
    _, channel = opened(server, "q")
    channel.publish("m", properties=encode_properties(Properties(user_id="u")))
    channel.publish("m", properties=encode_properties(Properties(user_id="x")))
    channel.call()
    assert code_of(channel.closed) == (
        406,
        "PRECONDITION_FAILED - user_id property set to 'x' but authenticated user was 'u'",
    )
    assert server.vhost.queues["q"].message_count == 1


def test_message_with_a_delay_is_there_in_its_time() -> None:
    """`x-delay` counts milliseconds from the publish, `x-deliver-at` names the moment."""
    server = Server()
    server.broker.now_ms = 1_000_000
    client, channel = opened(server, "q")
    channel.publish("late", properties=headed({"x-delay": 500}))
    channel.publish("then", properties=headed({"x-deliver-at": 1_000_300}))
    channel.publish("at", properties=headed({"x-deliver-at": Timestamp(1001)}))
    channel.publish("now", properties=headed({"x-delay": 0}))
    channel.publish("past", properties=headed({"x-deliver-at": 999_999}))
    channel.call(BasicConsume(queue="q", no_ack=True))
    came = {}
    for now in (1_000_000, 1_000_299, 1_000_300, 1_000_499, 1_000_500, 1_000_999, 1_001_000):
        server.broker.now_ms = now
        client.tick()
        came[now - 1_000_000] = [body for _, body, _ in channel.deliveries()]
    assert came == {0: ["now", "past"], 299: [], 300: ["then"], 499: [], 500: ["late"], 999: [], 1000: ["at"]}


def test_delay_beyond_all_is_refused() -> None:
    """406 for more than RabbitMQ's longest delay."""
    _, channel = opened(Server(), "q")
    channel.publish("m", properties=headed({"x-delay": 2**32}))
    channel.call()
    assert code_of(channel.closed)[0] == 406


# -- direct reply-to ------------------------------------------------------------------------------------------------


def test_answer_comes_straight_to_the_channel() -> None:
    """Who consumes from amq.rabbitmq.reply-to gets what is sent to the address its requests carry."""
    server = Server()
    _, asking = opened(server, "q")
    other, answering = opened(server)
    asking.call(BasicConsume(queue=REPLY_TO, no_ack=True, consumer_tag="r"))
    asking.publish("question", properties=encode_properties(Properties(reply_to=REPLY_TO)))
    asking.call()
    answering.call(BasicGet(queue="q", no_ack=True))
    ((_, properties, _),) = answering.contents
    reply_to = decode_properties(properties).reply_to
    assert reply_to is not None
    assert reply_to.startswith(f"{REPLY_TO}.")
    answering.publish("answer", reply_to)
    other.tick()
    asking.call()
    assert [body for _, body, _ in asking.deliveries()] == ["answer"]


@pytest.mark.parametrize("passive", [True, False])
def test_reply_address_can_be_asked_for(passive: bool) -> None:
    """Whether somebody still waits for an answer is what any declaration tells: one consumer, or 404."""
    server = Server()
    _, asking = opened(server)
    _, answering = opened(server)
    asking.call(BasicConsume(queue=REPLY_TO, no_ack=True, consumer_tag="t"))
    (name,) = server.vhost.replies
    server.allow("", "", "")
    for declared in (name, REPLY_TO):
        assert answering.call(QueueDeclare(queue=declared, passive=passive)) == [QueueDeclareOk(declared, 0, 1)]
    asking.call(BasicCancel(consumer_tag="t"))
    answering.call(QueueDeclare(queue=name, passive=passive))
    assert code_of(answering.closed)[0] == 404
    assert server.vhost.queues == server.vhost.replies == {}


@pytest.mark.parametrize(
    "method",
    [
        BasicGet,
        partial(BasicConsume, no_ack=True),
        QueuePurge,
        partial(QueueBind, exchange="amq.fanout"),
        partial(LeaseOpen, consumer="l"),
        StreamQuery,
    ],
)
def test_nobody_else_uses_a_reply_queue(method: Callable[..., Method]) -> None:
    """Who knows the address can send an answer there, and nothing else, whatever its permissions."""
    server = Server()
    _, asking = opened(server)
    asking.call(BasicConsume(queue=REPLY_TO, no_ack=True))
    (name,) = server.vhost.replies
    _, thief = opened(server)
    thief.call(method(queue=name))
    assert code_of(thief.closed)[0] == 404


def test_reply_queue_takes_no_commands_and_survives_a_deletion() -> None:
    """What a message tells queues to do is refused, and who deletes its name deletes nothing."""
    server = Server()
    _, asking = opened(server)
    asking.call(BasicConsume(queue=REPLY_TO, no_ack=True))
    (name,) = server.vhost.replies
    _, other = opened(server)
    assert other.call(QueueDelete(queue=name)) == [QueueDeleteOk(message_count=0)]
    assert list(server.vhost.replies) == [name]
    other.publish("", name, properties=headed({COMMAND_HEADER: "pause"}))
    other.call()
    assert code_of(other.closed)[0] == 403


def test_no_policy_and_no_limit_counts_for_replies() -> None:
    """A policy for all queues changes none of them, and a virtual host that has all its queues has them still."""
    server = Server()
    server.broker.put_rule(PolicyRecord("/", "p", ".*", {"max-length": 1}))
    server.broker.put_rule(LimitRecord("vhost", "/", "max-queues", 0))
    _, asking = opened(server)
    (answer,) = asking.call(BasicConsume(queue=REPLY_TO, no_ack=True))
    assert isinstance(answer, BasicConsumeOk)
    (queue,) = server.vhost.replies.values()
    assert queue.is_guarded is False


@pytest.mark.parametrize(
    ("first", "text"),
    [
        ([BasicConsume(queue=REPLY_TO)], "reply consumer cannot acknowledge"),
        ([BasicConsume(queue=REPLY_TO, no_ack=True)] * 2, "reply consumer already set"),
    ],
)
def test_reply_consumer_is_one_without_acks(first: list[BasicConsume], text: str) -> None:
    """406, and no queue is left behind."""
    server = Server()
    _, channel = opened(server)
    channel.call(*first)
    assert code_of(channel.closed) == (406, f"PRECONDITION_FAILED - {text}")
    assert server.vhost.replies == {}


def test_request_without_a_reply_consumer() -> None:
    """406: its answer could go nowhere."""
    _, channel = opened(Server(), "q")
    channel.publish("m", properties=encode_properties(Properties(reply_to=REPLY_TO)))
    channel.call()
    assert code_of(channel.closed) == (406, "PRECONDITION_FAILED - fast reply consumer does not exist")


def test_requests_go_with_the_reply_consumer_there_is() -> None:
    """Each request carries the address of this moment's consumer, and without one there is none to carry."""
    server = Server()
    _, channel = opened(server, "q")
    request = encode_properties(Properties(reply_to=REPLY_TO))
    replying = BasicConsume(queue=REPLY_TO, consumer_tag="t", no_ack=True)
    addresses = []
    for _ in range(2):
        channel.call(replying)
        channel.publish("m", properties=request)
        channel.call(BasicGet(queue="q", no_ack=True))
        (_, properties, _) = channel.contents[-1]
        addresses.append(decode_properties(properties).reply_to)
        assert addresses[-1] in server.vhost.replies
        channel.call(BasicCancel(consumer_tag="t"))
    assert addresses[0] != addresses[1]
    channel.publish("m", properties=request)
    channel.call()
    assert code_of(channel.closed) == (406, "PRECONDITION_FAILED - fast reply consumer does not exist")


def test_failed_reply_consumer_leaves_no_queue() -> None:
    """Where the subscription is refused for another reason, nothing stays of it."""
    server = Server()
    _, channel = opened(server)
    channel.call(BasicConsume(queue=REPLY_TO, no_ack=True, arguments={"x-priority": "high"}))
    assert code_of(channel.closed)[0] == 406
    assert server.vhost.replies == {}


def test_reply_queue_ends_with_its_consumer() -> None:
    """It goes with the channel."""
    server = Server()
    _, channel = opened(server)
    channel.call(BasicConsume(queue=REPLY_TO, no_ack=True))
    assert len(server.vhost.replies) == 1
    channel.call(QueueDelete(queue="", if_empty=True))
    assert code_of(channel.closed)[0] == 404
    assert server.vhost.replies == {}
