"""Converts values of AMQP 1.0 to those in the broker's tables of headers, and back.

Values are those that the headers of the same message would have in AMQP 0-9-1 (docs/conversions.md).
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Final, cast

from librt.strings import read_f32_be

from flintmq.base.values import Int8, Int16, Int32, Timestamp, UInt8, UInt16, UInt32, integer_type
from flintmq.broker.message import Table
from flintmq.gateway.conversion import names
from flintmq.gateway.conversion.decimals import from_ieee, to_decimal64, to_scaled
from flintmq.gateway.conversion.tables import key_text
from flintmq.wire.amqp10.composite import Annotations
from flintmq.wire.amqp10.values import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Float32,
    Int,
    MapKey,
    Short,
    Symbol,
    TimestampMs,
    UByte,
    UInt,
    ULong,
    UShort,
    Uuid,
    WrappedInt,
)

_UINT_MAX: Final = 2**32 - 1
_INT64_MAX: Final = 2**63 - 1


def application_as_headers(entries: dict[str, object], headers: Table) -> None:
    for name, value in entries.items():
        headers[name] = plain(value)


def annotations_as_headers(entries: Annotations, headers: Table) -> None:
    for key, value in entries.items():
        name = names.header_of(key)
        if name is None:
            continue
        if key == names.DEATHS:
            headers[name] = [_death(each) for each in _items(value) if isinstance(each, dict)]
        elif key == names.RECEIVED:
            headers[name] = value.value if isinstance(value, TimestampMs) else plain(value)
        else:
            headers[name] = plain(value)


def plain(value: object) -> object:
    """Convert a value of AMQP 1.0 to one of the broker's tables."""
    if value is None or isinstance(value, (str, bool, int, float, bytes)):
        return value
    if isinstance(value, Symbol):
        return value.name
    if isinstance(value, TimestampMs):
        return Timestamp(max(value.value, 0) // 1000)
    if isinstance(value, Char):
        return chr(value.value) if value.value <= 0x10FFFF else None
    if isinstance(value, WrappedInt):
        return value.value
    if isinstance(value, Uuid):
        return f"urn:uuid:{value}"
    if isinstance(value, (Decimal32, Decimal64, Decimal128)):
        return from_ieee(value)
    if isinstance(value, Float32):
        return read_f32_be(value.raw, 0)
    return _compound(value, plain)


def argument_value(value: object) -> object:
    """Convert the value of an argument to one of the broker's tables, as `plain` does, but keep the types of integers.

    Only a ulong becomes a long, as in RabbitMQ.
    """
    if isinstance(value, Int):
        return Int32(value.value)
    if isinstance(value, UInt):
        return UInt32(value.value)
    if isinstance(value, Short):
        return Int16(value.value)
    if isinstance(value, UShort):
        return UInt16(value.value)
    if isinstance(value, Byte):
        return Int8(value.value)
    if isinstance(value, UByte):
        return UInt8(value.value)
    if isinstance(value, (dict, list, Array)):
        return _compound(value, argument_value)
    return plain(value)


def _compound(value: object, convert: Callable[[object], object]) -> object:
    """Convert a map to a table, a list or an array to a list, and each value in it with `convert`.

    None for any other value. Entries whose keys cannot be field names are left out.
    """
    if isinstance(value, dict):
        table: Table = {}
        for key, item in value.items():
            name = key_text(key.value if isinstance(key, MapKey) else key)
            if name is not None:
                table[name] = convert(item)
        return table
    if isinstance(value, (list, Array)):
        return [convert(item) for item in _items(value)]
    return None


def _items(value: object) -> list[object]:
    if isinstance(value, Array):
        return value.items
    return value if isinstance(value, list) else []


def _death(death: dict[object, object]) -> Table:
    """Convert a map of x-opt-deaths to a table of x-death. Its time has seconds, so both times are kept in ms, too."""
    found: Table = {}
    for key, value in death.items():
        name = str(key)
        if isinstance(value, TimestampMs):
            if name == "first-time":
                found["time"] = Timestamp(max(value.value, 0) // 1000)
            found[name] = value.value
        elif name == "ttl" and isinstance(value, WrappedInt):
            found["original-expiration"] = str(value.value)
        else:
            found[name] = plain(value)
    return found


def annotation_of(name: str, value: object) -> object:
    """Convert the value of a header that the broker wrote to that of its annotation."""
    if name == names.DEATHS_HEADER and isinstance(value, list):
        return Array("map", [_death_map(each) for each in value if isinstance(each, dict)])
    return amqp10_value(value)


def _death_map(death: Table) -> dict[object, object]:
    found: dict[object, object] = {}
    ttl = death.get("original-expiration")
    if isinstance(ttl, str) and ttl.isascii() and ttl.isdigit() and len(ttl) <= 10 and int(ttl) <= _UINT_MAX:
        found[Symbol("ttl")] = UInt(int(ttl))
    found[Symbol("queue")] = amqp10_value(death.get("queue"))
    reason = death.get("reason")
    found[Symbol("reason")] = Symbol(reason) if isinstance(reason, str) and reason.isascii() else amqp10_value(reason)
    count = death.get("count")
    found[Symbol("count")] = ULong(count) if isinstance(count, int) and count >= 0 else ULong(1)
    first, last = death.get("first-time"), death.get("last-time")
    time = death.get("time")
    if not isinstance(first, int):
        first = time.seconds * 1000 if isinstance(time, Timestamp) else 0
    found[Symbol("first-time")] = TimestampMs(first)
    found[Symbol("last-time")] = TimestampMs(last if isinstance(last, int) else first)
    found[Symbol("exchange")] = amqp10_value(death.get("exchange"))
    keys = death.get("routing-keys")
    texts = [key for key in keys if isinstance(key, str)] if isinstance(keys, list) else []
    found[Symbol("routing-keys")] = Array("string", [*texts])
    return found


def amqp10_value(value: object) -> object:
    """Convert a value of the broker's tables to AMQP 1.0."""
    kind = integer_type(value)
    if kind:
        return _wrapped(kind, cast(int, value))
    if isinstance(value, int) and not isinstance(value, bool) and value > _INT64_MAX:
        return ULong(value)
    if isinstance(value, Timestamp):
        return TimestampMs(min(value.seconds, _INT64_MAX // 1000) * 1000)
    if isinstance(value, Decimal):
        scaled = to_scaled(value)
        return str(value) if scaled is None else to_decimal64(scaled[0], scaled[1])
    if isinstance(value, list):
        return [amqp10_value(item) for item in value]
    if isinstance(value, dict):
        table: dict[object, object] = {}
        for key, item in value.items():
            table[Symbol(key) if isinstance(key, str) and key.isascii() else key] = amqp10_value(item)
        return table
    return value


def _wrapped(kind: str, number: int) -> WrappedInt:
    if kind == "int":
        return Int(number)
    if kind == "uint":
        return UInt(number)
    if kind == "short":
        return Short(number)
    if kind == "ushort":
        return UShort(number)
    return Byte(number) if kind == "byte" else UByte(number)
