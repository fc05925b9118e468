"""What is refused, by every client: with RabbitMQ's code and words, and only as much closed as it must be."""

from collections.abc import Callable
from typing import Final

import pytest

from tests.interop.conftest import Connect
from tests.interop.peer import Peer, PeerChannel, Refused
from tests.servers import BrokerProcess

Action = Callable[[PeerChannel, str], object]


def _declared_again(channel: PeerChannel, name: str) -> None:
    channel.declare_queue(name, durable=True, exclusive=True)
    channel.declare_queue(name, durable=False, exclusive=True)


def _of_another_type(channel: PeerChannel, name: str) -> None:
    channel.declare_queue(name, exclusive=True, arguments={"x-queue-type": "classic"})
    channel.declare_queue(name, exclusive=True, durable=True, arguments={"x-queue-type": "stream"})


def _not_empty(channel: PeerChannel, name: str) -> None:
    channel.declare_queue(name, exclusive=True)
    channel.publish("", name, b"left")
    channel.delete_queue(name, if_empty=True)


def _in_use(channel: PeerChannel, name: str) -> None:
    channel.declare_queue(name, exclusive=True)
    channel.consume(name)
    channel.delete_queue(name, if_unused=True)


def _bound(channel: PeerChannel, name: str) -> None:
    channel.declare_queue(name, exclusive=True)
    channel.declare_exchange(name, auto_delete=True)
    channel.bind(name, name)
    channel.delete_exchange(name, if_unused=True)


def _beside_an_exclusive_consumer(channel: PeerChannel, name: str) -> None:
    channel.declare_queue(name, exclusive=True)
    channel.consume(name, exclusive=True)
    channel.consume(name)


def _ack_of_nothing(channel: PeerChannel, _: str) -> None:
    channel.ack(99)


def _purged_stream(channel: PeerChannel, _: str) -> None:
    channel.declare_queue("a-stream", durable=True, arguments={"x-queue-type": "stream"})
    channel.purge("a-stream")


# What is done, and what the broker says of it: the code, and the whole text.
CHANNEL_ERRORS: Final[dict[str, tuple[Action, int, str]]] = {
    "a queue that is not there": (
        lambda channel, name: channel.declare_queue(name, passive=True),
        404,
        "NOT_FOUND - no queue '{name}' in vhost '/'",
    ),
    "get from nowhere": (
        lambda channel, name: channel.get(name),
        404,
        "NOT_FOUND - no queue '{name}' in vhost '/'",
    ),
    "consume from nowhere": (
        lambda channel, name: channel.consume(name),
        404,
        "NOT_FOUND - no queue '{name}' in vhost '/'",
    ),
    "publish to nowhere": (
        lambda channel, name: channel.publish(name, "", b""),
        404,
        "NOT_FOUND - no exchange '{name}' in vhost '/'",
    ),
    "bind to nowhere": (
        lambda channel, name: channel.bind(channel.declare_queue(name, exclusive=True).queue, name + "x"),
        404,
        "NOT_FOUND - no exchange '{name}x' in vhost '/'",
    ),
    "a queue declared differently": (
        _declared_again,
        406,
        (
            "PRECONDITION_FAILED - inequivalent arg 'durable' for queue '{name}' in vhost '/': "
            "received 'false' but current is 'true'"
        ),
    ),
    "an exchange declared differently": (
        lambda channel, _: channel.declare_exchange("amq.topic", "direct", durable=True),
        406,
        (
            "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'amq.topic' in vhost '/': "
            "received 'direct' but current is 'topic'"
        ),
    ),
    "a queue with messages": (_not_empty, 406, "PRECONDITION_FAILED - queue '{name}' in vhost '/' not empty"),
    "a queue with a consumer": (_in_use, 406, "PRECONDITION_FAILED - queue '{name}' in vhost '/' in use"),
    "an exchange with a binding": (_bound, 406, "PRECONDITION_FAILED - exchange '{name}' in vhost '/' in use"),
    "an ack of nothing": (_ack_of_nothing, 406, "PRECONDITION_FAILED - unknown delivery tag 99"),
    "a consumer beside an exclusive one": (
        _beside_an_exclusive_consumer,
        403,
        "ACCESS_REFUSED - queue '{name}' in vhost '/' in exclusive use",
    ),
    "a reserved name": (
        lambda channel, name: channel.declare_queue("amq." + name),
        403,
        "ACCESS_REFUSED - queue name 'amq.{name}' contains reserved prefix 'amq.*'",
    ),
    "an exchange of no known type": (
        lambda channel, name: channel.declare_exchange(name, "pigeon"),
        406,
        "PRECONDITION_FAILED - unknown exchange type 'pigeon'",
    ),
    "an argument that is no number": (
        lambda channel, name: channel.declare_queue(name, arguments={"x-message-ttl": "soon"}),
        406,
        "PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue '{name}' in vhost '/': ",
    ),
    "an exchange of the broker's": (
        lambda channel, _: channel.delete_exchange("amq.topic"),
        403,
        "ACCESS_REFUSED - exchange name 'amq.topic' contains reserved prefix 'amq.*'",
    ),
}

