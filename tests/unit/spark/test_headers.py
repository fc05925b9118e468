"""Headers with their types: whatever a table holds comes back as it was."""

from decimal import Decimal

import pytest

from flintmq.base.errors import FlintError
from flintmq.base.values import Timestamp
from flintmq.spark.headers import table_of, typed, untyped
from flintmq.wire.amqp091.properties import Properties, encode_properties
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


def nested(depth: int) -> Table:
    value: object = 1
    for _ in range(depth):
        value = {"a": value}
    return {"h": value}


@pytest.mark.parametrize("depth", [1, 2, 20, 62, 63])
def test_the_text_grows_with_the_header(depth: int) -> None:
    """Whatever is within a header, its text is a few times as long as the header is, and can be made again."""
    headers = nested(depth)
    size = len(encode_properties(Properties(headers=headers)))
    kind, value = typed(headers["h"])
    assert value is not None
    assert len(value) < 10 * size
    assert untyped(kind, value) == headers["h"]


def test_what_earlier_versions_wrote() -> None:
    """There, a nested table was a text within the text."""
    old = '{"a": ["table", "{\\"b\\": [\\"array\\", \\"[[\\\\\\"long\\\\\\", \\\\\\"1\\\\\\"]]\\"]}"]}'
    assert untyped("table", old) == {"a": {"b": [1]}}


def test_headers_whose_text_would_be_too_long() -> None:
    """What is short in AMQP and long in JSON is kept as it came, and can be made again."""
    value = [[None] * 4000 for _ in range(40)]
    kind, said = typed(value)
    assert kind == "encoded"
    assert said is not None
    assert len(said) < 2 * 160_000 + 1000
    assert untyped(kind, said) == value


@pytest.mark.parametrize("depth", [65, 900, 100_000])
def test_headers_that_are_too_deep(depth: int) -> None:
    """A row whose header no message could have is refused, and not by an error of Python's."""
    for text in ("[" * depth + "]" * depth, '[["array", ' * depth + "[]" + "]]" * depth):
        with pytest.raises(FlintError, match="more than 64 tables and arrays|a header of type array cannot be"):
            untyped("array", text)


def test_types_are_told() -> None:
    """A query can choose by type, and read the value."""
    assert typed(7) == ("long", "7")
    assert typed(False) == ("boolean", "false")
    assert typed([1, "a"]) == ("array", '[["long", "1"], ["string", "a"]]')


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("int", "1", "has the unknown type 'int': use string, long"),
        (None, "1", "has the unknown type None"),
        ("long", "x", "a header of type long cannot be 'x'"),
        ("long", None, "cannot be None"),
        ("boolean", "yes", "cannot be 'yes'"),
        ("binary", "%", "cannot be '%'"),
        ("decimal", "x", "cannot be 'x'"),
        ("table", "[]", "cannot be"),
        ("array", "[1]", "cannot be"),
        ("table", '{"a": ["array", {}]}', "a header of type array cannot be {}"),
        ("encoded", "AAAA", "cannot be"),
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
