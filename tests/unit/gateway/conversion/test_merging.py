"""A message of 1.0 that went through the hands of a client of 0-9-1, who changed something."""

from flintmq.gateway.conversion.lossless import to_091, to_10
from flintmq.gateway.conversion.parts import (
    read_annotations,
    read_application,
    read_properties,
    split,
    write_annotations,
    write_application,
    write_properties,
)
from flintmq.wire.amqp091.properties import decode_properties, encode_properties
from flintmq.wire.amqp10.properties import Properties as Properties10
from flintmq.wire.amqp10.sections import encode_data
from flintmq.wire.amqp10.values import Symbol, TimestampMs, UInt, ULong, Uuid

ID = Uuid(bytes(16))
PROPERTIES = Properties10(
    message_id=ULong(1),
    correlation_id=b"\x00",
    subject="s",
    content_type="text/plain",
    creation_time=1_999,
    group_id="g",
)
APPLICATION = {"color": Symbol("red"), "id": ID, "n": UInt(7), "when": TimestampMs(1_999), "yes": True}
AROUND: dict[str | int, object] = {"x-sym": Symbol("a"), "x-other": Symbol("b"), "hidden": 1}
HEAD = write_annotations(AROUND) + write_properties(PROPERTIES) + write_application(APPLICATION)


def test_what_was_changed_is_changed_and_nothing_else() -> None:
    """Headers that are new, others, or gone; properties that are others or gone."""
    form, body = to_091(HEAD, encode_data(b"one") + encode_data(b"two"))
    properties = decode_properties(form)
    headers = properties.headers
    assert headers is not None
    headers["color"] = "blue"
    del headers["id"]
    headers["yes"] = 1
    headers["x-sym"] = "c"
    headers["new"] = "n"
    headers["x-new"] = "x"
    properties.message_id = "2"
    properties.timestamp = 5
    properties.content_type = None
    head, content = to_10(encode_properties(properties), body)
    sections = split(head)
    found = read_properties(sections.properties)
    assert found == Properties10(message_id="2", correlation_id=b"\x00", subject="s", creation_time=5_000, group_id="g")
    application = read_application(sections.application)
    assert {name: repr(value) for name, value in application.items()} == {
        "color": "'blue'",
        "n": "UInt(7)",
        "when": "TimestampMs(1999)",
        "yes": "Int(1)",
        "new": "'n'",
    }
    annotations = read_annotations(sections.annotations)
    assert annotations.pop("x-opt-amqp-0-9-1-properties") == encode_properties(properties)
    assert annotations == {"x-sym": "c", "x-other": Symbol("b"), "hidden": 1, "x-new": "x"}
    assert content == encode_data(b"one") + encode_data(b"two")


def test_another_body_is_in_one_section() -> None:
    """What was said of the old one's sections is of no use for it."""
    form, _ = to_091(HEAD, encode_data(b"one") + encode_data(b"two"))
    for body in (b"other", b"onetwo!", b""):
        head, content = to_10(form, body)
        assert content == encode_data(body)
        assert read_properties(split(head).properties) == PROPERTIES
