"""Bodies as columns: what they say, and what becomes of one that says something else."""

import json
from decimal import Decimal
from io import BytesIO

import pytest
from fastavro import schemaless_writer
from pyspark.sql import DataFrame, SparkSession

from flintmq.spark.lake.bodies import Body, Framing, Kind, OnMismatch, decode_bodies

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "tags", "type": {"type": "map", "values": "string"}}],
    }
)
SCHEMA = "id BIGINT NOT NULL, name STRING, at STRUCT<x: DOUBLE>"


def frame(spark: SparkSession, *bodies: bytes) -> DataFrame:
    rows = [(bytearray(body), number, "orders") for number, body in enumerate(bodies)]
    return spark.createDataFrame(rows, "body binary, offset bigint, queue string")


def test_json(spark: SparkSession) -> None:
    """JSON of the schema is a struct; with quarantine, anything else has a reason beside it, and its body."""
    given = frame(
        spark,
        b'{"id": 1, "name": "a", "at": {"x": 0.5}, "more": true}',
        b'{"id": 2}',
        b'{"id": "no number"}',
        b'{"name": "nobody"}',
        b"[1]",
        b"null",
        b"",
        b'{"id": 3',
        b"\xff\xfe",
    )
    decoded = decode_bodies(given, Body(Kind.JSON, SCHEMA, OnMismatch.QUARANTINE, keep=False))
    found = decoded.orderBy("offset").collect()
    assert [row.value and row.value.asDict(recursive=True) for row in found] == [
        {"id": 1, "name": "a", "at": {"x": 0.5}},
        {"id": 2, "name": None, "at": None},
        *[None] * 7,
    ]
    no_object = "it is not a JSON object of id bigint, name string, at struct<x:double>"
    assert [row.mismatch for row in found] == [
        None,
        None,
        no_object,
        "it has no id",
        no_object,
        no_object,
        no_object,
        no_object,
        "it is not UTF-8",
    ]
    assert [row.body is None for row in found] == [True, True, *[False] * 7]


def test_something_behind_json(spark: SparkSession) -> None:
    """A body is one object: a second one behind it, or anything else, is not passed over."""
    behind = ('{"a": 2}', "x", "]", "}", "]}", "}]", ',{"a": 2}', ',"b": 2', ",", "\0", "}, {", "]]")
    given = frame(spark, b' {"a": 1}\n ', *(b'{"a": 1}' + rest.encode() for rest in behind))
    decoded = decode_bodies(given, Body(Kind.JSON, "a INT", OnMismatch.QUARANTINE)).orderBy("offset").collect()
    assert (decoded[0].value.a, decoded[0].mismatch) == (1, None)
    for row in decoded[1:]:
        assert (row.value, row.mismatch) == (None, "something follows its JSON object"), bytes(row.body)


DECIMALS = "n DECIMAL(10,2), x STRUCT<list: ARRAY<DECIMAL(30,20)>, map: MAP<STRING, DECIMAL(4,0)>>"


def test_decimals(spark: SparkSession) -> None:
    """They are read to the last digit, from numbers and from texts, wherever they stand."""
    given = frame(
        spark,
        b'{"n": 12.345, "x": {"list": [0.12345678901234567891, null, "1e-3"], "map": {"a": -7, "b": "1,234"}}}',
        b'{"n": 1e7, "x": null}',
        b"{}",
    )
    rows = decode_bodies(given, Body(Kind.JSON, DECIMALS)).orderBy("offset").collect()
    whole, short, empty = [row.value.asDict(recursive=True) for row in rows]
    assert whole["n"] == Decimal("12.35")
    assert whole["x"]["list"] == [Decimal("0.12345678901234567891"), None, Decimal("0.001")]
    assert whole["x"]["map"] == {"a": Decimal(-7), "b": Decimal(1234)}
    assert short == {"n": Decimal(10_000_000), "x": None}
    assert empty == {"n": None, "x": None}


