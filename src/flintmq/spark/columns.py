"""The columns of a message: what reading yields, and what writing understands. One table for both."""

from typing import Final

from pyspark.sql.types import (
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

from flintmq.base.errors import ConfigurationError

# Where a message is and how it came: always there. `timestamp` is when the broker received it.
MESSAGE: Final[dict[str, DataType]] = {
    "body": BinaryType(),
    "exchange": StringType(),
    "routing_key": StringType(),
    "queue": StringType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
}
# What its publisher said about it: null where it did not. `message_timestamp` is the publisher's clock.
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
HEADERS: Final = "headers"
HEADERS_TYPE: Final = MapType(StringType(), StringType())

READABLE: Final[dict[str, DataType]] = {**MESSAGE, **PROPERTIES, HEADERS: HEADERS_TYPE}


def read_schema(include_properties: bool, include_headers: bool) -> StructType:
    columns = dict(MESSAGE)
    if include_properties:
        columns |= PROPERTIES
    if include_headers:
        columns[HEADERS] = HEADERS_TYPE
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def check_read_schema(schema: StructType) -> None:
    """Raises ConfigurationError unless a user's own .schema(...) chooses among the columns that there are."""
    for column in schema.fields:
        kind = READABLE.get(column.name)
        if kind is None:
            raise ConfigurationError(f"there is no column {column.name}: choose from {', '.join(READABLE)}")
        if not _same(column.dataType, kind):
            raise ConfigurationError(
                f"the column {column.name} is {kind.simpleString()}, not {column.dataType.simpleString()}: cast it "
                "behind the load()"
            )


def _same(one: DataType, other: DataType) -> bool:
    if isinstance(one, MapType) and isinstance(other, MapType):
        return one.keyType == other.keyType and one.valueType == other.valueType
    return one == other
