"""Encode rows of a data frame as messages, column by column."""

from collections.abc import Iterable, Iterator
from dataclasses import fields
from itertools import repeat
from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    FractionalType,
    IntegralType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.base.plurals import counted
from flintmq.spark.columns import HEADER_FORMS, HEADERS, HEADERS_TYPED, PLACE, PROPERTIES, is_same
from flintmq.spark.headers import table_of
from flintmq.spark.sink.options import DeliveryMode, WriteOptions
from flintmq.wire.amqp091.properties import Properties, encode_properties

# A message for the client's publish_batch: exchange, routing key, body, encoded properties, mandatory.
Row = tuple[str, str, bytes, bytes, bool]

_PERSISTENT: Final = 2
_TRANSIENT: Final = 1
# Bodies are copied in steps of this size, because the C library returns freed blocks of 128 KiB and more to the system.
_STEP_BYTES: Final = 64 * 1024
_BODY: Final = "body"
# The name of the body in Spark's Kafka sink.
_VALUE: Final = "value"
_MESSAGE_ID: Final = "message_id"
_EXPIRATION: Final = "expiration"
_TEXT: Final = (StringType,)
_BYTES: Final = (BinaryType, StringType)
_NUMBER: Final = (IntegralType,)
_TEXT_OR_NUMBER: Final = (StringType, IntegralType)
_HEADER_VALUES: Final = (StringType, BinaryType, BooleanType, IntegralType, FractionalType)
# Columns that a read yields and a write ignores, because the broker sets them: a data frame that was read can be
# written.
_IGNORED: Final = frozenset(PLACE) - {_BODY, "exchange", "routing_key"}
# The property that a column of another name sets.
_PROPERTY_OF: Final = {"message_timestamp": "timestamp", HEADERS_TYPED: HEADERS}
_PROPERTY_ORDER: Final = tuple(field.name for field in fields(Properties))


