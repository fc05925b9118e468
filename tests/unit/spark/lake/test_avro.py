"""Bodies in Avro: what types Spark has for a schema, and what a body of it says."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from fastavro import schemaless_writer
from fastavro.schema import fingerprint, to_parsing_canonical_form
from pyspark.sql.types import StringType, StructField, StructType

from flintmq.base.errors import ConfigurationError
from flintmq.spark.lake.avro import _decode_all, spark_type
from flintmq.spark.lake.bodies import Framing

ADDRESS = {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "from", "type": ADDRESS},
        {"name": "to", "type": ["null", "shop.Address"]},
        {"name": "items", "type": {"type": "array", "items": {"type": "map", "values": "int"}}},
        {"name": "weight", "type": "double"},
    ],
}
SAID = {
    "id": UUID(int=7),
    "at": datetime(2026, 11, 22, 1, 2, 3, tzinfo=UTC),
    "day": date(2026, 11, 22),
    "total": Decimal("12.50"),
    "state": "PAID",
    "from": {"city": "Köln"},
    "to": None,
    "items": [{"a": 1}, {}],
    "weight": 0.5,
}


def encoded(schema: Any, value: Any) -> bytes:  # noqa: ANN401 - whatever Avro says
    out = BytesIO()
    schemaless_writer(out, schema, value)
    return out.getvalue()


def decoded(schema: Any, *bodies: bytes | None, framing: Framing = Framing.NONE) -> list[dict[str, Any]]:  # noqa: ANN401
    text = json.dumps(schema)
    result = StructType([StructField("value", spark_type(text)), StructField("mismatch", StringType())])
    found: list[dict[str, Any]] = _decode_all(text, framing, result, pa.array(bodies, pa.binary())).to_pylist()
    return found


def test_values() -> None:
    """Every value of a body is what was encoded, in the type that Spark has for it."""
    assert spark_type(json.dumps(ORDER)).simpleString() == (
        "struct<id:string,at:timestamp,day:date,total:decimal(9,2),state:string,from:struct<city:string>,"
        "to:struct<city:string>,items:array<map<string,int>>,weight:double>"
    )
    (found,) = decoded(ORDER, encoded(ORDER, SAID))
    expected = SAID | {"id": str(UUID(int=7)), "items": [[("a", 1)], []]}
    assert found == {"value": expected, "mismatch": None}


def test_what_does_not_fit() -> None:
    """A body that is too short, too long or something else says why, and those beside it are decoded."""
    good = encoded(ORDER, SAID)
    found = decoded(ORDER, good[:-1], good + b"x", b"", None, good)
    assert [one["mismatch"] for one in found] == [
        "it is no Avro of the schema (EOFError)",
        "1 bytes are behind what the schema says",
        "it is no Avro of the schema (EOFError)",
        "it is no Avro of the schema (EOFError)",
        None,
    ]
    assert [one["value"] is None for one in found] == [True, True, True, True, False]


def test_framing() -> None:
    """What stands before a body is known: the schema's fingerprint, or the id from a registry."""
    body = encoded("string", "x")
    mark = bytes.fromhex(fingerprint(to_parsing_canonical_form("string"), "CRC-64-AVRO"))
    found = decoded("string", b"\xc3\x01" + mark + body, b"\xc3\x01" + bytes(8) + body, framing=Framing.SINGLE_OBJECT)
    assert [one["value"] for one in found] == ["x", None]
    assert found[1]["mismatch"] == "it does not begin with the fingerprint of the schema"
    found = decoded("string", b"\x00\x00\x00\x00\x09" + body, body, framing=Framing.CONFLUENT)
    assert [one["value"] for one in found] == ["x", None]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("", "need a schema"),
        ("{", "is none"),
        ('{"type": "nothing"}', "is none"),
        ('["int", "string"]', "is more than one type or null"),
        ('"null"', "has no type of Spark"),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]}',
            "the Avro type R contains itself",
        ),
    ],
)
def test_schemas_that_do_not_do(schema: str, expected: str) -> None:
    """A schema that is none, or that Spark has no type for, is one clear error."""
    with pytest.raises(ConfigurationError, match=expected):
        spark_type(schema)