CONNECTION_ERRORS: Final[dict[str, tuple[Action, int, str]]] = {
    "what a stream does not do": (_purged_stream, 540, "NOT_IMPLEMENTED - "),
}


def refusal(channel: PeerChannel, name: str, action: Action) -> Refused:
    with pytest.raises(Refused) as refused:
        _answered(channel, name, action)
    return refused.value


def _answered(channel: PeerChannel, name: str, action: Action) -> None:
    """What has no answer of its own is refused before what comes after it is answered."""
    action(channel, name)
    channel.round_trip()


@pytest.mark.parametrize(("action", "code", "text"), CHANNEL_ERRORS.values(), ids=CHANNEL_ERRORS)
def test_channel_error(peer: Peer, name: str, action: Action, code: int, text: str) -> None:
    """The channel is closed with the code and words, and its connection and other channels go on."""
    bystander = peer.channel()
    channel = peer.channel(confirms=True)
    refused = refusal(channel, name, action)
    assert refused.code == code
    assert text.format(name=name) in refused.text
    bystander.round_trip()
    peer.channel().round_trip()
    bystander.delete_queue(name)
    bystander.delete_exchange(name)


@pytest.mark.parametrize(("action", "code", "text"), CONNECTION_ERRORS.values(), ids=CONNECTION_ERRORS)
def test_connection_error(
    client: str, connect: Connect, peer: Peer, name: str, action: Action, code: int, text: str
) -> None:
    """The connection is closed with the code and words, nothing was made, and another connection goes on."""
    other = connect(client).channel()
    sibling = peer.channel()
    refused = refusal(peer.channel(), name, action)
    assert refused.code == code
    assert text in refused.text
    # Each client has an error of its own for a channel whose connection is gone.
    with pytest.raises(Exception, match="."):
        sibling.round_trip()
    with pytest.raises(Refused, match="404"):
        other.declare_queue(name, passive=True)


def test_locked(client: str, connect: Connect, peer: Peer, name: str) -> None:
    """A queue that is exclusive to one connection is locked for another, whatever that wants with it."""
    peer.channel().declare_queue(name, exclusive=True)
    intruder = connect(client)
    actions: list[Action] = [
        lambda channel, name: channel.declare_queue(name, exclusive=True),
        lambda channel, name: channel.consume(name),
        lambda channel, name: channel.delete_queue(name),
    ]
    for action in actions:
        refused = refusal(intruder.channel(), name, action)
        assert refused.code == 405
        assert f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{name}' in vhost" in refused.text


@pytest.mark.parametrize("login", ["guest:wrong", "nobody:guest"])
def test_bad_credentials(connect: Connect, client: str, broker: BrokerProcess, login: str) -> None:
    """A login with a wrong password, or by nobody known, is 403 in the same words."""
    with pytest.raises(Refused) as refused:
        connect(client, broker.url.replace("guest:guest", login))
    assert refused.value.code == 403
    assert "ACCESS_REFUSED - Login was refused using authentication mechanism" in refused.value.text


def test_unknown_virtual_host(connect: Connect, client: str, broker: BrokerProcess) -> None:
    """A virtual host that is not there is 530; two of the clients say only that they were closed."""
    if client in {"aio-pika", "amqplib"}:
        with pytest.raises(Exception, match="OpenOk.* got .*Close"):
            connect(client, broker.url.replace("%2f", "elsewhere"))
        return
    with pytest.raises(Refused) as refused:
        connect(client, broker.url.replace("%2f", "elsewhere"))
    assert refused.value.code == 530
    assert "NOT_ALLOWED - vhost elsewhere not found" in refused.value.text
