"""Reads composite values: a descriptor, and a list of the type's fields (amqp-1.0 part 1 §1.4).

The list may be shorter: missing fields are unset, and so are null ones.
"""

from typing import cast

from mypy_extensions import i64

from flintmq.base.errors import DecodeError
from flintmq.base.limits import VALUE_DEPTH_MAX

# The modules performatives and properties are imported to register their classes.
from flintmq.wire.amqp10 import composite, performatives, properties, spec, types  # noqa: F401
from flintmq.wire.amqp10.composite import LAYOUTS, Composite, Layout
from flintmq.wire.amqp10.reader import Reader
from flintmq.wire.amqp10.states import ACCEPTED, RELEASED, DeliveryState, Error, Outcome
from flintmq.wire.amqp10.termini import Coordinator, Source, Target
from flintmq.wire.amqp10.values import Symbol, ULong, Uuid


def read_descriptor(reader: Reader) -> i64:
    """Return the code of a descriptor, or 0, which no descriptor has, for one that the specification lacks."""
    code = reader.code()
    if code == types.SMALLULONG:
        return reader.code()
    descriptor = reader.value_of(code, 2)
    if isinstance(descriptor, ULong):
        return i64(descriptor.value) if descriptor.value in spec.SYMBOLS else 0
    if isinstance(descriptor, Symbol):
        return spec.CODES.get(descriptor.name, 0)
    return 0


def read_composite(reader: Reader, depth: i64) -> Composite:
    """Read a composite value of any type in `spec.COMPOSITES`. Raises DecodeError."""
    code = reader.code()
    if code != types.DESCRIBED:
        raise DecodeError(f"expected a composite at byte {reader.pos - 1}, found a value that is not described")
    at = reader.pos
    layout = LAYOUTS.get(read_descriptor(reader))
    if layout is None:
        raise DecodeError(f"the descriptor at byte {at} is that of no composite type")
    return read_described(reader, layout, depth)


def read_described(reader: Reader, layout: Layout, depth: i64) -> Composite:
    """Read a composite value behind its descriptor. Raises DecodeError."""
    if depth > VALUE_DEPTH_MAX:
        raise DecodeError(f"{layout.name} is nested deeper than {VALUE_DEPTH_MAX}")
    try:
        return _read_list(reader, layout, depth)
    except DecodeError as fault:
        raise DecodeError(f"{layout.name}: {fault.text}") from None


def _read_list(reader: Reader, layout: Layout, depth: i64) -> Composite:
    code = reader.code()
    count: i64 = 0
    outer = reader.end
    if code == types.LIST8 or code == types.LIST32:
        count, outer = reader.open(code)
    elif code != types.LIST0:
        raise DecodeError(f"the described value at byte {reader.pos - 1} is not a list")
    if count > len(layout.kinds):
        raise DecodeError(f"{count} fields, the type has {len(layout.kinds)}")
    value = _unset(layout)
    for i, kind in enumerate(layout.kinds):
        if i < count and not reader.is_null():
            field = _read_field(reader, kind, layout.labels[i], depth + 1)
            if kind != composite.ERROR or not reader.is_lenient or not _says_nothing(field):
                setattr(value, layout.attributes[i], field)
        elif layout.mandatory[i] and not (reader.is_lenient and layout.code == spec.ERROR):
            raise DecodeError(f"{layout.labels[i]} is mandatory")
    if code != types.LIST0:
        reader.close(outer)
    return value


def _says_nothing(error: object) -> bool:
    """Whether no field of an error is set, which stands for no error. Only a lenient reader accepts that."""
    return isinstance(error, Error) and not error.condition and error.description is None and not error.info


def _unset(layout: Layout) -> Composite:
    """Return a value with all fields unset. States without fields are shared."""
    if layout.code == spec.ACCEPTED:
        return ACCEPTED
    if layout.code == spec.RELEASED:
        return RELEASED
    return layout.make()


def _read_field(reader: Reader, kind: int, what: str, depth: i64) -> object:
    if kind == composite.BOOLEAN:
        return reader.boolean()
    if kind == composite.UINT:
        return int(reader.uint())
    if kind == composite.STRING:
        return reader.string()
    if kind == composite.SYMBOL:
        return reader.symbol()
    if kind == composite.BINARY:
        return reader.binary()
    if kind == composite.UBYTE:
        return reader.ubyte()
    if kind == composite.USHORT:
        return reader.ushort()
    if kind == composite.ULONG:
        return reader.ulong()
    if kind == composite.TIMESTAMP:
        return reader.timestamp()
    if kind == composite.SYMBOLS:
        return reader.symbols()
    if kind == composite.FIELDS:
        return reader.fields(depth)
    if kind == composite.ANNOTATIONS:
        return reader.annotations(depth)
    if kind == composite.UNSETTLED:
        return _read_unsettled(reader, depth)
    if kind == composite.ANY:
        return reader.value(depth)
    if kind == composite.MESSAGE_ID:
        return _read_message_id(reader, what, depth)
    return _read_nested(reader, kind, what, depth)


def _read_nested(reader: Reader, kind: int, what: str, depth: i64) -> Composite:
    value = read_composite(reader, depth)
    if kind == composite.STATE:
        fits = isinstance(value, DeliveryState)
    elif kind == composite.OUTCOME:
        fits = isinstance(value, Outcome)
    elif kind == composite.SOURCE:
        fits = isinstance(value, Source)
    elif kind == composite.TARGET:
        fits = isinstance(value, (Target, Coordinator))
    else:
        fits = isinstance(value, Error)
    if not fits:
        raise DecodeError(f"{what} cannot be of type {value.type_name}")
    return value


def _read_message_id(reader: Reader, what: str, depth: i64) -> object:
    value = reader.value(depth)
    if not isinstance(value, (ULong, Uuid, bytes, str)):
        raise DecodeError(f"{what} is neither a ulong, nor a uuid, nor a binary, nor a string")
    return value


def _read_unsettled(reader: Reader, depth: i64) -> dict[bytes, DeliveryState | None]:
    entries, outer = reader.map_start()
    states: dict[bytes, DeliveryState | None] = {}
    while entries > 0:
        tag = reader.binary()
        if tag in states:
            raise DecodeError(f"the delivery tag {tag[:32].hex()} appears twice in a map of unsettled deliveries")
        states[tag] = None if reader.is_null() else read_state(reader, depth + 1)
        entries -= 1
    reader.close(outer)
    return states


def read_state(reader: Reader, depth: i64) -> DeliveryState:
    return cast(DeliveryState, _read_nested(reader, composite.STATE, "a delivery state", depth))


def decode_composite(data: bytes, pos: i64, end: i64) -> tuple[Composite, i64]:
    """Return the composite value at `pos`, and the position behind it. Raises DecodeError."""
    reader = Reader(data, pos, end)
    value = read_composite(reader, 1)
    return value, reader.pos
