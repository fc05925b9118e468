"""What the broker reads in messages of AMQP 1.0, and that it changes nothing of the bare message."""

from decimal import Decimal

import pytest

from flintmq.base.errors import PreconditionFailed
from flintmq.base.values import Timestamp
from flintmq.broker.message import FOREVER, UNSTATED
from flintmq.gateway.amqp10.codec import CODEC_10, options
from flintmq.gateway.conversion.decimals import to_decimal64
from flintmq.gateway.conversion.parts import (
    HeaderFields,
    read_annotations,
    read_header,
    split,
    write_annotations,
    write_application,
    write_header,
    write_properties,
)
from flintmq.wire.amqp10.properties import Properties
from flintmq.wire.amqp10.values import Array, Int, Symbol, TimestampMs, UByte, UInt, ULong, Uuid

UUID = Uuid(bytes(range(16)))
BARE = write_properties(
    Properties(
        message_id=UUID,
        user_id=b"guest",
        to="/queues/q",
        subject="order",
        reply_to="/queues/a%2Fb",
        correlation_id=ULong(7),
        content_type="text/plain",
        creation_time=1_700_000_000_123,
        absolute_expiry_time=1_800_000_000_000,
        group_id="g",
        group_sequence=3,
    )
) + write_application(
    {
        "color": "red",
        "n": UInt(7),
        "price": to_decimal64(125, 2),
        "when": TimestampMs(5_000),
        "x-own": Symbol("s"),
        "yes": True,
    }
)
AROUND = write_annotations({"x-stream-filter-value": "eu", "x-cc": ["k"], "other": 1})
MESSAGE = write_header(HeaderFields(True, 7, 60_000)) + AROUND + BARE


def test_headers_are_application_properties_and_annotations() -> None:
    """With the values that the headers of the same message would have in 0-9-1."""
    assert CODEC_10.headers(MESSAGE) == {
        "color": "red",
        "n": 7,
        "price": Decimal("1.25"),
        "when": Timestamp(5),
        "x-own": "s",
        "yes": True,
        "x-stream-filter-value": "eu",
        "CC": ["k"],
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("message_id", "urn:uuid:00010203-0405-0607-0809-0a0b0c0d0e0f"),
        ("correlation_id", "7"),
        ("user_id", "guest"),
        ("reply_to", "a/b"),
        ("content_type", "text/plain"),
        ("content_encoding", None),
        ("timestamp", 1_700_000_000),
        ("creation_time", 1_700_000_000_123),
        ("app_id", "g"),
        ("type", "order"),
        ("subject", "order"),
        ("to", "/queues/q"),
        ("group_sequence", 3),
        ("delivery_mode", 2),
        ("priority", 7),
        ("expiration", "60000"),
    ],
)
def test_properties_have_the_names_of_0_9_1(name: str, value: object) -> None:
    """Those that only 1.0 has have their own."""
    assert CODEC_10.property_value(MESSAGE, name) == value


def test_filters_see_properties_as_they_are() -> None:
    """A ulong is a number there, and a UUID its bytes."""
    assert CODEC_10.section_value(MESSAGE, "message_id") == UUID.raw
    assert CODEC_10.section_value(MESSAGE, "correlation_id") == 7
    assert CODEC_10.section_value(MESSAGE, "user_id") == b"guest"
    assert CODEC_10.section_value(MESSAGE, "priority") == 7
    assert CODEC_10.section_value(BARE, "priority") is None


def test_the_header_says_how_to_handle_a_message() -> None:
    """Without one, a message is transient, ranked with all that do not say, and does not expire."""
    asked = CODEC_10.options(MESSAGE)
    assert (asked.persistent, asked.priority, asked.ttl_ms) == (True, 7, 60_000)
    asked = CODEC_10.options(BARE)
    assert (asked.persistent, asked.priority, asked.ttl_ms) == (False, UNSTATED, FOREVER)


@pytest.mark.parametrize("name", ["x-delay", "x-opt-delivery-delay"])
def test_an_annotation_delays_a_message(name: str) -> None:
    """By whichever integer."""
    assert options(split(write_annotations({name: Int(500)}))).delay_ms == 500
    assert options(split(write_annotations({name: ULong(500)}))).delay_ms == 500


@pytest.mark.parametrize("annotation", [{"x-delay": 2**33}, {"x-delay-cancel": 1}, {"x-queue-command": "dance"}])
def test_an_annotation_that_asks_for_what_cannot_be_is_refused(annotation: dict[str | int, object]) -> None:
    """When it is published; one that was stored all the same is handled as if it asked for nothing."""
    encoded = write_annotations(annotation)
    with pytest.raises(PreconditionFailed):
        options(split(encoded))
    assert CODEC_10.options(write_header(HeaderFields(True)) + encoded).persistent


def test_a_dead_letter_has_its_history_around_the_bare_message() -> None:
    """x-death goes into the annotation x-opt-deaths, the time to live goes, and the bare message stays as it was."""
    headers = CODEC_10.headers(MESSAGE)
    headers["x-death"] = [
        {
            "count": 1,
            "exchange": "",
            "queue": "q",
            "reason": "expired",
            "routing-keys": ["q", "k"],
            "time": Timestamp(1000),
            "original-expiration": "60000",
            "first-time": 1_000_500,
            "last-time": 1_000_700,
        }
    ]
    headers["x-first-death-queue"] = "q"
    del headers["CC"]
    edited = CODEC_10.edited(MESSAGE, headers, False)
    assert edited.endswith(BARE)
    sections = split(edited)
    assert read_header(sections.header).ttl is None
    assert read_header(sections.header).priority == 7
    annotations = read_annotations(sections.annotations)
    death = {
        Symbol("ttl"): UInt(60_000),
        Symbol("queue"): "q",
        Symbol("reason"): Symbol("expired"),
        Symbol("count"): ULong(1),
        Symbol("first-time"): TimestampMs(1_000_500),
        Symbol("last-time"): TimestampMs(1_000_700),
        Symbol("exchange"): "",
        Symbol("routing-keys"): Array("string", ["q", "k"]),
    }
    assert annotations == {
        "x-stream-filter-value": "eu",
        "other": 1,
        "x-opt-deaths": Array("map", [death]),
        "x-first-death-queue": "q",
    }
    assert CODEC_10.headers(edited)["x-death"] == headers["x-death"]
    again = CODEC_10.edited(edited, CODEC_10.headers(edited), True)
    assert again == edited


def test_values_of_headers_keep_a_type_that_was_not_changed() -> None:
    """What the broker does not change, it does not write either."""
    encoded = write_annotations({"x-byte": UByte(1), "x-sym": Symbol("s")}) + BARE
    headers = CODEC_10.headers(encoded)
    headers["x-new"] = 1
    annotations = read_annotations(split(CODEC_10.edited(encoded, headers, True)).annotations)
    assert annotations == {"x-byte": UByte(1), "x-sym": Symbol("s"), "x-new": 1}
