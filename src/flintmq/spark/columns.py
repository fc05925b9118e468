"""The columns of a message, in one table for the reader and the writer."""

from collections.abc import Iterable
from typing import Final

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from flintmq.base.errors import ConfigurationError

# Position and address of a message. Every read yields them. `timestamp` is the time when the broker received it.
MESSAGE: Final[dict[str, DataType]] = {
    "body": BinaryType(),
    "exchange": StringType(),
    "routing_key": StringType(),
    "queue": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "redelivered": BooleanType(),
}
# The number of the lease or stream that the offset belongs to: queue, generation and offset together identify a
# message. A read yields it only if it is asked for by name, because tables that were created without it keep their
# columns.
GENERATION: Final = "generation"
PLACE: Final[dict[str, DataType]] = {**MESSAGE, GENERATION: LongType()}
# The properties that the publisher set; null if it did not. `message_timestamp` is from the publisher's clock.
PROPERTIES: Final[dict[str, DataType]] = {
    "content_type": StringType(),
    "content_encoding": StringType(),
    "delivery_mode": IntegerType(),
    "priority": IntegerType(),
    "correlation_id": StringType(),
    "reply_to": StringType(),
    "expiration": StringType(),
    "message_id": StringType(),
    "message_timestamp": TimestampType(),
    "type": StringType(),
    "user_id": StringType(),
    "app_id": StringType(),
}
# Headers as text, and with their types (see headers.py).
HEADERS: Final = "headers"
HEADERS_TYPED: Final = "headers_typed"
TYPED_VALUE: Final = StructType([StructField("type", StringType()), StructField("value", StringType())])
HEADER_FORMS: Final[dict[str, DataType]] = {
    HEADERS: MapType(StringType(), StringType()),
    HEADERS_TYPED: MapType(StringType(), TYPED_VALUE),
}

READABLE: Final[dict[str, DataType]] = {**PLACE, **PROPERTIES, **HEADER_FORMS}


def read_schema(names: Iterable[str]) -> StructType:
    """The schema of these columns, in this order. Raises ConfigurationError for an unknown name."""
    return StructType([StructField(name, _kind(name)) for name in names])


def default_columns(include_properties: bool, include_headers: bool) -> tuple[str, ...]:
    """The columns of a read that does not set the option columns."""
    return (*MESSAGE, *(PROPERTIES if include_properties else ()), *((HEADERS,) if include_headers else ()))


def check_read_schema(schema: StructType) -> None:
    """Raises ConfigurationError if a user's own .schema(...) has an unknown column, or a known one of another type."""
    for column in schema.fields:
        kind = _kind(column.name)
        if not is_same(column.dataType, kind):
            raise ConfigurationError(
                f"the column {column.name} is {kind.simpleString()}, not {column.dataType.simpleString()}: cast it "
                "after load()"
            )


def _kind(name: str) -> DataType:
    kind = READABLE.get(name)
    if kind is None:
        raise ConfigurationError(f"there is no column {name}: choose from {', '.join(READABLE)}")
    return kind


def is_same(one: DataType, other: DataType) -> bool:
    """Whether two types are equal if nullability is ignored."""
    if isinstance(one, MapType) and isinstance(other, MapType):
        return is_same(one.keyType, other.keyType) and is_same(one.valueType, other.valueType)
    if isinstance(one, StructType) and isinstance(other, StructType):
        return one.names == other.names and all(
            is_same(left.dataType, right.dataType) for left, right in zip(one, other, strict=True)
        )
    return one == other
