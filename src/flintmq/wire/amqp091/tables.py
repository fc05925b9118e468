"""Field tables and primitive values of AMQP 0-9-1: pull_x reads at a position, push_x appends to a writer.

Invalid input raises SyntaxFault and no other error; a value that cannot be encoded raises LocalProtocolError. A length
is only trusted after the bytes that it promises have been checked to be there.
"""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final, cast

from librt.strings import (
    BytesWriter,
    read_f32_be,
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

from flintmq.base.errors import LocalProtocolError, SyntaxFault
from flintmq.base.limits import SHORTSTR_MAX_BYTES, TABLE_DEPTH_MAX, TABLE_ENTRIES_MAX
from flintmq.base.values import (
    INTEGER_TYPES,
    Int8,
    Int16,
    Int32,
    Timestamp,
    UInt8,
    UInt16,
    UInt32,
    integer_type,
)

# Keys with str, bytes, bool, int, float, Decimal, Timestamp, None, and tables and lists of these; arguments of methods
# also have typed integers (TypedInt).
Table = dict[str, object]

# The octet before a value is its type. Where amqp-0-9-1 §4.2.1 and RabbitMQ disagree, this is RabbitMQ's reading, which
# every client follows: s is a 16-bit integer, l and L are both signed, x is a byte array, decimals are signed.
TAG_BOOLEAN: Final = 0x74  # t
TAG_INT8: Final = 0x62  # b
TAG_UINT8: Final = 0x42  # B
TAG_INT16: Final = 0x73  # s
TAG_SHORT_INT: Final = 0x55  # U: the specification's tag for the same; RabbitMQ has none
TAG_UINT16: Final = 0x75  # u
TAG_INT32: Final = 0x49  # I
TAG_UINT32: Final = 0x69  # i
TAG_INT64: Final = 0x6C  # l
TAG_LONG_LONG: Final = 0x4C  # L
TAG_FLOAT: Final = 0x66  # f
TAG_DOUBLE: Final = 0x64  # d
TAG_DECIMAL: Final = 0x44  # D
TAG_LONGSTR: Final = 0x53  # S
TAG_TIMESTAMP: Final = 0x54  # T
TAG_TABLE: Final = 0x46  # F
TAG_LIST: Final = 0x41  # A
TAG_BYTES: Final = 0x78  # x
TAG_VOID: Final = 0x56  # V

INT32_MIN: Final = -0x8000_0000
INT32_MAX: Final = 0x7FFF_FFFF
INT64_MIN: Final = -0x8000_0000_0000_0000
INT64_MAX: Final = 0x7FFF_FFFF_FFFF_FFFF
UINT64_MAX: Final = 0xFFFF_FFFF_FFFF_FFFF
# A decimal's scale is one octet.
SCALE_MAX: Final = 255

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
ACCEPTED: Final = (
    "accepted are str, bytes, bool, int of 64 bits, float, Decimal of 32 bits and scale 0 to 255, Timestamp, "
    "datetime with a time zone, None, and dicts and lists of these"
)


def _require(data: bytes, pos: i64, size: i64, what: str) -> None:
    if pos < 0 or size > len(data) - pos:
        raise SyntaxFault(f"{what} at byte {pos} needs {size} bytes, {max(len(data) - pos, 0)} are left")


def pull_octet(data: bytes, pos: i64) -> tuple[int, i64]:
    _require(data, pos, 1, "octet")
    return data[pos], pos + 1


def pull_short(data: bytes, pos: i64) -> tuple[int, i64]:
    _require(data, pos, 2, "short")
    return i64(read_i16_be(data, pos)) & 0xFFFF, pos + 2


def pull_long(data: bytes, pos: i64) -> tuple[int, i64]:
    _require(data, pos, 4, "long")
    return i64(read_i32_be(data, pos)) & 0xFFFF_FFFF, pos + 4


def pull_longlong(data: bytes, pos: i64) -> tuple[int, i64]:
    _require(data, pos, 8, "longlong")
    value: int = read_i64_be(data, pos)
    return value & UINT64_MAX, pos + 8


def pull_shortstr(data: bytes, pos: i64) -> tuple[str, i64]:
    _require(data, pos, 1, "short string")
    start = pos + 1
    end = start + i64(data[pos])
    _require(data, start, end - start, "short string")
    try:
        return data[start:end].decode("utf-8"), end
    except UnicodeDecodeError:
        raise SyntaxFault(f"short string at byte {pos} is not UTF-8") from None


def pull_longstr(data: bytes, pos: i64) -> tuple[bytes, i64]:
    _require(data, pos, 4, "long string")
    start = pos + 4
    size = i64(read_i32_be(data, pos)) & 0xFFFF_FFFF
    _require(data, start, size, "long string")
    return data[start : start + size], start + size


def decode_table(data: bytes, pos: i64) -> tuple[Table, i64]:
    """Return the table whose four-byte length is at `pos`, and the position behind it. Of equal keys the last one wins.

    Raises SyntaxFault.
    """
    return _pull_table(data, pos, len(data), 1, False)


def decode_arguments(data: bytes, pos: i64) -> tuple[Table, i64]:
    """Decode a table as `decode_table` does, keeping the types of integers: those that are not 64 bits are TypedInt."""
    return _pull_table(data, pos, len(data), 1, True)


def _pull_end(data: bytes, pos: i64, limit: i64, depth: i64, what: str) -> i64:
    """Return the end of the table or list whose length is at `pos`. It must be within the container's end, `limit`."""
    if depth > TABLE_DEPTH_MAX:
        raise SyntaxFault(f"{what} at byte {pos} is nested deeper than {TABLE_DEPTH_MAX}")
    if pos < 0 or pos + 4 > limit:
        raise SyntaxFault(f"{what} at byte {pos} has no room for its length")
    size = i64(read_i32_be(data, pos)) & 0xFFFF_FFFF
    if size > limit - pos - 4:
        raise SyntaxFault(f"{what} at byte {pos} claims {size} bytes, {limit - pos - 4} are left")
    return pos + 4 + size


def _pull_table(data: bytes, pos: i64, limit: i64, depth: i64, types: bool) -> tuple[Table, i64]:
    end = _pull_end(data, pos, limit, depth, "table")
    table: Table = {}
    entries: i64 = 0
    at = pos + 4
    while at < end:
        entries += 1
        if entries > TABLE_ENTRIES_MAX:
            raise SyntaxFault(f"table at byte {pos} has more than {TABLE_ENTRIES_MAX} entries")
        key, at = pull_shortstr(data, at)
        if at >= end:
            raise SyntaxFault(f"table at byte {pos} ends within an entry")
        table[key], at = _pull_value(data, at, end, depth, types)
    return table, end


def _pull_list(data: bytes, pos: i64, limit: i64, depth: i64, types: bool) -> tuple[list[object], i64]:
    end = _pull_end(data, pos, limit, depth, "list")
    values: list[object] = []
    at = pos + 4
    while at < end:
        if len(values) == TABLE_ENTRIES_MAX:
            raise SyntaxFault(f"list at byte {pos} has more than {TABLE_ENTRIES_MAX} entries")
        value, at = _pull_value(data, at, end, depth, types)
        values.append(value)
    return values, end


def _pull_value(data: bytes, pos: i64, end: i64, depth: i64, types: bool) -> tuple[object, i64]:
    """Return the value whose tag is at `pos`, which is before `end`, and the position behind it, at most `end`."""
    tag = data[pos]
    at = pos + 1
    if tag == TAG_TABLE:
        return _pull_table(data, at, end, depth + 1, types)
    if tag == TAG_LIST:
        return _pull_list(data, at, end, depth + 1, types)
    if tag == TAG_LONGSTR or tag == TAG_BYTES:
        raw, after = pull_longstr(data, at)
        if after > end:
            raise SyntaxFault(f"string at byte {pos} overruns the table or list around it")
        return (_text_or_bytes(raw) if tag == TAG_LONGSTR else raw), after
    size = _fixed_size(tag, pos)
    if size > end - at:
        raise SyntaxFault(f"value at byte {pos} needs {size} bytes, {end - at} are left in the table or list around it")
    value = _fixed_value(data, at, tag)
    return (_typed(value, tag) if types else value), at + size


def _typed(value: object, tag: int) -> object:
    # Compiled code would convert a bool to the int that its type promises: a non-integer stays an object.
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    if tag == TAG_INT32:
        return Int32(value)
    if tag == TAG_UINT32:
        return UInt32(value)
    if tag == TAG_INT16 or tag == TAG_SHORT_INT:
        return Int16(value)
    if tag == TAG_UINT16:
        return UInt16(value)
    if tag == TAG_INT8:
        return Int8(value)
    if tag == TAG_UINT8:
        return UInt8(value)
    return value


def _text_or_bytes(raw: bytes) -> object:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw


def _fixed_size(tag: int, pos: i64) -> i64:
    if tag == TAG_INT32 or tag == TAG_UINT32 or tag == TAG_FLOAT:
        return 4
    if tag == TAG_INT64 or tag == TAG_LONG_LONG or tag == TAG_DOUBLE or tag == TAG_TIMESTAMP:
        return 8
    if tag == TAG_BOOLEAN or tag == TAG_INT8 or tag == TAG_UINT8:
        return 1
    if tag == TAG_INT16 or tag == TAG_SHORT_INT or tag == TAG_UINT16:
        return 2
    if tag == TAG_VOID:
        return 0
    if tag == TAG_DECIMAL:
        return 5
    raise SyntaxFault(f"value at byte {pos} has the unknown type 0x{tag:02x}")


def _fixed_value(data: bytes, pos: i64, tag: int) -> object:
    """Return a value of a type with a fixed size. All its bytes are there."""
    if tag == TAG_INT32:
        return int(read_i32_be(data, pos))
    if tag == TAG_INT64 or tag == TAG_LONG_LONG:
        return int(read_i64_be(data, pos))
    if tag == TAG_BOOLEAN:
        return data[pos] != 0
    if tag == TAG_DOUBLE:
        return read_f64_be(data, pos)
    if tag == TAG_TIMESTAMP:
        return Timestamp(pull_longlong(data, pos)[0])
    if tag == TAG_INT8:
        return data[pos] - 256 if data[pos] > 127 else data[pos]
    if tag == TAG_UINT8:
        return data[pos]
    if tag == TAG_INT16 or tag == TAG_SHORT_INT:
        return int(read_i16_be(data, pos))
    if tag == TAG_UINT16:
        return pull_short(data, pos)[0]
    if tag == TAG_UINT32:
        return pull_long(data, pos)[0]
    if tag == TAG_FLOAT:
        return read_f32_be(data, pos)
    if tag == TAG_DECIMAL:
        unscaled: int = read_i32_be(data, pos + 1)
        # Built from its digits: arithmetic would round to the precision of the thread's decimal context.
        digits = tuple(int(digit) for digit in str(abs(unscaled)))
        return Decimal((1 if unscaled < 0 else 0, digits, -data[pos]))
    return None


def check_table(data: bytes, pos: i64, is_ascii: bool) -> i64:
    """Return the end of the table whose length is at `pos`. Raises SyntaxFault exactly when `decode_table` does.

    Nothing is decoded, which makes this ten times as fast. `is_ascii` says that the whole table is ASCII, so that its
    keys are valid UTF-8.
    """
    return _check_table(data, pos, len(data), 1, is_ascii)


def check_shortstr(data: bytes, pos: i64, is_ascii: bool) -> i64:
    """Return the end of the short string at `pos`. Raises SyntaxFault when `pull_shortstr` does."""
    if not is_ascii:
        return pull_shortstr(data, pos)[1]
    _require(data, pos, 1, "short string")
    size = i64(data[pos])
    _require(data, pos + 1, size, "short string")
    return pos + 1 + size


def _check_table(data: bytes, pos: i64, limit: i64, depth: i64, is_ascii: bool) -> i64:
    end = _pull_end(data, pos, limit, depth, "table")
    entries: i64 = 0
    at = pos + 4
    while at < end:
        entries += 1
        if entries > TABLE_ENTRIES_MAX:
            raise SyntaxFault(f"table at byte {pos} has more than {TABLE_ENTRIES_MAX} entries")
        at = check_shortstr(data, at, is_ascii)
        if at >= end:
            raise SyntaxFault(f"table at byte {pos} ends within an entry")
        at = _check_value(data, at, end, depth, is_ascii)
    return end


def _check_list(data: bytes, pos: i64, limit: i64, depth: i64, is_ascii: bool) -> i64:
    end = _pull_end(data, pos, limit, depth, "list")
    entries: i64 = 0
    at = pos + 4
    while at < end:
        entries += 1
        if entries > TABLE_ENTRIES_MAX:
            raise SyntaxFault(f"list at byte {pos} has more than {TABLE_ENTRIES_MAX} entries")
        at = _check_value(data, at, end, depth, is_ascii)
    return end


def _check_value(data: bytes, pos: i64, end: i64, depth: i64, is_ascii: bool) -> i64:
    tag = data[pos]
    at = pos + 1
    if tag == TAG_LONGSTR or tag == TAG_BYTES:
        _require(data, at, 4, "long string")
        size = i64(read_i32_be(data, at)) & 0xFFFF_FFFF
        at += 4
        _require(data, at, size, "long string")
        if at + size > end:
            raise SyntaxFault(f"string at byte {pos} overruns the table or list around it")
        return at + size
    if tag == TAG_TABLE:
        return _check_table(data, at, end, depth + 1, is_ascii)
    if tag == TAG_LIST:
        return _check_list(data, at, end, depth + 1, is_ascii)
    size = _fixed_size(tag, pos)
    if size > end - at:
        raise SyntaxFault(f"value at byte {pos} needs {size} bytes, {end - at} are left in the table or list around it")
    return at + size


def push_octet(w: BytesWriter, value: int, what: str) -> None:
    _check_range(value, 0xFF, what)
    w.append(value)


def push_short(w: BytesWriter, value: int, what: str) -> None:
    _check_range(value, 0xFFFF, what)
    write_i16_be(w, i16(value - 0x1_0000 if value > 0x7FFF else value))


def push_long(w: BytesWriter, value: int, what: str) -> None:
    _check_range(value, 0xFFFF_FFFF, what)
    write_i32_be(w, i32(value - 0x1_0000_0000 if value > INT32_MAX else value))


def push_longlong(w: BytesWriter, value: int, what: str) -> None:
    _check_range(value, UINT64_MAX, what)
    write_i64_be(w, i64(value - 0x1_0000_0000_0000_0000 if value > INT64_MAX else value))


def _check_range(value: int, most: int, what: str) -> None:
    if value < 0 or value > most:
        # The text leaves the value out: Python refuses to print an integer of thousands of digits.
        raise LocalProtocolError(f"{what} is out of range: it must be 0 to {most}")


def push_shortstr(w: BytesWriter, value: str, what: str) -> None:
    raw = _utf8(value, what)
    if len(raw) > SHORTSTR_MAX_BYTES:
        raise LocalProtocolError(
            f"{what} {value[:32]!r}... has {len(raw)} bytes in UTF-8, a short string has at most {SHORTSTR_MAX_BYTES}"
        )
    w.append(len(raw))
    w.write(raw)


def encode_shortstr(value: str) -> bytes:
    w = BytesWriter()
    push_shortstr(w, value, "short string")
    return w.getvalue()


def encode_address(exchange: str, routing_key: str) -> bytes:
    """Encode an exchange and a routing key, which are neighbours in publish, deliver, return and get-ok."""
    return encode_shortstr(exchange) + encode_shortstr(routing_key)


def push_longstr(w: BytesWriter, value: bytes, what: str) -> None:
    push_long(w, len(value), what)
    w.write(value)


def _utf8(value: str, what: str) -> bytes:
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError:
        raise LocalProtocolError(f"{what} has lone surrogates, which UTF-8 cannot carry") from None


def encode_table(w: BytesWriter, table: Table) -> None:
    """Append a table with its length. Raises LocalProtocolError, with a part of the table written."""
    _push_table(w, table, 1, "table")


def _begin(w: BytesWriter, entries: i64, depth: i64, what: str) -> i64:
    """Begin a table or list of so many entries at this depth. `end_sized` fills in its length."""
    if depth > TABLE_DEPTH_MAX:
        raise LocalProtocolError(f"{what} is nested deeper than {TABLE_DEPTH_MAX}")
    if entries > TABLE_ENTRIES_MAX:
        raise LocalProtocolError(f"{what} has {entries} entries, at most {TABLE_ENTRIES_MAX} are allowed")
    return begin_sized(w)


def begin_sized(w: BytesWriter) -> i64:
    """Leave room for the length of a table or list. `end_sized` fills it in."""
    start = len(w)
    write_i32_be(w, 0)
    return start


def end_sized(w: BytesWriter, start: i64) -> None:
    size = len(w) - start - 4
    w[start] = u8(size >> 24 & 0xFF)
    w[start + 1] = u8(size >> 16 & 0xFF)
    w[start + 2] = u8(size >> 8 & 0xFF)
    w[start + 3] = u8(size & 0xFF)


def _push_table(w: BytesWriter, table: Table, depth: i64, what: str) -> None:
    start = _begin(w, len(table), depth, what)
    # The caller may break the promise of the type, which compiled code would answer with TypeError.
    for key, value in cast(dict[object, object], table).items():
        if not isinstance(key, str):
            raise LocalProtocolError(f"table key {key!r} is not a str")
        push_entry(w, key, value, depth)
    end_sized(w, start)


def push_entry(w: BytesWriter, key: str, value: object, depth: i64) -> None:
    """Append an entry of a table. `depth` is the number of tables and lists around it, its own table included."""
    push_shortstr(w, key, "table key")
    _push_value(w, key, value, depth)


def _push_value(w: BytesWriter, key: str, value: object, depth: i64) -> None:
    given: object = value
    if isinstance(value, str):
        w.append(TAG_LONGSTR)
        push_longstr(w, _utf8(value, key), key)
    elif isinstance(value, bool):
        w.append(TAG_BOOLEAN)
        w.append(1 if value else 0)
    elif isinstance(value, int):
        kind = integer_type(given)
        if kind:
            _push_typed(w, kind, value)
        else:
            _push_int(w, key, value)
    elif isinstance(value, bytes):
        w.append(TAG_BYTES)
        push_longstr(w, value, key)
    elif value is None:
        w.append(TAG_VOID)
    elif isinstance(value, float):
        w.append(TAG_DOUBLE)
        write_f64_be(w, value)
    elif isinstance(value, dict):
        w.append(TAG_TABLE)
        _push_table(w, value, depth + 1, key)
    elif isinstance(value, (list, tuple)):
        w.append(TAG_LIST)
        start = _begin(w, len(value), depth + 1, key)
        for item in value:
            _push_value(w, key, item, depth + 1)
        end_sized(w, start)
    elif isinstance(value, Timestamp):
        w.append(TAG_TIMESTAMP)
        push_longlong(w, value.seconds, key)
    elif isinstance(value, datetime):
        w.append(TAG_TIMESTAMP)
        push_longlong(w, _seconds(key, value), key)
    elif isinstance(value, Decimal):
        _push_decimal(w, key, value)
    else:
        raise _refused(key, value)


def _push_int(w: BytesWriter, key: str, value: int) -> None:
    if INT32_MIN <= value <= INT32_MAX:
        w.append(TAG_INT32)
        write_i32_be(w, i32(value))
    elif INT64_MIN <= value <= INT64_MAX:
        w.append(TAG_INT64)
        write_i64_be(w, i64(value))
    else:
        raise _refused(key, value)


def _push_typed(w: BytesWriter, kind: str, value: int) -> None:
    # The class accepts any integer, so a value outside of the type is clamped.
    limits = INTEGER_TYPES[kind]
    number = min(max(value, limits.least), limits.most)
    if kind == "int":
        w.append(TAG_INT32)
        write_i32_be(w, i32(number))
    elif kind == "uint":
        w.append(TAG_UINT32)
        push_long(w, number, "uint32")
    elif kind == "short":
        w.append(TAG_INT16)
        write_i16_be(w, i16(number))
    elif kind == "ushort":
        w.append(TAG_UINT16)
        push_short(w, number, "uint16")
    elif kind == "byte":
        w.append(TAG_INT8)
        w.append(number & 0xFF)
    else:
        w.append(TAG_UINT8)
        w.append(number)


def _push_decimal(w: BytesWriter, key: str, value: Decimal) -> None:
    sign, digits, exponent = value.as_tuple()
    # A number of 32 bits has at most ten digits: longer ones are refused before they are computed.
    if not isinstance(exponent, int) or exponent < -SCALE_MAX or len(digits) + max(exponent, 0) > 10:
        raise _refused(key, value)
    unscaled = int("".join(str(digit) for digit in digits)) * 10 ** max(exponent, 0)
    if sign:
        unscaled = -unscaled
    if not INT32_MIN <= unscaled <= INT32_MAX:
        raise _refused(key, value)
    w.append(TAG_DECIMAL)
    w.append(max(-exponent, 0))
    write_i32_be(w, i32(unscaled))


def _seconds(key: str, value: datetime) -> int:
    if value.utcoffset() is None:
        raise _refused(key, value)
    return (value - EPOCH) // timedelta(seconds=1)


def _refused(key: str, value: object) -> LocalProtocolError:
    return LocalProtocolError(
        f"table entry {key!r} has a value of type {type(value).__name__} that does not fit: {ACCEPTED}"
    )
