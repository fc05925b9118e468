"""Bodies in Avro: its schema as Spark's, and bodies as Arrow."""

import json
from collections.abc import Callable
from functools import partial
from io import BytesIO
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.spark.lake.bodies import Framing
from flintmq.spark.lake.formats.missing import missing

try:
    from fastavro import parse_schema, schemaless_reader
    from fastavro.schema import SchemaParseException, UnknownType, fingerprint, to_parsing_canonical_form
except ImportError as error:
    raise missing("avro", "fastavro") from error

Avro = str | dict[str, Any] | list[Any]
Convert = Callable[[Any], Any]
T = TypeVar("T")

_SIMPLE: Final[dict[str, DataType]] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
    "fixed": BinaryType(),
}
_LOGICAL: Final[dict[tuple[str, str], DataType]] = {
    ("int", "date"): DateType(),
    ("int", "time-millis"): StringType(),
    ("long", "time-micros"): StringType(),
    ("long", "timestamp-millis"): TimestampType(),
    ("long", "timestamp-micros"): TimestampType(),
    ("long", "local-timestamp-millis"): TimestampNTZType(),
    ("long", "local-timestamp-micros"): TimestampNTZType(),
    ("string", "uuid"): StringType(),
}
# Values for which Python has a type, and Spark a text.
_TEXTS: Final[dict[str, Convert]] = {"uuid": str, "time-millis": str, "time-micros": str}
# A marker, and the fingerprint of the schema.
_SINGLE_OBJECT: Final = b"\xc3\x01"
# A marker, and four bytes of an id.
_CONFLUENT: Final = b"\x00"
_CONFLUENT_BYTES: Final = 5


class Unfit(FlintError):
    """A body is not what its schema says."""


def decoded_avro(schema: str, framing: Framing) -> Column:
    """A struct of the value and, where there is none, why not. Raises ConfigurationError."""
    kind = spark_type(schema)
    result = StructType([StructField("value", kind), StructField("mismatch", StringType())])
    decode = arrow_udf(partial(_decode_all, schema, framing, result), result, ArrowUDFType.SCALAR)
    return decode("body")


def spark_type(schema: str) -> DataType:
    """Raises ConfigurationError for a schema that is none, or that says what Spark has no type for."""
    return _Types().spark(_parsed(schema))


def _parsed(schema: str) -> Avro:
    """The schema with each name in full."""
    if not schema.strip():
        raise ConfigurationError("bodies in Avro need a schema: its JSON text")
    try:
        found: Avro = parse_schema(json.loads(schema))
    except (ValueError, SchemaParseException, UnknownType) as error:
        raise ConfigurationError(f"the schema of bodies in Avro is none: {error!r}") from error
    return found


class _Types:
    """A walk through a schema, which defines a name once and refers to it later."""

    def __init__(self) -> None:
        self._named: dict[str, Avro] = {}
        # Names of what the walk is within: one of them again would be a type without an end.
        self._within: list[str] = []

    def spark(self, schema: Avro) -> DataType:
        schema = self._resolved(schema)
        if isinstance(schema, list):
            return self.spark(_only(schema))
        if isinstance(schema, str):
            return _simple(schema)
        kind = schema["type"]
        if kind == "record":
            return self._inside(schema, lambda: self._record(schema["fields"]))
        if kind == "array":
            return ArrayType(self.spark(schema["items"]))
        if kind == "map":
            return MapType(StringType(), self.spark(schema["values"]))
        if schema.get("logicalType") == "decimal":
            return DecimalType(schema["precision"], schema.get("scale", 0))
        logical = _LOGICAL.get((kind, schema.get("logicalType", "")))
        return logical or self.spark(kind)

    def python(self, schema: Avro) -> Convert | None:
        """What makes of a value as it is decoded one that Arrow takes; None if it is one."""
        schema = self._resolved(schema)
        if isinstance(schema, list):
            inner = self.python(_only(schema))
            return inner and (lambda value: None if value is None else inner(value))
        if isinstance(schema, str):
            return None
        kind = schema["type"]
        if kind == "record":
            made = self._inside(
                schema, lambda: [(field["name"], self.python(field["type"])) for field in schema["fields"]]
            )
            changed = [(name, convert) for name, convert in made if convert]
            return (
                (lambda value: value | {name: convert(value[name]) for name, convert in changed}) if changed else None
            )
        if kind == "array":
            item = self.python(schema["items"])
            return item and (lambda value: [item(one) for one in value])
        if kind == "map":
            each = self.python(schema["values"]) or _same
            return lambda value: [(key, each(one)) for key, one in value.items()]
        return _TEXTS.get(schema.get("logicalType", ""))

    def _record(self, fields: list[dict[str, Any]]) -> StructType:
        return StructType([StructField(field["name"], self.spark(field["type"])) for field in fields])

    def _resolved(self, schema: Avro) -> Avro:
        if isinstance(schema, str):
            return self._named.get(schema, schema)
        if isinstance(schema, dict) and "name" in schema:
            self._named[schema["name"]] = schema
        return schema

    def _inside(self, schema: dict[str, Any], walk: Callable[[], T]) -> T:
        name = schema["name"]
        if name in self._within:
            raise ConfigurationError(f"the Avro type {name} contains itself, for which Spark has no type")
        self._within.append(name)
        try:
            return walk()
        finally:
            self._within.pop()


def _only(union: list[Any]) -> Avro:
    """Of a union, what is not null."""
    kinds: list[Avro] = [kind for kind in union if kind != "null"]
    if len(kinds) != 1:
        raise ConfigurationError(
            f"the Avro union {json.dumps(union)} is more than one type or null, and a column is one"
        )
    return kinds[0]


def _simple(name: str) -> DataType:
    if name not in _SIMPLE:
        raise ConfigurationError(f"the Avro type {name} has no type of Spark")
    return _SIMPLE[name]


def _same(value: Any) -> Any:  # noqa: ANN401 - whatever was decoded
    return value


def _decode_all(schema: str, framing: Framing, result: StructType, bodies: pa.Array) -> pa.Array:
    """On an executor: a struct for each body."""
    parsed = _parsed(schema)
    convert = _Types().python(parsed) or _same
    header = _SINGLE_OBJECT + _fingerprint(parsed) if framing is Framing.SINGLE_OBJECT else b""
    found: list[dict[str, Any]] = []
    for body in bodies.to_pylist():
        try:
            value = convert(_decode(parsed, _unframed(body or b"", framing, header)))
            found.append({"value": value, "mismatch": None})
        except Unfit as error:
            found.append({"value": None, "mismatch": str(error)})
    return pa.array(found, to_arrow_type(result, timezone="UTC"))


def _unframed(body: bytes, framing: Framing, header: bytes) -> bytes:
    if framing is Framing.CONFLUENT:
        if len(body) < _CONFLUENT_BYTES or body[:1] != _CONFLUENT:
            raise Unfit("it does not begin with the id of a schema, as a Confluent registry gives it")
        return body[_CONFLUENT_BYTES:]
    if not body.startswith(header):
        raise Unfit("it does not begin with the fingerprint of the schema")
    return body[len(header) :]


def _decode(schema: Avro, data: bytes) -> Any:  # noqa: ANN401 - what the schema says
    source = BytesIO(data)
    try:
        value = schemaless_reader(source, schema, None)
    except Exception as error:  # whatever hostile bytes make of a decoder
        raise Unfit(f"it is no Avro of the schema ({type(error).__name__})") from error
    if source.tell() != len(data):
        raise Unfit(f"{len(data) - source.tell()} bytes are behind what the schema says")
    return value


def _fingerprint(schema: Avro) -> bytes:
    return bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))
