"""Headers with their types: whatever a table holds comes back as it was."""

from decimal import Decimal

import pytest

from flintmq.base.errors import FlintError
from flintmq.base.values import Timestamp
from flintmq.spark.headers import table_of, typed, untyped
from flintmq.wire.amqp091.tables import Table

HEADERS: Table = {
    "text": "\u00fc",
    "empty": "",
    "number": -5,
    "large": 2**62,
    "float": 0.1,
    "truth": True,
    "nothing": None,
    "bytes": b"raw\xff",
    "time": Timestamp(1_700_000_000),
    "decimal": Decimal("1.50"),
    "nested": {"a": [1, b"x", {"b": None}], "c": Timestamp(2), "d": Decimal("0.1")},
    "list": [],
}


def test_nothing_is_lost() -> None:
    """Values of every type, nested ones too, are what they were."""
    pairs = ((key, typed(value)) for key, value in HEADERS.items())
    again = table_of((key, {"type": kind, "value": value}) for key, (kind, value) in pairs)
    assert again == HEADERS
    assert [type(value) for value in again.values()] == [type(value) for value in HEADERS.values()]


def test_types_are_told() -> None:
    """A query can choose by type, and read the value."""
    assert typed(7) == ("long", "7")
    assert typed(False) == ("boolean", "false")
    assert typed([1, "a"]) == ("array", '[["long", "1"], ["string", "a"]]')


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("int", "1", "has the type 'int': there are string, long"),
        (None, "1", "has the type None"),
        ("long", "x", "a header of type long cannot be 'x'"),
        ("long", None, "cannot be None"),
        ("boolean", "yes", "cannot be 'yes'"),
        ("binary", "%", "cannot be '%'"),
        ("decimal", "x", "cannot be 'x'"),
        ("table", "[]", "cannot be"),
        ("array", "[1]", "cannot be"),
    ],
)
def test_what_is_no_value(kind: object, value: object, expected: str) -> None:
    """A type that there is not, and a text that is none of its values, are refused."""
    with pytest.raises(FlintError, match=expected):
        untyped(kind, value)


def test_a_header_that_is_null() -> None:
    """Its name is said, and what to write."""
    with pytest.raises(FlintError, match="the header h in the column headers_typed is null: leave it out"):
        table_of([("h", None)])
