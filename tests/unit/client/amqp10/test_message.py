"""Messages of the AMQP 1.0 client: what a program says, the wire says, and the other way round."""

import pytest

from flintmq.base.errors import DecodeError
from flintmq.client.amqp10.message import Data, Message, Sequence, Value, decode
from flintmq.wire.amqp10.properties import Header, Properties
from flintmq.wire.amqp10.values import Symbol, UInt, Uuid


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"bytes",
        Data([b"one", b"", b"three"]),
        Sequence([[1, "two"], []]),
        Value(b"bytes as a value"),
        {"key": [1, 2.5, None]},
        "text",
        7,
        UInt(7),
        None,
        True,
        Symbol("symbol"),
    ],
    ids=repr,
)
def test_bodies(body: object) -> None:
    """Every kind of body comes back as it was, with its type."""
    decoded = decode(Message(body).encode()).body
    assert decoded == body
    assert type(decoded) is type(body)


def test_sections() -> None:
    """All sections of a message come back as they were."""
    message = Message(
        b"body",
        Properties(message_id=Uuid(bytes(16)), to="/queues/q", subject="s", group_sequence=7, creation_time=5),
        {"text": "ü", "number": 5},
        Header(durable=True, priority=9, ttl=1000, first_acquirer=True, delivery_count=3),
        {"x-opt-mine": 1},
        {"x-opt-hop": 2},
        {"x-opt-sum": b"crc"},
    )
    decoded = decode(message.encode())
    for name in (
        "body", "properties", "application_properties", "header", "annotations", "delivery_annotations", "footer",
    ):  # fmt: skip
        assert getattr(decoded, name) == getattr(message, name), name


def test_a_message_is_durable_unless_it_says_otherwise() -> None:
    """Nobody loses messages by not thinking of it."""
    assert decode(Message(b"x").encode()).header.durable
    assert not decode(Message(b"x", header=Header()).encode()).header.durable


@pytest.mark.parametrize("payload", ["", "005370c00101", "00537345", "0102"])
def test_what_is_no_message(payload: str) -> None:
    """It is refused as such."""
    with pytest.raises(DecodeError):
        decode(bytes.fromhex(payload))
