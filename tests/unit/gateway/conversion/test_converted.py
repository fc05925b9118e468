"""What is remembered of conversions changes nothing of their results."""

import pytest

from flintmq.broker.message import Address, ContentCodec, Message
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.gateway.amqp10.codec import CODEC_10
from flintmq.gateway.conversion.converted import Converted
from flintmq.gateway.conversion.lossless import to_091, to_10
from flintmq.gateway.conversion.parts import data_content, write_annotations, write_application
from flintmq.wire.amqp091.properties import Properties, encode_properties
from flintmq.wire.amqp10.sections import encode_amqp_value, encode_data, encode_footer

HEADS = [b"", write_application({"a": 1}), write_annotations({"x-basic-type": "amqp-1.0"})]
BODIES = [
    encode_data(b"a"),
    encode_data(b""),
    encode_data(b"a" * 300),
    encode_data(b"a") + encode_data(b"b"),
    encode_data(b"a") + encode_footer({"x": 1}),
    encode_amqp_value("a"),
    encode_data(b"b"),
]
PROPERTIES = [
    encode_properties(each)
    for each in (
        Properties(),
        Properties(headers={"a": 1}),
        Properties(type="amqp-1.0"),
        Properties(headers={"x-amqp-1.0-data": b"\x00\x00\x00\x01"}),
    )
]


def message(codec: ContentCodec, properties: bytes, body: bytes) -> Message:
    return Message(Address("", "q"), codec, properties, body, codec.options(properties), 0)


def test_towards_0_9_1() -> None:
    """In any order, and again."""
    converted = Converted()
    for head in HEADS * 2:
        for body in BODIES * 2:
            sent = message(CODEC_10, head, body)
            assert converted.in_091(sent) == to_091(head, body)
            assert converted.in_091(sent) == to_091(head, body)


def test_towards_1_0() -> None:
    """In any order, and again."""
    converted = Converted()
    for properties in PROPERTIES * 2:
        for body in [b"a", encode_amqp_value("a"), b"b", encode_data(b"a"), b""] * 2:
            sent = message(CODEC_091, properties, body)
            assert converted.in_10(sent) == to_10(properties, body)


@pytest.mark.parametrize("head", [b"\x00", b"\x00\x53\x75\xa0\x00"])
def test_what_nobody_publishes_is_delivered_as_it_is(head: bytes) -> None:
    """From a disk, say: all of it is the body."""
    assert Converted().in_091(message_of(head))[1] == head + b"body"


def message_of(head: bytes) -> Message:
    return Message(Address("", "q"), CODEC_10, head, b"body", CODEC_10.options(b""), 0)


@pytest.mark.parametrize("size", [0, 1, 255, 256, 70_000])
def test_a_single_data_section_is_known(size: int) -> None:
    """By its length, whichever way that is written; nothing else is one."""
    body = encode_data(b"x" * size)
    assert data_content(body) == b"x" * size
    for other in (body[:-1], body + b"x", b"\x00\x53\x77" + body[3:], b""):
        assert data_content(other) is None
