"""Rows to messages: which columns mean what, and which are refused."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.spark.columns import HEADER_FORMS, READABLE
from flintmq.spark.sink.options import write_options
from flintmq.spark.sink.rows import RowEncoder
from flintmq.wire.amqp091.properties import Properties, decode_properties, encode_properties

PERSISTENT = b"\x10\x00\x02"
TRANSIENT = b"\x10\x00\x01"


BINARY = BinaryType()
INT = IntegerType()
LONG = LongType()
TEXT = StringType()

Columns = dict[str, DataType]
BODY: Columns = {"body": BINARY}


def schema_of(columns: Columns) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def encoder(columns: Columns, **options: str) -> RowEncoder:
    return RowEncoder(schema_of(columns), write_options({"url": "amqp://h/", **options}))


def rows(
    columns: Columns, values: Sequence[Mapping[str, object]], **options: str
) -> list[tuple[str, str, bytes, bytes, bool]]:
    schema = to_arrow_schema(schema_of(columns), timezone="UTC")
    return [*encoder(columns, **options).rows(pa.RecordBatch.from_pylist(values, schema))]


def test_the_body_alone() -> None:
    """With the address in the options, a body is all that rows need."""
    assert rows(BODY, [{"body": b""}, {"body": b"\xff"}], exchange="x", routingKey="k") == [
        ("x", "k", b"", PERSISTENT, False),
        ("x", "k", b"\xff", PERSISTENT, False),
    ]


def test_text_as_body() -> None:
    """A string is published in UTF-8, also under the name that Kafka's sink gives it, however it is spelled."""
    assert rows({"Value": TEXT}, [{"Value": "ü"}], exchange="x")[0][2] == "ü".encode()


def test_addresses_by_row() -> None:
    """Rows say where they go when no option does; null is empty."""
    values: list[dict[str, object]] = [
        {"body": b"1", "exchange": "a", "routing_key": "k"},
        {"body": b"2", "exchange": None},
    ]
    assert [row[:3] for row in rows({**BODY, "exchange": TEXT, "routing_key": TEXT}, values)] == [
        ("a", "k", b"1"),
        ("", "", b"2"),
    ]


def test_options_win_over_columns() -> None:
    """An option speaks for all rows."""
    values = [{"body": b"1", "exchange": "a", "routing_key": "k", "content_type": "t"}]
    columns: Columns = {**BODY, "exchange": TEXT, "routing_key": TEXT, "content_type": TEXT}
    row = rows(columns, values, exchange="x", routingKey="y", contentType="z")[0]
    assert row[:2] == ("x", "y")
    assert decode_properties(row[3]).content_type == "z"


def test_transient_and_mandatory() -> None:
    """Options choose the delivery mode and whether somebody must take the message."""
    options = {"exchange": "x", "persistent": "false", "mandatory": "true"}
    assert rows(BODY, [{"body": b""}], **options) == [("x", "", b"", TRANSIENT, True)]


def test_properties() -> None:
    """A column sets the property of its name; null leaves it out, and the delivery mode as the option says."""
    given: dict[str, object] = {
        "content_type": "t",
        "content_encoding": "e",
        "delivery_mode": 1,
        "priority": 3,
        "correlation_id": "c",
        "reply_to": "r",
        "expiration": "5",
        "message_id": "m",
        "type": "y",
        "user_id": "u",
        "app_id": "a",
    }
    values = {
        **given,
        "message_timestamp": datetime(2023, 11, 14, 22, 13, 20, 999_000, UTC),
        "headers": {"k": "v", "none": None},
    }
    types: Columns = {name: INT if name in ("delivery_mode", "priority") else TEXT for name in given}
    types |= {"message_timestamp": TimestampType(), "headers": MapType(TEXT, TEXT)}
    full, empty = rows({**BODY, **types}, [{"body": b"", **values}, {"body": b""}], exchange="x")
    expected = Properties(**given, headers={"k": "v", "none": None}, timestamp=1_700_000_000)  # type: ignore[arg-type]
    assert decode_properties(full[3]) == expected
    assert empty[3] == PERSISTENT


