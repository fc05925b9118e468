"""Bodies in Avro: its schema as Spark's, and bodies as Arrow."""

import json
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from functools import partial
from io import BytesIO
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.pandas.functions import arrow_udf
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
from flintmq.spark.lake.avro_safety import check_safety
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
# Of bodies that become Arrow at once: as Python's objects, they are a hundred times as large.
_AT_ONCE_BYTES: Final = 1024 * 1024
# Spark's decimals have 38 digits at most.
_DIGITS: Final = Context(prec=40)
# Of what Arrow says of a value.
_SAID_MAX: Final = 200


class Unfit(FlintError):
    """A body is not what its schema says."""


def decoded_avro(schema: str, framing: Framing, writers: Mapping[int, str]) -> Column:
    """A struct of the value and, where there is none, why not. Raises ConfigurationError.

    `writers` are the schemas that ids of a registry stand for.
    """
    kind = spark_type(schema)
    check_writers(schema, writers)
    result = StructType([StructField("value", kind), StructField("mismatch", StringType())])

    def decode(bodies: pa.Array) -> pa.Array:
        return decode_all(schema, framing, writers, result, bodies)

    # Its overloads do not know functions that say by their hints what they are.
    return arrow_udf(decode, result)("body")  # type: ignore[call-overload,no-any-return]


def spark_type(schema: str) -> DataType:
    """Raises ConfigurationError for a schema that is none, or that says what Spark has no type for."""
    parsed = _parsed(schema)
    check_safety(parsed)
    return _Types().spark(parsed)


def check_writers(schema: str, writers: Mapping[int, str]) -> None:
    """Raises ConfigurationError for a schema by which nothing can be read as the one that is asked for."""
    wanted = _scales(_loaded(schema), "")
    for number, writer in writers.items():
        parsed = _parsed(writer)
        check_safety(parsed)
        for path, scale in _scales(_loaded(writer), "").items():
            if wanted.get(path, scale) != scale:
                raise ConfigurationError(
                    f"the decimal {path.lstrip('.')} has the scale {scale} in the schema of the id {number}, and "
                    f"{wanted[path]} in the schema that is read: Avro takes one for the other only if they are equal"
                )


def _parsed(schema: str) -> Avro:
    """The schema with each name in full."""
    return _understood(_loaded(schema))


def _loaded(schema: str) -> Avro:
    if not schema.strip():
        raise ConfigurationError("bodies in Avro need a schema: its JSON text")
    try:
        found: Avro = json.loads(schema)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"the schema of bodies in Avro is none: {error!r}") from error
    return found


def _understood(schema: Avro) -> Avro:
    try:
        found: Avro = parse_schema(schema)
    except (ValueError, SchemaParseException, UnknownType) as error:
        raise ConfigurationError(f"the schema of bodies in Avro is none: {error!r}") from error
    return found


def _scales(schema: Avro, path: str) -> dict[str, int]:
    """Of the decimals in a schema, by where they are."""
    found: dict[str, int] = {}
    if isinstance(schema, list):
        for kind in schema:
            found |= _scales(kind, path)
    elif isinstance(schema, dict):
        if schema.get("logicalType") == "decimal":
            found[path] = schema.get("scale", 0)
        for field in schema.get("fields", ()):
            found |= _scales(field["type"], f"{path}.{field['name']}")
        for inner in ("type", "items", "values"):
            found |= _scales(schema.get(inner, ""), path)
    return found


