"""What AMQP 1.0 forbids and RabbitMQ lets pass: the rabbitmq dialect takes it, and strict refuses it."""

import pytest

from flintmq.base.errors import EndedByPeer
from flintmq.broker.ports import VHostRecord
from flintmq.wire.amqp10.frames import EMPTY_FRAME
from tests.unit.gateway.amqp10.pair import Client, Server

# An error of which no field is set, as RabbitMQ's Erlang client writes it where it means none.
_NO_ERROR = b"\x00\x53\x1d\xc0\x04\x03\x40\x40\x40"


def _frame(channel: int, body: bytes) -> bytes:
    return (8 + len(body)).to_bytes(4, "big") + b"\x02\x00" + channel.to_bytes(2, "big") + body


def _described(code: int, *fields: bytes) -> bytes:
    content = b"".join(fields)
    return bytes([0x00, 0x53, code, 0xC0, len(content) + 1, len(fields)]) + content


_END = _described(0x17, _NO_ERROR)
_CLOSE = _described(0x18, _NO_ERROR)
_DETACH_0 = _described(0x16, b"\x43", b"\x41", _NO_ERROR)
_DETACH_9 = _described(0x16, b"\x52\x09", b"\x41")
_REJECT_0 = _described(0x15, b"\x41", b"\x43", b"\x40", b"\x41", _described(0x25, _NO_ERROR))
# next-incoming-id, incoming-window, next-outgoing-id, outgoing-window, no handle, delivery-count.
_FLOW_OF_NO_LINK = _described(0x13, b"\x43", b"\x52\x64", b"\x43", b"\x52\x64", b"\x40", b"\x43")


def _client(dialect: str) -> Client:
    server = Server()
    server.broker.put_vhost(VHostRecord("/", dialect))
    server.queue()
    return Client(server)


def _hear(client: Client, channel: int, body: bytes) -> None:
    client.connection.engine.receive(_frame(channel, body) + EMPTY_FRAME, 0.0)
    client.tick()


def _condition(error: object) -> str:
    assert isinstance(error, EndedByPeer)
    return error.condition


def test_session_is_ended_with_an_error_that_says_nothing() -> None:
    """The Erlang client's way to end a session without a fault ends the session, and the connection goes on."""
    client = _client("rabbitmq")
    _hear(client, 0, _END)
    assert not client.closed
    assert not client.connection.is_closed
    assert not client.connection.sessions


def test_connection_is_closed_with_an_error_that_says_nothing() -> None:
    """A close with such an error is one without an error."""
    client = _client("rabbitmq")
    _hear(client, 0, _CLOSE)
    assert client.connection.is_closed
    assert client.connection.closed is None


def test_link_is_detached_with_an_error_that_says_nothing() -> None:
    """A detach with such an error detaches the link, and the session goes on."""
    client = _client("rabbitmq")
    client.receiver()
    _hear(client, 0, _DETACH_0)
    assert client.server.vhost.queues["q"].consumer_count == 0
    assert client.connection.sessions


def test_message_is_rejected_with_an_error_that_says_nothing() -> None:
    """A rejection with such an error rejects the message."""
    client = _client("rabbitmq")
    client.sender().publish("m")
    receiver = client.receiver()
    assert receiver.bodies() == ["m"]
    _hear(client, 0, _REJECT_0)
    assert client.server.vhost.queues["q"].unacked == 0


@pytest.mark.parametrize(("channel", "body"), [(7, _END), (7, _DETACH_9), (0, _DETACH_9), (0, _FLOW_OF_NO_LINK)])
def test_frames_that_concern_nothing_are_ignored(channel: int, body: bytes) -> None:
    """What is for a session or a link that is not there changes nothing."""
    client = _client("rabbitmq")
    _hear(client, channel, body)
    assert not client.ended
    assert not client.connection.is_closed
    assert client.sender().publish("m")


@pytest.mark.parametrize(
    ("channel", "body", "condition"),
    [
        (0, _END, "amqp:decode-error"),
        (0, _CLOSE, "amqp:decode-error"),
        (0, _DETACH_0, "amqp:decode-error"),
        (0, _REJECT_0, "amqp:decode-error"),
        (7, _DETACH_9, "amqp:illegal-state"),
    ],
)
def test_strict_closes_the_connection(channel: int, body: bytes, condition: str) -> None:
    """In the strict dialect, these cost the connection."""
    client = _client("strict")
    client.receiver()
    _hear(client, channel, body)
    assert _condition(client.closed[0]) == condition


@pytest.mark.parametrize(
    ("body", "condition"),
    [
        (_DETACH_9, "amqp:session:unattached-handle"),
    ],
)
def test_strict_ends_the_session(body: bytes, condition: str) -> None:
    """In the strict dialect, these cost the session."""
    client = _client("strict")
    client.sender()
    _hear(client, 0, body)
    assert _condition(client.ended[0]) == condition