def test_typed_headers() -> None:
    """Header values keep a type that the protocol has."""
    row = rows({**BODY, "headers": MapType(TEXT, LONG)}, [{"body": b"", "headers": {"n": 7}}], exchange="x")[0]
    assert decode_properties(row[3]).headers == {"n": 7}


def test_expiration_as_a_number() -> None:
    """Milliseconds may be a number in the data; a message has them as text."""
    first, second = rows(
        {**BODY, "expiration": LONG}, [{"body": b"", "expiration": 60_000}, {"body": b""}], exchange="x"
    )
    assert decode_properties(first[3]).expiration == "60000"
    assert decode_properties(second[3]).expiration is None


def test_dedup_needs_message_ids() -> None:
    """What queues know a message by must be there, in every row."""
    with pytest.raises(ConfigurationError, match="deliveryMode dedup needs a column message_id"):
        encoder(BODY, exchange="x", deliveryMode="dedup")
    columns: Columns = {**BODY, "message_id": TEXT}
    values: list[dict[str, object]] = [{"body": b"", "message_id": "1"}, {"body": b""}]
    row = rows(columns, values[:1], exchange="x", deliveryMode="dedup")[0]
    assert decode_properties(row[3]).message_id == "1"
    with pytest.raises(FlintError, match="1 row without a message_id, which deliveryMode dedup needs"):
        rows(columns, values, exchange="x", deliveryMode="dedup")
    assert len(rows(columns, values, exchange="x")) == 2


def test_headers_with_types() -> None:
    """Headers in the form that keeps their types are published as they were, and the other form is left out."""
    columns: Columns = {**BODY, **HEADER_FORMS}
    values = {"headers": {"n": "7"}, "headers_typed": {"n": {"type": "long", "value": "7"}}}
    full, none = rows(columns, [{"body": b"", **values}, {"body": b""}], exchange="x")
    assert decode_properties(full[3]).headers == {"n": 7}
    assert decode_properties(none[3]).headers is None


def test_what_was_read_can_be_written() -> None:
    """All columns that reading yields are accepted, and those that only the broker sets are left out."""
    values = {"body": b"b", "exchange": "x", "routing_key": "k", "queue": "q", "offset": 5, "type": "t"}
    expected = ("x", "k", b"b", encode_properties(Properties(delivery_mode=2, type="t")), False)
    assert rows(READABLE, [values]) == [expected]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"routing_key": TEXT}, "needs a column body"),
        ({**BODY, "value": TEXT}, "not both"),
        ({"body": INT}, "column body is int: it must be binary or string"),
        ({**BODY, "routingkey": TEXT}, "routingkey is nothing that a message has"),
        ({**BODY, "priority": TEXT}, "it must be a whole number"),
        ({**BODY, "message_id": INT}, "it must be string"),
        ({**BODY, "expiration": BINARY}, "it must be milliseconds, as a whole number or as a string"),
        ({**BODY, "message_timestamp": LONG}, "it must be timestamp"),
        ({**BODY, "headers": TEXT}, "it must be a map"),
        ({**BODY, "headers_typed": MapType(TEXT, TEXT)}, "it must be map<string,struct<type:string,value:string>>"),
        ({**BODY, "headers": MapType(INT, TEXT)}, "it must be a map"),
        ({**BODY, "headers": MapType(TEXT, ArrayType(INT))}, "it must be a map"),
    ],
)
def test_wrong_columns(columns: Columns, expected: str) -> None:
    """Columns that are no part of a message, or have another type, are refused before anything is published."""
    with pytest.raises(ConfigurationError, match=expected):
        encoder(columns, exchange="x")


def test_no_exchange() -> None:
    """Somebody must say where to publish."""
    with pytest.raises(ConfigurationError, match="say where to publish"):
        encoder(BODY)


def test_null_bodies() -> None:
    """A row without a body is no message."""
    with pytest.raises(FlintError, match="1 row without a body"):
        rows(BODY, [{"body": b""}, {"body": None}], exchange="x")
