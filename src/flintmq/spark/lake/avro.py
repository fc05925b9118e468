"""Decode bodies in Avro: Avro schemas as types of Spark, and bodies as Arrow arrays."""

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
from flintmq.spark.errors import missing_library
from flintmq.spark.lake.avro_safety import Avro, check_safety
from flintmq.spark.lake.bodies import Framing

try:
    from fastavro import parse_schema, schemaless_reader
    from fastavro.schema import SchemaParseException, UnknownType, fingerprint, to_parsing_canonical_form
except ImportError as error:
    raise missing_library("avro", "fastavro") from error

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
# Logical types that fastavro decodes to a Python type, and that become strings in Spark.
_TEXTS: Final[dict[str, Convert]] = {"uuid": str, "time-millis": str, "time-micros": str}
# The marker of single-object encoding, before the fingerprint of the schema.
_SINGLE_OBJECT: Final = b"\xc3\x01"
# The marker of a Confluent registry, before four bytes of a schema id.
_CONFLUENT: Final = b"\x00"
_CONFLUENT_BYTES: Final = 5
# Bodies are converted to Arrow after this many bytes, because Python objects are a hundred times as large.
_AT_ONCE_BYTES: Final = 1024 * 1024
# Enough digits for Spark's decimals, which have 38 at most.
_DIGITS: Final = Context(prec=40)
# The number of characters of an Arrow error that our error quotes.
_QUOTED_CHARACTERS: Final = 200


class Unfit(FlintError):
    """A body does not match its schema."""


def decoded_avro(schema: str, framing: Framing, writers: Mapping[int, str]) -> Column:
    """A struct column with the decoded value and the mismatch: the reason if a body cannot be decoded, else null.

    `writers` are the schemas of the ids in a registry. Raises ConfigurationError for an unusable schema.
    """
    kind = spark_type(schema)
    check_writers(schema, writers)
    result = StructType([StructField("value", kind), StructField("mismatch", StringType())])

    def decode(bodies: pa.Array) -> pa.Array:
        return decode_all(schema, framing, writers, result, bodies)

    # The overloads of arrow_udf do not include functions whose kind follows from their type hints.
    return arrow_udf(decode, result)("body")  # type: ignore[call-overload,no-any-return]


def spark_type(schema: str) -> DataType:
    """The type of Spark for an Avro schema. Raises ConfigurationError for an invalid, unsafe or unsupported schema."""
    parsed = _parsed(schema)
    check_safety(parsed)
    return _Types().spark(parsed)


def check_writers(schema: str, writers: Mapping[int, str]) -> None:
    """Raises ConfigurationError if bodies of one of `writers` cannot be read as `schema`."""
    wanted = _scales(_loaded(schema), "")
    for number, writer in writers.items():
        parsed = _parsed(writer)
        check_safety(parsed)
        for path, scale in _scales(_loaded(writer), "").items():
            if wanted.get(path, scale) != scale:
                raise ConfigurationError(
                    f"the decimal {path.lstrip('.')} has the scale {scale} in the schema of the id {number}, and "
                    f"{wanted[path]} in the schema to read: Avro converts decimals only if their scales are equal"
                )


def _parsed(schema: str) -> Avro:
    """The schema with full names."""
    return _understood(_loaded(schema))


def _loaded(schema: str) -> Avro:
    if not schema.strip():
        raise ConfigurationError("bodies in Avro need a schema: its JSON text")
    try:
        found: Avro = json.loads(schema)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"the schema of bodies in Avro is not JSON: {error!r}") from error
    return found


def _understood(schema: Avro) -> Avro:
    try:
        found: Avro = parse_schema(schema)
    except (ValueError, SchemaParseException, UnknownType) as error:
        raise ConfigurationError(f"the schema of bodies in Avro is not valid: {error!r}") from error
    return found


