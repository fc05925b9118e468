"""What the broker reads out of AMQP 0-9-1 content."""

import pytest

from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.wire.amqp091.properties import Properties, encode_properties

ALL = encode_properties(Properties(headers={"h": 1}, correlation_id="c", message_id="m", timestamp=17, app_id="a"))


@pytest.mark.parametrize(("name", "text"), [("correlation_id", "c"), ("message_id", "m"), ("timestamp", "17")])
def test_property_text(name: str, text: str) -> None:
    """A property is given as text, and as none where the message has none."""
    assert CODEC_091.property_text(ALL, name) == text
    assert CODEC_091.property_text(encode_properties(Properties(app_id="a")), name) == ""
