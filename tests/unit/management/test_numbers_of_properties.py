"""Properties of messages over HTTP that are numbers."""

import pytest

from flintmq.management.errors import BadRequest
from flintmq.management.messages.representation import properties_of


def test_number_of_many_digits() -> None:
    """A number in a text with more digits than Python reads is refused as any other that does not fit."""
    assert properties_of({"priority": "5"}) == properties_of({"priority": 5})
    with pytest.raises(BadRequest, match="the property priority is a number, not '999"):
        properties_of({"priority": "9" * 5_000})