class RowEncoder:
    """Encodes rows with the columns of `schema`. The constructor raises ConfigurationError for unusable columns."""

    def __init__(self, schema: StructType, options: WriteOptions) -> None:
        self._mandatory = options.mandatory
        columns = {column.name.lower(): column for column in schema.fields}
        for name, column in columns.items():
            _check(name, column)
        self._body = _only(columns, _BODY, _VALUE)
        if options.exchange is None and "exchange" not in columns:
            raise ConfigurationError(
                "say where to publish: set the option exchange (empty for the default exchange, whose routing keys "
                "are names of queues), or add a column of that name"
            )
        # An option overrides the column for all rows, as in Spark's Kafka sink.
        self._exchange = columns["exchange"].name if options.exchange is None else ""
        self._fixed_exchange = options.exchange or ""
        keyed = options.routing_key is None and "routing_key" in columns
        self._routing_key = columns["routing_key"].name if keyed else ""
        self._fixed_routing_key = options.routing_key or ""
        self._defaults: dict[str, object] = {"delivery_mode": _PERSISTENT if options.persistent else _TRANSIENT}
        if options.content_type is not None:
            self._defaults["content_type"] = options.content_type
            columns.pop("content_type", None)
        if options.is_staged:
            # Staged messages are persistent, because a transient one may be lost.
            columns.pop("delivery_mode", None)
        if options.delivery_mode == DeliveryMode.DEDUP and _MESSAGE_ID not in columns:
            raise ConfigurationError(
                f"deliveryMode {DeliveryMode.DEDUP} needs a column {_MESSAGE_ID}, by which queues recognize a message "
                "that they already had: its values must not change when a task runs again"
            )
        # A message that was read has its headers in both columns, and only the typed column keeps their types.
        self._has_types = HEADERS_TYPED in columns
        if self._has_types:
            columns.pop(HEADERS, None)
        self._needs_ids = options.delivery_mode == DeliveryMode.DEDUP
        self._properties = {
            _PROPERTY_OF.get(name, name): column.name
            for name, column in columns.items()
            if name in PROPERTIES or name in HEADER_FORMS
        }

    def rows(self, batch: pa.RecordBatch) -> Iterator[Row]:
        """The messages of a record batch, in its order. Raises FlintError for a row that cannot be a message."""
        return zip(
            _texts(batch, self._exchange, self._fixed_exchange),
            _texts(batch, self._routing_key, self._fixed_routing_key),
            _bodies(batch, self._body),
            self._encoded_properties(batch),
            repeat(self._mandatory, batch.num_rows),
            strict=True,
        )

    def _encoded_properties(self, batch: pa.RecordBatch) -> Iterable[bytes]:
        rows = batch.num_rows
        if not self._properties:
            return repeat(encode_properties(Properties(**self._defaults)), rows)  # type: ignore[arg-type]
        values = [self._property(batch, name) for name in _PROPERTY_ORDER]
        return (encode_properties(Properties(*row)) for row in zip(*values, strict=True))

    def _property(self, batch: pa.RecordBatch, name: str) -> Iterable[object]:
        default = self._defaults.get(name)
        if name not in self._properties:
            return repeat(default, batch.num_rows)
        column = batch.column(self._properties[name])
        if name == _MESSAGE_ID and self._needs_ids and column.null_count:
            rows = counted(column.null_count, "row")
            raise FlintError(
                f"{rows} without a {_MESSAGE_ID}, which deliveryMode {DeliveryMode.DEDUP} needs: "
                "compute it from columns that identify the row and do not change when a task runs again"
            )
        if name == _EXPIRATION and pa.types.is_integer(column.type):
            column = column.cast(pa.string())
        if name == HEADERS:
            made = table_of if self._has_types else dict
            return (None if entries is None else made(entries) for entries in column.to_pylist())
        if name == "timestamp":
            whole = column.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
            return (None if microseconds is None else microseconds // 1_000_000 for microseconds in whole)
        return (default if value is None else value for value in column.to_pylist())


def _check(name: str, column: StructField) -> None:
    if name in _IGNORED:
        return
    kind = column.dataType
    if name in (_BODY, _VALUE):
        _check_type(column, kind, _BYTES, "binary or string")
    elif name == HEADERS:
        is_map = isinstance(kind, MapType) and isinstance(kind.keyType, StringType)
        value = kind.valueType if isinstance(kind, MapType) and is_map else kind
        _check_type(column, value, _HEADER_VALUES if is_map else (), "a map from string to text, bytes or numbers")
    elif name == HEADERS_TYPED:
        if not is_same(kind, HEADER_FORMS[name]):
            raise ConfigurationError(
                f"the column {column.name} is {kind.simpleString()}: it must be {HEADER_FORMS[name].simpleString()}"
            )
    elif name not in PROPERTIES and name not in PLACE:
        known = [_BODY, "exchange", "routing_key", *PROPERTIES, *HEADER_FORMS]
        raise ConfigurationError(
            f"the column {column.name} is nothing that a message has: drop it, or put it into the body. Known columns "
            f"are {', '.join(known)}"
        )
    elif name == _EXPIRATION:
        _check_type(column, kind, _TEXT_OR_NUMBER, "milliseconds, as a whole number or as a string")
    elif isinstance(PROPERTIES.get(name), IntegralType):
        _check_type(column, kind, _NUMBER, "a whole number")
    elif isinstance(PROPERTIES.get(name), TimestampType):
        _check_type(column, kind, (TimestampType,), "timestamp")
    else:
        _check_type(column, kind, _TEXT, "string")


def _check_type(column: StructField, kind: DataType, allowed: tuple[type[DataType], ...], what: str) -> None:
    if not isinstance(kind, allowed):
        raise ConfigurationError(f"the column {column.name} is {column.dataType.simpleString()}: it must be {what}")


def _only(columns: dict[str, StructField], one: str, other: str) -> str:
    if (one in columns) == (other in columns):
        raise ConfigurationError(
            f"the data needs a column {one} or {other}, but not both, of the type binary or string"
        )
    return columns[one if one in columns else other].name


def _texts(batch: pa.RecordBatch, column: str, fixed: str) -> Iterable[str]:
    """The exchange or routing key of each row; an empty text for null."""
    if not column:
        return repeat(fixed, batch.num_rows)
    return (value or "" for value in batch.column(column).to_pylist())


def _bodies(batch: pa.RecordBatch, name: str) -> Iterable[bytes]:
    column = batch.column(name)
    if column.null_count:
        rows = counted(column.null_count, "row")
        raise FlintError(
            f"{rows} without a {name}, and a message must have a body: filter them out, or use coalesce for an empty "
            "body"
        )
    if pa.types.is_string(column.type):
        column = column.cast(pa.binary())
    elif pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())
    return _in_steps(column)


def _in_steps(column: pa.Array) -> Iterator[bytes]:
    """Copy bodies in small steps, whose memory is reused: that takes a fifth of the time of fresh pages."""
    step = max(_STEP_BYTES * len(column) // max(column.nbytes, 1), 1)
    for start in range(0, len(column), step):
        yield from column.slice(start, step).to_pylist()
