"""What the broker reads out of AMQP 0-9-1 content."""

import pytest

from flintmq.base.limits import FRAME_MAX_BYTES
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.wire.amqp091.properties import Properties, decode_properties, encode_properties

ALL = encode_properties(Properties(headers={"h": 1}, correlation_id="c", message_id="m", timestamp=17, app_id="a"))


@pytest.mark.parametrize(("name", "text"), [("correlation_id", "c"), ("message_id", "m"), ("timestamp", "17")])
def test_property_text(name: str, text: str) -> None:
    """A property is given as text, and as none where the message has none."""
    assert CODEC_091.property_text(ALL, name) == text
    assert CODEC_091.property_text(encode_properties(Properties(app_id="a")), name) == ""


def test_annotations_become_headers() -> None:
    """Those of a consumer stand beside the publisher's, and before them; what no header can hold is left out."""
    properties = encode_properties(Properties(headers={"a": 1, "b": 2}, message_id="m"))
    annotated = CODEC_091.annotated(properties, {"b": 3, "odd": object(), "c": "x"})
    decoded = decode_properties(annotated)
    assert (decoded.headers, decoded.message_id) == ({"a": 1, "b": 3, "c": "x"}, "m")
    assert CODEC_091.annotated(properties, {}) == properties
    assert CODEC_091.headers(CODEC_091.annotated(CODEC_091.nothing, {"c": True})) == {"c": True}


def test_annotations_that_no_frame_has_room_for() -> None:
    """They are left out: a consumer that adds some to a message again and again must not make it one for nobody."""
    properties = encode_properties(Properties(headers={"a": 1}))
    for number in range(10):
        properties = CODEC_091.annotated(properties, {f"n{number}": "x" * 30_000, f"m{number}": number})
    assert len(properties) <= CODEC_091.properties_max < FRAME_MAX_BYTES
    found = CODEC_091.headers(properties)
    assert [name for name in found if name.startswith("n")] == ["n0", "n1", "n2", "n3"]
    assert [name for name in found if name.startswith("m")] == [f"m{number}" for number in range(10)]
