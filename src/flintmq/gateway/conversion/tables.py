"""Converts field tables of AMQP 0-9-1 to values of AMQP 1.0, and back.

`pull_table` reads tables that were checked at publishing. `push_value` returns False, and may have written a part, if
0-9-1 has no such value. Values are written as RabbitMQ does, so some do not come back the same: binary may come back
as text, and milliseconds as whole seconds.
"""

from decimal import Decimal
from typing import Final

from librt.strings import (
    BytesWriter,
    read_f64_be,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_f64_be,
    write_i16_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i16, i32, i64, u8

from flintmq.base.limits import TABLE_DEPTH_MAX, TABLE_ENTRIES_MAX
from flintmq.gateway.conversion.decimals import from_ieee, to_decimal64, to_scaled
from flintmq.gateway.conversion.ids import fits_shortstr
from flintmq.wire.amqp091 import tables as t
from flintmq.wire.amqp10.values import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
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

# Longer long strings count as binary, without a check for text (RabbitMQ).
_TEXT_MAX_BYTES: Final = 4_096
_SECONDS_MAX: Final = (2**63 - 1) // 1000


def pull_table(data: bytes, pos: i64) -> dict[str, object]:
    """Read the table whose length is at `pos`. The last of equal keys counts."""
    end = pos + 4 + (i64(read_i32_be(data, pos)) & 0xFFFF_FFFF)
    pos += 4
    table: dict[str, object] = {}
    while pos < end:
        key, pos = t.pull_shortstr(data, pos)
        table[key], pos = pull_value(data, pos)
    return table


def pull_value(data: bytes, pos: i64) -> tuple[object, i64]:
    tag = data[pos]
    pos += 1
    if tag == t.TAG_LONGSTR or tag == t.TAG_BYTES:
        raw, after = t.pull_longstr(data, pos)
        return (_text_or_binary(raw) if tag == t.TAG_LONGSTR else raw), after
    if tag == t.TAG_TABLE or tag == t.TAG_LIST:
        end = pos + 4 + (i64(read_i32_be(data, pos)) & 0xFFFF_FFFF)
        if tag == t.TAG_TABLE:
            return {_symbol(key): value for key, value in pull_table(data, pos).items()}, end
        items: list[object] = []
        pos += 4
        while pos < end:
            item, pos = pull_value(data, pos)
            items.append(item)
        return items, end
    return _pull_fixed(data, pos, tag)


def _pull_fixed(data: bytes, pos: i64, tag: int) -> tuple[object, i64]:
    if tag == t.TAG_INT32:
        return Int(int(read_i32_be(data, pos))), pos + 4
    if tag == t.TAG_INT64 or tag == t.TAG_LONG_LONG:
        return int(read_i64_be(data, pos)), pos + 8
    if tag == t.TAG_BOOLEAN:
        return data[pos] != 0, pos + 1
    if tag == t.TAG_DOUBLE:
        return read_f64_be(data, pos), pos + 8
    if tag == t.TAG_TIMESTAMP:
        seconds, pos = t.pull_longlong(data, pos)
        return TimestampMs(min(seconds, _SECONDS_MAX) * 1000), pos
    if tag == t.TAG_INT8:
        return Byte(data[pos] - 256 if data[pos] > 127 else data[pos]), pos + 1
    if tag == t.TAG_UINT8:
        return UByte(data[pos]), pos + 1
    if tag == t.TAG_INT16 or tag == t.TAG_SHORT_INT:
        return Short(int(read_i16_be(data, pos))), pos + 2
    if tag == t.TAG_UINT16:
        return UShort(t.pull_short(data, pos)[0]), pos + 2
    if tag == t.TAG_UINT32:
        return UInt(t.pull_long(data, pos)[0]), pos + 4
    if tag == t.TAG_FLOAT:
        return Float32(data[pos : pos + 4]), pos + 4
    if tag == t.TAG_DECIMAL:
        return to_decimal64(int(read_i32_be(data, pos + 1)), data[pos]), pos + 5
    return None, pos


def _text_or_binary(raw: bytes) -> object:
    if len(raw) > _TEXT_MAX_BYTES or b"\x00" in raw:
        return raw
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _symbol(key: str) -> object:
    return Symbol(key) if key.isascii() else key


def key_text(key: object) -> str | None:
    """Convert the key of a 1.0 map to a field name; None if it is no text, or too long."""
    if isinstance(key, Symbol):
        key = key.name
    return key if isinstance(key, str) and fits_shortstr(key) else None


def push_value(w: BytesWriter, value: object, depth: i64) -> bool:
    """Append a value with its tag. `depth` is the number of tables and lists around it.

    Returns False if 0-9-1 has no such value.
    """
    if isinstance(value, str):
        return _push_text(w, value)
    if isinstance(value, Symbol):
        return _push_text(w, value.name)
    if isinstance(value, bytes):
        w.append(u8(t.TAG_LONGSTR))
        t.push_longstr(w, value, "")
        return True
    if value is None:
        w.append(u8(t.TAG_VOID))
        return True
    if isinstance(value, bool):
        w.append(u8(t.TAG_BOOLEAN))
        w.append(1 if value else 0)
        return True
    if isinstance(value, int):
        w.append(u8(t.TAG_INT64))
        write_i64_be(w, i64(value))
        return True
    if isinstance(value, WrappedInt):
        return _push_integer(w, value)
    if isinstance(value, float):
        w.append(u8(t.TAG_DOUBLE))
        write_f64_be(w, value)
        return True
    if isinstance(value, Float32):
        w.append(u8(t.TAG_FLOAT))
        w.write(value.raw)
        return True
    if isinstance(value, Uuid):
        return _push_text(w, f"urn:uuid:{value}")
    if isinstance(value, (Decimal32, Decimal64, Decimal128)):
        number = from_ieee(value)
        return number is not None and _push_decimal(w, number)
    if depth >= TABLE_DEPTH_MAX or isinstance(value, Described):
        return False
    if isinstance(value, dict):
        return _push_map(w, value, depth + 1)
    if isinstance(value, Array):
        # An array of described items has no counterpart: without their descriptors they would mean nothing.
        return not value.descriptors and _push_list(w, value.items, depth + 1)
    return isinstance(value, list) and _push_list(w, value, depth + 1)


def _push_integer(w: BytesWriter, value: WrappedInt) -> bool:
    number = value.value
    if isinstance(value, Int):
        w.append(u8(t.TAG_INT32))
        write_i32_be(w, i32(number))
    elif isinstance(value, UInt):
        w.append(u8(t.TAG_UINT32))
        t.push_long(w, number, "")
    elif isinstance(value, ULong):
        if number > t.INT64_MAX:
            return _push_text(w, str(number))
        w.append(u8(t.TAG_INT64))
        write_i64_be(w, i64(number))
    elif isinstance(value, TimestampMs):
        if number < 0:
            return False
        w.append(u8(t.TAG_TIMESTAMP))
        write_i64_be(w, i64(number // 1000))
    elif isinstance(value, UByte):
        w.append(u8(t.TAG_UINT8))
        t.push_octet(w, number, "")
    elif isinstance(value, Byte):
        w.append(u8(t.TAG_INT8))
        w.append(u8(number & 0xFF))
    elif isinstance(value, Short):
        w.append(u8(t.TAG_INT16))
        write_i16_be(w, i16(number))
    elif isinstance(value, UShort):
        w.append(u8(t.TAG_UINT16))
        t.push_short(w, number, "")
    else:
        return isinstance(value, Char) and number <= 0x10FFFF and _push_text(w, chr(number))
    return True


def _push_text(w: BytesWriter, text: str) -> bool:
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        return False
    w.append(u8(t.TAG_LONGSTR))
    t.push_longstr(w, raw, "")
    return True


def _push_decimal(w: BytesWriter, number: Decimal) -> bool:
    scaled = to_scaled(number)
    if scaled is None:
        return _push_text(w, str(number))
    w.append(u8(t.TAG_DECIMAL))
    w.append(u8(scaled[1]))
    write_i32_be(w, i32(scaled[0]))
    return True


def _push_list(w: BytesWriter, items: list[object], depth: i64) -> bool:
    """Append a list. Items that 0-9-1 has no value for are left out (RabbitMQ)."""
    w.append(u8(t.TAG_LIST))
    start = t.begin_sized(w)
    for item in items[:TABLE_ENTRIES_MAX]:
        at = len(w)
        if not push_value(w, item, depth):
            w.truncate(at)
    t.end_sized(w, start)
    return True


def _push_map(w: BytesWriter, entries: dict[object, object], depth: i64) -> bool:
    w.append(u8(t.TAG_TABLE))
    start = t.begin_sized(w)
    count: i64 = 0
    for key, value in entries.items():
        name = key_text(key.value if isinstance(key, MapKey) else key)
        if name is not None and count < TABLE_ENTRIES_MAX and push_entry(w, name, value, depth):
            count += 1
    t.end_sized(w, start)
    return True


def push_entry(w: BytesWriter, name: str, value: object, depth: i64) -> bool:
    """Append an entry of a table. Returns False, and appends nothing, if 0-9-1 has no such value."""
    at = len(w)
    t.push_shortstr(w, name, "")
    if push_value(w, value, depth):
        return True
    w.truncate(at)
    return False
