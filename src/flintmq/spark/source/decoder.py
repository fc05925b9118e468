"""Decode a chunk of records into one Arrow record batch, column by column.

The bytes of the chunk are the values of one Arrow binary array. Its elements are all parts of the chunk, in order:
exchange, length, routing key, length, properties, length, body, and the next record's head. A column is every eighth
element.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from flintmq.base.errors import SyntaxFault
from flintmq.spark.columns import GENERATION, HEADER_FORMS, HEADERS, HEADERS_TYPED, PROPERTIES
from flintmq.spark.headers import text, typed
from flintmq.wire.amqp091.chunk import REDELIVERED
from flintmq.wire.amqp091.chunk_index import BOUNDS, ChunkIndex, index_chunk
from flintmq.wire.amqp091.properties import Properties, decode_properties

# Places of the elements of a record that become columns; see ChunkIndex.
_EXCHANGE: Final = 0
_ROUTING_KEY: Final = 2
_PROPERTIES: Final = 4
_BODY: Final = 6
# The largest time whose microseconds fit into 64 bits. A publisher may set a larger one.
_SECONDS_MAX: Final = 0x7FFF_FFFF_FFFF_FFFF // 1_000_000


class ChunkDecoder:
    """Decodes chunks of one queue into record batches with the columns of `schema`, each of which is in columns.py.

    `partition` is the queue's place in the option queue. `generation` is the number of the lease or stream, 0 if it is
    not known. With `knows_times` False, the column timestamp is null.
    """

    def __init__(
        self, schema: StructType, queue: str, partition: int, generation: int = 0, knows_times: bool = True
    ) -> None:
        self._queue = queue
        self._partition = partition
        self._generation = generation or None
        self._knows_times = knows_times
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._needs_properties = any(name in PROPERTIES or name in HEADER_FORMS for name in self._schema.names)

    def decode(self, data: bytes) -> pa.RecordBatch:
        """A record batch with all records of a chunk. Raises SyntaxFault for a malformed chunk."""
        fields = _Fields(data, index_chunk(data), self._needs_properties)
        columns = [self._column(fields, column) for column in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, fields: "_Fields", column: pa.Field) -> pa.Array:
        name = column.name
        if name == "body":
            return fields.element(_BODY)
        if name == "exchange":
            return fields.element(_EXCHANGE).cast(column.type)
        if name == "routing_key":
            return fields.element(_ROUTING_KEY).cast(column.type)
        if name == "queue":
            return pa.repeat(pa.scalar(self._queue), fields.count)
        if name == "partition":
            return pa.repeat(pa.scalar(self._partition, column.type), fields.count)
        if name == "offset":
            return fields.numbers(fields.index.offsets, column.type)
        if name == GENERATION:
            return pa.repeat(pa.scalar(self._generation, column.type), fields.count)
        if name == "timestamp":
            times = fields.index.timestamps_us
            return fields.numbers(times, column.type) if self._knows_times else pa.nulls(fields.count, column.type)
        if name == "redelivered":
            return pa.array(np.frombuffer(fields.index.flags, np.uint8) & REDELIVERED != 0)
        return fields.property(_VALUE_OF.get(name, attrgetter(name)), column.type)


class _Fields:
    """Arrow arrays of the elements and properties of one chunk."""

    def __init__(self, data: bytes, index: ChunkIndex, needs_properties: bool) -> None:
        self.index = index
        self.count = index.count
        elements = max(BOUNDS * index.count - 1, 0)
        buffers = [None, pa.py_buffer(index.bounds), pa.py_buffer(data)]
        self._elements = pa.Array.from_buffers(pa.binary(), elements, buffers)
        self._properties: list[Properties] = []
        if needs_properties:
            # Most publishers set equal properties on all messages: each distinct value is decoded once.
            encoded = self.element(_PROPERTIES).dictionary_encode()
            self._properties = [_decoded(value) for value in encoded.dictionary.to_pylist()]
            self._which_properties = encoded.indices

    def element(self, place: int) -> pa.Array:
        """The element at this place of each record, copied into one array."""
        return self._elements.take(pa.array(np.arange(place, BOUNDS * self.count, BOUNDS)))

    def numbers(self, values: bytes, type: pa.DataType) -> pa.Array:
        return pa.Array.from_buffers(type, self.count, [None, pa.py_buffer(values)])

    def property(self, value_of: Callable[[Properties], object], type: pa.DataType) -> pa.Array:
        distinct = pa.array([value_of(properties) for properties in self._properties], type)
        return distinct.take(self._which_properties)


def _decoded(encoded: bytes) -> Properties:
    try:
        return decode_properties(encoded)
    except SyntaxFault:
        # The broker does not check all properties. One malformed message must not stop a query forever.
        return Properties()


def _microseconds(properties: Properties) -> int | None:
    seconds = properties.timestamp
    return seconds * 1_000_000 if seconds is not None and seconds <= _SECONDS_MAX else None


def _headers(properties: Properties) -> list[tuple[str, str | None]] | None:
    if properties.headers is None:
        return None
    return [(key, None if value is None else text(value)) for key, value in properties.headers.items()]


def _typed_headers(properties: Properties) -> list[tuple[str, dict[str, str | None]]] | None:
    if properties.headers is None:
        return None
    pairs = ((key, typed(value)) for key, value in properties.headers.items())
    return [(key, {"type": kind, "value": value}) for key, (kind, value) in pairs]


# Columns whose values differ from the property of the same name.
_VALUE_OF: Final[dict[str, Callable[[Properties], object]]] = {
    HEADERS: _headers,
    HEADERS_TYPED: _typed_headers,
    "message_timestamp": _microseconds,
}