@pytest.mark.parametrize("number", ["1e2147483647", "1e-100000000", "1e100000000", "9" * 900])
def test_numbers_that_no_decimal_holds(spark: SparkSession, number: str) -> None:
    """However few bytes say a number of millions of digits, it does not fit, and takes no time."""
    said = (
        f'{{"n": {number}}}',
        f'{{"n": "{number}"}}',
        f'{{"x": {{"list": [1, {number}]}}}}',
        f'{{"x": {{"map": {{"a": {number}}}}}}}',
    )
    found = frame(spark, *(text.encode() for text in said))
    rows = decode_bodies(found, Body(Kind.JSON, DECIMALS, OnMismatch.QUARANTINE)).collect()
    assert [row.value for row in rows] == [None] * 4


def test_avro(spark: SparkSession) -> None:
    """A body in Avro is what its schema says."""
    out = BytesIO()
    schemaless_writer(out, json.loads(AVRO), {"id": 5, "tags": {"a": "b"}})
    given = frame(spark, b"\x00\x00\x00\x00\x01" + out.getvalue(), b"?")
    body = Body(Kind.AVRO, AVRO, OnMismatch.QUARANTINE, framing=Framing.CONFLUENT, schema_id=1)
    good, bad = decode_bodies(given, body).orderBy("offset").collect()
    assert (good.value.id, good.value.tags, good.mismatch) == (5, {"a": "b"}, None)
    assert (bad.value, bad.mismatch) == (
        None,
        "it does not begin with a schema id of a Confluent registry",
    )


def test_avro_that_no_column_holds(spark: SparkSession) -> None:
    """One body whose number is larger than its column is quarantined, and those beside it are read."""
    schema = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}'
    given = frame(spark, b"\x02", b"\xfe\xff\xff\xff\xff\x3f", b"\x04")
    rows = decode_bodies(given, Body(Kind.AVRO, schema, OnMismatch.QUARANTINE)).orderBy("offset").collect()
    assert [row.value and row.value.n for row in rows] == [1, None, 2]
    assert rows[1].mismatch.startswith("a value does not fit its column")


def test_text(spark: SparkSession) -> None:
    """Text is UTF-8."""
    decoded = decode_bodies(frame(spark, "ü".encode(), b""), Body(Kind.TEXT)).orderBy("offset")
    assert [(row.value, bytes(row.body)) for row in decoded.collect()] == [("ü", "ü".encode()), ("", b"")]


def test_binary(spark: SparkSession) -> None:
    """Binary bodies are left as they are."""
    given = frame(spark, b"\x00")
    assert decode_bodies(given, Body()).columns == given.columns


@pytest.mark.parametrize("body", [Body(Kind.JSON, SCHEMA), Body(Kind.AVRO, AVRO), Body(Kind.TEXT)])
def test_a_body_that_does_not_fit(spark: SparkSession, body: Body) -> None:
    """Without quarantine, a body that does not fit fails the query, which says where the message is and what to do."""
    given = frame(spark, b"\xff")
    expected = r"the message at offset 0 of queue 'orders' does not fit: it is.*quarantine"
    with pytest.raises(Exception, match=expected):
        decode_bodies(given, body).collect()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (Body(Kind.JSON), "need a schema, like"),
        (Body(Kind.JSON, "id BIGNT"), "is not understood"),
        (Body(Kind.JSON, "INT"), "has no fields"),
        (Body(Kind.AVRO), "need a schema: its JSON text"),
    ],
)
def test_wrong_schemas(spark: SparkSession, body: Body, expected: str) -> None:
    """A schema that is none is one clear error, before anything is read."""
    with pytest.raises(Exception, match=expected):
        decode_bodies(frame(spark, b"1"), body)
    with pytest.raises(Exception, match="has a column value already"):
        decode_bodies(frame(spark, b"1").selectExpr("*", "1 AS value"), Body(Kind.TEXT))
