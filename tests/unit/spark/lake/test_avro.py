"""Bodies in Avro: what types Spark has for a schema, and what a body of it says."""

import json
import re
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from io import BytesIO
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from fastavro import schemaless_writer
from fastavro.schema import fingerprint, to_parsing_canonical_form
from pyspark.sql.types import StringType, StructField, StructType

from flintmq.base.errors import ConfigurationError
from flintmq.spark.lake.avro import check_writers, decode_all, spark_type
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


def decoded(
    schema: Any,  # noqa: ANN401 - whatever Avro says
    *bodies: bytes | None,
    framing: Framing = Framing.NONE,
    writers: dict[int, Any] | None = None,
) -> list[dict[str, Any]]:
    text = json.dumps(schema)
    result = StructType([StructField("value", spark_type(text)), StructField("mismatch", StringType())])
    found: list[dict[str, Any]] = decode_all(
        text,
        framing,
        {number: json.dumps(writer) for number, writer in (writers or {}).items()},
        result,
        pa.array(bodies, pa.binary()),
    ).to_pylist()
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
        "it is not Avro of the schema (EOFError)",
        "1 bytes follow the value",
        "it is not Avro of the schema (EOFError)",
        "it is not Avro of the schema (EOFError)",
        None,
    ]
    assert [one["value"] is None for one in found] == [True, True, True, True, False]


def test_framing() -> None:
    """The prefix of a body is checked: the schema's fingerprint, or the id from a registry."""
    body = encoded("string", "x")
    mark = bytes.fromhex(fingerprint(to_parsing_canonical_form("string"), "CRC-64-AVRO"))
    found = decoded("string", b"\xc3\x01" + mark + body, b"\xc3\x01" + bytes(8) + body, framing=Framing.SINGLE_OBJECT)
    assert [one["value"] for one in found] == ["x", None]
    assert found[1]["mismatch"] == "it does not begin with the fingerprint of the schema"
    given = b"\x00\x00\x00\x00\x09" + body
    found = decoded("string", given, body, framing=Framing.CONFLUENT, writers={9: "string"})
    assert [one["value"] for one in found] == ["x", None]


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields]}


def test_ids_of_a_registry() -> None:
    """A body is read by the schema that its id stands for, as the one that was asked for; others do not fit."""
    now = record(("a", "long"), ("b", "string"))
    before = record(("b", "string"), ("gone", "int"), ("a", "int"))
    other = record(("b", "string"))
    bodies = (
        b"\0\0\0\0\x07" + encoded(now, {"a": 1, "b": "new"}),
        b"\0\0\0\0\x08" + encoded(before, {"a": 2, "b": "old", "gone": 3}),
        b"\0\0\0\0\x09" + encoded(other, {"b": "x"}),
        b"\0\0\0\0\x0a" + encoded(now, {"a": 1, "b": "x"}),
    )
    found = decoded(now, *bodies, framing=Framing.CONFLUENT, writers={7: now, 8: before, 9: other})
    assert [one["value"] for one in found] == [{"a": 1, "b": "new"}, {"a": 2, "b": "old"}, None, None]
    assert found[2]["mismatch"].startswith("it is not Avro of the schema (")
    assert found[3]["mismatch"] == "its schema has the id 10 in the registry, and the known ids are 7, 8, 9"


def test_decimals_of_other_scales() -> None:
    """Avro takes no decimal for one of another scale: a schema that would do so is refused."""

    def prices(scale: int) -> str:
        decimal = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": scale}
        return json.dumps(
            record(("of", {"type": "array", "items": ["null", record(("price", decimal)) | {"name": "P"}]}))
        )

    check_writers(prices(2), {7: prices(2)})
    with pytest.raises(
        ConfigurationError, match=r"decimal of.price has the scale 3 in the schema of the id 7, and 2 in"
    ):
        check_writers(prices(2), {7: prices(3)})


AMOUNT = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}


@pytest.mark.parametrize(
    ("kind", "writes", "given", "good", "expected"),
    [
        ("int", "long", 2**40, 5, "a value does not fit its column: .*1099511627776"),
        ("int", "long", -(2**62), 5, "a value does not fit its column"),
        (AMOUNT | {"precision": 4}, "bytes", b"\x27\x10", b"\x27\x0f", "a decimal has more than the 4 digits"),
        (AMOUNT, "bytes", b"\x7f" * 1_000_000, b"", "a decimal has more than the 38 digits"),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            "long",
            2**62,
            0,
            "it is not Avro|does not fit its column",
        ),
        ({"type": "int", "logicalType": "date"}, "long", 2**30, 0, "it is not Avro|does not fit its column"),
    ],
)
def test_values_that_no_column_holds(kind: Any, writes: str, given: Any, good: Any, expected: str) -> None:  # noqa: ANN401
    """They do not fit, with a reason and in no time, and bodies beside them do."""
    found = decoded(record(("n", kind)), *(encoded(writes, value) for value in (good, given, good)))
    assert [one["value"] is None for one in found] == [False, True, False]
    assert re.match(expected, found[1]["mismatch"])


def test_decimals() -> None:
    """All of their digits count, and those that are negative are."""
    for unscaled in (0, 1, -1, 10**38 - 1, 1 - 10**38):
        size = (unscaled.bit_length() + 8) // 8
        (found,) = decoded(AMOUNT, encoded("bytes", unscaled.to_bytes(size, "big", signed=True)))
        assert found["value"] == Decimal(unscaled).scaleb(-2, Context(prec=40))


def test_many_bodies() -> None:
    """They become columns piece by piece, and stay in their order."""
    bodies = [encoded("bytes", bytes(300_000) + b"%d" % number) for number in range(20)]
    assert [one["value"][-1:] for one in decoded("bytes", *bodies)] == [(b"%d" % number)[-1:] for number in range(20)]


@pytest.mark.parametrize(
    "items",
    [
        record(),
        {"type": "fixed", "name": "F", "size": 0},
        "null",
        record(("a", record() | {"name": "S"}), ("b", "null")),
        {"type": "map", "values": {"type": "array", "items": "null"}},
    ],
)
def test_arrays_of_nothing(items: Any) -> None:  # noqa: ANN401 - whatever Avro says
    """Ten bytes could say that there are millions of items, where one takes no bytes: such a schema is refused."""
    schema = json.dumps({"type": "array", "items": items})
    with pytest.raises(ConfigurationError, match="an array whose items take no bytes"):
        spark_type(schema)
    with pytest.raises(ConfigurationError, match="an array whose items take no bytes"):
        check_writers('"int"', {1: schema})


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("", "need a schema"),
        ("{", "is not JSON"),
        ('{"type": "nothing"}', "is not valid"),
        ('["int", "string"]', "does not have exactly one type besides null"),
        ('"null"', "Spark has no type"),
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