def _scales(schema: Avro, path: str) -> dict[str, int]:
    """The scale of each decimal in a schema, by its path."""
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
    """A schema with bytes instead of decimals, because the library needs minutes for a decimal of a megabyte."""
    if isinstance(schema, list):
        return [_without_decimals(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    left_out = ("logicalType", "precision", "scale") if schema.get("logicalType") == "decimal" else ()
    return {key: _without_decimals(part) for key, part in schema.items() if key not in left_out}


class _Types:
    """Converts a schema, in which names are defined once and referred to later."""

    def __init__(self) -> None:
        self._named: dict[str, Avro] = {}
        # Names of the types that contain the current one: a type that contains itself would have no end.
        self._within: list[str] = []

    def spark(self, schema: Avro) -> DataType:
        """The type of Spark. Raises ConfigurationError."""
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
        """A function that converts a decoded value for Arrow; None if Arrow accepts the value itself."""
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
    """The type of a union that is not null. Raises ConfigurationError unless there is exactly one."""
    kinds: list[Avro] = [kind for kind in union if kind != "null"]
    if len(kinds) != 1:
        raise ConfigurationError(
            f"the Avro union {json.dumps(union)} does not have exactly one type besides null, as a column must"
        )
    return kinds[0]


def _simple(name: str) -> DataType:
    if name not in _SIMPLE:
        raise ConfigurationError(f"Spark has no type for the Avro type {name}")
    return _SIMPLE[name]


def _same(value: Any) -> Any:  # noqa: ANN401 - whatever was decoded
    return value


def _decimal(precision: int, scale: int, value: bytes) -> Decimal:
    """A decimal from its unscaled bytes. Raises Unfit if it has more digits than `precision`."""
    unscaled = int.from_bytes(value, "big", signed=True)
    if abs(unscaled) >= 10**precision:
        raise Unfit(f"a decimal has more than the {precision} digits of the schema")
    return _DIGITS.scaleb(Decimal(unscaled), -scale)


class _Reader:
    """Reads bodies as one schema. With the framing CONFLUENT, the id before a body selects its writer schema."""

    def __init__(self, schema: str, framing: Framing, writers: Mapping[int, str]) -> None:
        parsed = _parsed(schema)
        self._framing = framing
        self._convert = _Types().python(parsed) or _same
        self._header = _SINGLE_OBJECT + _fingerprint(parsed) if framing is Framing.SINGLE_OBJECT else b""
        self._schema = _understood(_without_decimals(_loaded(schema)))
        self._writers = {number: _understood(_without_decimals(_loaded(writer))) for number, writer in writers.items()}

    def value(self, body: bytes) -> Any:  # noqa: ANN401 - what the schema says
        """The decoded value of a body. Raises Unfit."""
        if self._framing is Framing.CONFLUENT:
            if len(body) < _CONFLUENT_BYTES or body[:1] != _CONFLUENT:
                raise Unfit("it does not begin with a schema id of a Confluent registry")
            number = int.from_bytes(body[1:_CONFLUENT_BYTES], "big")
            if number not in self._writers:
                known = ", ".join(map(str, self._writers))
                raise Unfit(f"its schema has the id {number} in the registry, and the known ids are {known}")
            return self._decoded(self._writers[number], body[_CONFLUENT_BYTES:])
        if not body.startswith(self._header):
            raise Unfit("it does not begin with the fingerprint of the schema")
        return self._decoded(self._schema, body[len(self._header) :])

    def _decoded(self, writer: Avro, data: bytes) -> Any:  # noqa: ANN401 - what the schema says
        source = BytesIO(data)
        reader = None if writer == self._schema else self._schema
        try:
            value = schemaless_reader(source, writer, reader)
        except Exception as error:  # malformed bytes raise any error in the library
            raise Unfit(f"it is not Avro of the schema ({type(error).__name__})") from error
        if source.tell() != len(data):
            raise Unfit(f"{len(data) - source.tell()} bytes follow the value")
        return self._convert(value)


def decode_all(
    schema: str, framing: Framing, writers: Mapping[int, str], result: StructType, bodies: pa.Array
) -> pa.Array:
    """Decode bodies on an executor: an array with a struct of value and mismatch for each body."""
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
    """Convert rows to Arrow. A value that does not fit its Arrow type becomes a mismatch of its own row only."""
    try:
        return pa.array(rows, kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return pa.concat_arrays([_fitting(row, kind) for row in rows])


def _fitting(row: dict[str, Any], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array([row], kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        # Avro writes int and long in the same way, so that a long can stand where the schema has an int.
        reason = f"a value does not fit its column: {str(error)[:_QUOTED_CHARACTERS]}"
        return pa.array([{"value": None, "mismatch": reason}], kind)


def _fingerprint(schema: Avro) -> bytes:
    return bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))
