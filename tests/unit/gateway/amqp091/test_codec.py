"""What the broker reads out of AMQP 0-9-1 content."""

import pytest

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
