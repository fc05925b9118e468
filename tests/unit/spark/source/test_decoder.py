"""Chunks to Arrow record batches, with exactly the schema Spark expects."""

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from librt.strings import BytesWriter
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, IntegerType, LongType, StructField, StructType

from flintmq.base.errors import ConfigurationError
from flintmq.base.values import Timestamp
from flintmq.spark.columns import MESSAGE, PROPERTIES, READABLE, check_read_schema, read_schema
from flintmq.spark.headers import untyped
from flintmq.spark.source.decoder import ChunkDecoder
from flintmq.wire.amqp091.chunk import REDELIVERED, push_record
from flintmq.wire.amqp091.properties import Properties, encode_properties
from flintmq.wire.amqp091.tables import encode_address

PLAIN = read_schema(MESSAGE)
WHOLE = read_schema(READABLE)


def chunk(*messages: tuple[bytes, Properties | bytes], exchange: str = "x", routing_key: str = "k") -> bytes:
    w = BytesWriter()
    for offset, (body, properties) in enumerate(messages):
        encoded = properties if isinstance(properties, bytes) else encode_properties(properties)
        address = encode_address(exchange, routing_key)
        flags = offset % 2 * REDELIVERED
        push_record(w, 100 + offset, 1_700_000_000_123 + offset, flags, address, encoded, body)
    return w.getvalue()


def decode(schema: StructType, data: bytes) -> pa.RecordBatch:
    batch = ChunkDecoder(schema, "q", 3).decode(data)
    batch.validate(full=True)
    assert batch.schema.equals(to_arrow_schema(schema, timezone="UTC"))
    return batch


def test_message_columns() -> None:
    """Every message becomes a row: its body unchanged, its place, and when the broker received it."""
    rows = decode(PLAIN, chunk((b"", b"\0\0"), (b"\x00\xff\r\n", b"\0\0"))).to_pylist()
    assert [row["body"] for row in rows] == [b"", b"\x00\xff\r\n"]
    assert [row["offset"] for row in rows] == [100, 101]
    assert {(row["exchange"], row["routing_key"], row["queue"], row["partition"]) for row in rows} == {
        ("x", "k", "q", 3)
    }
    assert [row["redelivered"] for row in rows] == [False, True]
    assert rows[1]["timestamp"] == datetime(2023, 11, 14, 22, 13, 20, 124_000, UTC)


def test_names_in_any_script() -> None:
    """Exchanges and routing keys are text, and may be empty or 255 bytes long."""
    for name in ("", "ключ.鍵", "é" * 127):
        row = decode(PLAIN, chunk((b"b", b"\0\0"), exchange=name, routing_key=name)).to_pylist()[0]
        assert (row["exchange"], row["routing_key"]) == (name, name)


def test_properties() -> None:
    """Each property has its column; what a publisher left out is null, also beside messages that have it."""
    given = Properties(
        content_type="t",
        content_encoding="e",
        delivery_mode=2,
        priority=9,
        correlation_id="c",
        reply_to="r",
        expiration="1000",
        message_id="m",
        timestamp=1_700_000_000,
        type="y",
        user_id="u",
        app_id="a",
    )
    none, all_of_them = (
        decode(WHOLE, chunk((b"", Properties()), (b"", given))).select([*PROPERTIES, "headers"]).to_pylist()
    )
    assert set(none.values()) == {None}
    assert all_of_them == {
        "content_type": "t",
        "content_encoding": "e",
        "delivery_mode": 2,
        "priority": 9,
        "correlation_id": "c",
        "reply_to": "r",
        "expiration": "1000",
        "message_id": "m",
        "message_timestamp": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
        "type": "y",
        "user_id": "u",
        "app_id": "a",
        "headers": None,
    }


def test_headers_are_text() -> None:
    """Header values become text, nested ones as JSON, nothing as null; or text and a type, and nothing is lost."""
    headers = {
        "text": "ü",
        "number": -5,
        "float": 0.5,
        "truth": True,
        "nothing": None,
        "bytes": b"raw\xff",
        "time": Timestamp(1_700_000_000),
        "decimal": Decimal("1.50"),
        "nested": {"a": [1, b"x", Timestamp(2), Decimal("0.1")]},
    }
    row = decode(WHOLE, chunk((b"", Properties(headers=headers)))).to_pylist()[0]
    assert {key: untyped(value["type"], value["value"]) for key, value in row["headers_typed"]} == headers
    assert dict(row["headers"]) == {
        "text": "ü",
        "number": "-5",
        "float": "0.5",
        "truth": "true",
        "nothing": None,
        "bytes": "raw\\xff",
        "time": "1700000000",
        "decimal": "1.50",
        "nested": '{"a": [1, "x", 2, "0.1"]}',
    }


def test_a_publishers_impossible_clock() -> None:
    """A publisher's timestamp that no clock shows is null; one in milliseconds by mistake is far in the future."""
    far, impossible = (
        decode(
            WHOLE,
            chunk(
                (b"", Properties(timestamp=1_700_000_000_000)),
                (b"", Properties(timestamp=2**64 - 1)),
            ),
        )
        .column("message_timestamp")
        .cast(pa.int64())
        .to_pylist()
    )
    assert far == 1_700_000_000_000_000_000
    assert impossible is None


def test_malformed_properties() -> None:
    """A message whose properties are malformed is a message without properties, and its neighbours are whole."""
    rows = decode(WHOLE, chunk((b"a", b"\x80\x00\xff"), (b"b", Properties(content_type="t")))).to_pylist()
    assert [(row["body"], row["content_type"]) for row in rows] == [(b"a", None), (b"b", "t")]


def test_unknown_times() -> None:
    """The timestamp is null if the time of receipt is unknown."""
    rows = ChunkDecoder(PLAIN, "q", 0, knows_times=False).decode(chunk((b"a", b"\0\0"), (b"b", b"\0\0"))).to_pylist()
    assert [row["timestamp"] for row in rows] == [None, None]


def test_generations() -> None:
    """Rows tell which lease or stream their offsets are of; null where they are of none."""
    schema = read_schema(["generation"])
    for given, expected in ((7, 7), (0, None)):
        rows = ChunkDecoder(schema, "q", 0, given).decode(chunk((b"a", b"\0\0"))).to_pylist()
        assert rows == [{"generation": expected}]


def test_no_messages() -> None:
    """An empty chunk is an empty record batch."""
    assert decode(WHOLE, b"").num_rows == 0


@pytest.mark.parametrize("name", READABLE)
def test_one_column(name: str) -> None:
    """A user's schema may choose any one column, which then is all that is made."""
    schema = StructType([StructField(name, READABLE[name])])
    check_read_schema(schema)
    assert decode(schema, chunk((b"b", Properties(headers={"k": "v"})))).num_columns == 1


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [("Body", READABLE["body"], "no column Body"), ("offset", IntegerType(), "offset is bigint, not int")],
)
def test_a_schema_of_the_users_own(name: str, kind: DataType, expected: str) -> None:
    """A column that there is not, or of another type, is refused."""
    with pytest.raises(ConfigurationError, match=expected):
        check_read_schema(StructType([StructField("offset", LongType()), StructField(name, kind)]))