def _without_decimals(schema: Any) -> Any:  # noqa: ANN401 - any part of a schema
    """The same with the bytes that decimals are made of: the library works out each digit of those that are far too
    large, and takes minutes for a megabyte.
    """
    if isinstance(schema, list):
        return [_without_decimals(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    left_out = ("logicalType", "precision", "scale") if schema.get("logicalType") == "decimal" else ()
    return {key: _without_decimals(part) for key, part in schema.items() if key not in left_out}


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
        if schema.get("logicalType") == "decimal":
            return partial(_decimal, schema["precision"], schema.get("scale", 0))
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


def _decimal(precision: int, scale: int, value: bytes) -> Decimal:
    """Raises Unfit for one of more digits than the schema says."""
    unscaled = int.from_bytes(value, "big", signed=True)
    if abs(unscaled) >= 10**precision:
        raise Unfit(f"a decimal has more than the {precision} digits of the schema")
    return _DIGITS.scaleb(Decimal(unscaled), -scale)


class _Reader:
    """Bodies of one schema; with `writers`, of those by which they were written, by the ids before them."""

    def __init__(self, schema: str, framing: Framing, writers: Mapping[int, str]) -> None:
        parsed = _parsed(schema)
        self._framing = framing
        self._convert = _Types().python(parsed) or _same
        self._header = _SINGLE_OBJECT + _fingerprint(parsed) if framing is Framing.SINGLE_OBJECT else b""
        self._schema = _understood(_without_decimals(_loaded(schema)))
        self._writers = {number: _understood(_without_decimals(_loaded(writer))) for number, writer in writers.items()}

    def value(self, body: bytes) -> Any:  # noqa: ANN401 - what the schema says
        """Raises Unfit."""
        if self._framing is Framing.CONFLUENT:
            if len(body) < _CONFLUENT_BYTES or body[:1] != _CONFLUENT:
                raise Unfit("it does not begin with the id of a schema, as a Confluent registry gives it")
            number = int.from_bytes(body[1:_CONFLUENT_BYTES], "big")
            if number not in self._writers:
                known = ", ".join(map(str, self._writers))
                raise Unfit(f"its schema has the id {number} in the registry, and known are {known}")
            return self._decoded(self._writers[number], body[_CONFLUENT_BYTES:])
        if not body.startswith(self._header):
            raise Unfit("it does not begin with the fingerprint of the schema")
        return self._decoded(self._schema, body[len(self._header) :])

    def _decoded(self, writer: Avro, data: bytes) -> Any:  # noqa: ANN401 - what the schema says
        source = BytesIO(data)
        reader = None if writer == self._schema else self._schema
        try:
            value = schemaless_reader(source, writer, reader)
        except Exception as error:  # whatever hostile bytes make of a decoder
            raise Unfit(f"it is no Avro of the schema ({type(error).__name__})") from error
        if source.tell() != len(data):
            raise Unfit(f"{len(data) - source.tell()} bytes are behind what the schema says")
        return self._convert(value)


def decode_all(
    schema: str, framing: Framing, writers: Mapping[int, str], result: StructType, bodies: pa.Array
) -> pa.Array:
    """On an executor: a struct for each body."""
    reader = _Reader(schema, framing, writers)
    kind = to_arrow_type(result, timezone="UTC")
    done: list[pa.Array] = []
    rows: list[dict[str, Any]] = []
    size = 0
    for scalar in bodies:
        body = scalar.as_py() or b""
        try:
            rows.append({"value": reader.value(body), "mismatch": None})
        except Unfit as error:
            rows.append({"value": None, "mismatch": str(error)})
        size += len(body)
        if size >= _AT_ONCE_BYTES:
            done.append(_arrow(rows, kind))
            rows, size = [], 0
    done.append(_arrow(rows, kind))
    return pa.concat_arrays(done)


def _arrow(rows: list[dict[str, Any]], kind: pa.DataType) -> pa.Array:
    """What Arrow has no room for does not fit, and what is beside it does."""
    try:
        return pa.array(rows, kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return pa.concat_arrays([_fitting(row, kind) for row in rows])


def _fitting(row: dict[str, Any], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array([row], kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        # Such as a long where the schema says int, which are written in the same way.
        reason = f"a value does not fit its column: {str(error)[:_SAID_MAX]}"
        return pa.array([{"value": None, "mismatch": reason}], kind)


def _fingerprint(schema: Avro) -> bytes:
    return bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))
