"""Writes values of AMQP 1.0 in their shortest form (amqp-1.0 part 1 §1.6).

A value without an encoding raises LocalProtocolError: the fault is on this side.
"""

from typing import Final, cast

from librt.strings import BytesWriter, write_f64_be, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i32, i64

from flintmq.base.errors import LocalProtocolError
from flintmq.base.limits import VALUE_DEPTH_MAX
from flintmq.wire.amqp10 import composite, types
from flintmq.wire.amqp10.composite import LAYOUTS, Annotations, Composite, Fields
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
    WrappedBytes,
    WrappedInt,
)

INT64_MIN: Final = -0x8000_0000_0000_0000
INT64_MAX: Final = 0x7FFF_FFFF_FFFF_FFFF
UINT64_MAX: Final = 0xFFFF_FFFF_FFFF_FFFF
# Larger sizes and counts need four bytes instead of one.
SHORT_MAX: Final = 0xFF


def encode_value(value: object) -> bytes:
    w = BytesWriter()
    write_value(w, value)
    return w.getvalue()


def write_value(w: BytesWriter, value: object, depth: i64 = 1) -> None:
    if value is None:
        w.append(types.NULL)
    elif isinstance(value, bool):
        w.append(types.TRUE if value else types.FALSE)
    elif isinstance(value, str):
        write_string(w, value)
    elif isinstance(value, Symbol):
        write_symbol(w, value.name)
    elif isinstance(value, int):
        _write_long(w, value)
    elif isinstance(value, bytes):
        write_binary(w, value)
    elif isinstance(value, float):
        w.append(types.DOUBLE)
        write_f64_be(w, value)
    elif isinstance(value, WrappedInt):
        _write_wrapped_int(w, value)
    elif isinstance(value, WrappedBytes):
        code = _code_of_raw(value)
        w.append(code)
        w.write(_raw_of(value, code))
    elif isinstance(value, MapKey):
        w.write(value.encoded)
    elif depth > VALUE_DEPTH_MAX:
        raise LocalProtocolError(f"a value is nested deeper than {VALUE_DEPTH_MAX}")
    elif isinstance(value, dict):
        _write_compound(w, types.MAP8, 2 * len(value), _map_content(value, depth))
    elif isinstance(value, (list, tuple)):
        if len(value):
            _write_compound(w, types.LIST8, len(value), _list_content(value, depth))
        else:
            w.append(types.LIST0)
    elif isinstance(value, Described):
        w.append(types.DESCRIBED)
        write_value(w, value.descriptor, depth + 1)
        write_value(w, value.value, depth + 1)
    elif isinstance(value, Array):
        _write_array(w, value, depth)
    elif isinstance(value, Composite):
        write_composite(w, value, depth)
    else:
        raise LocalProtocolError(f"AMQP 1.0 cannot encode a {type(value).__name__}: see flintmq.wire.amqp10.values")


def in_range(value: int, least: int, most: int, what: str) -> int:
    if value < least or value > most:
        # The text leaves the value out: Python refuses to print an integer of thousands of digits.
        raise LocalProtocolError(f"{what} is out of range: it must be {least} to {most}")
    return value


def unsigned(value: int, most: int, what: str) -> i64:
    return i64(in_range(value, 0, most, what))


def _push16(w: BytesWriter, value: i64) -> None:
    write_i16_be(w, i16(value - 0x1_0000 if value > 0x7FFF else value))


def push32(w: BytesWriter, value: i64) -> None:
    """Append an unsigned integer of four bytes."""
    write_i32_be(w, i32(value - 0x1_0000_0000 if value > 0x7FFF_FFFF else value))


def _push64(w: BytesWriter, value: int) -> None:
    write_i64_be(w, i64(value - 0x1_0000_0000_0000_0000 if value > INT64_MAX else value))


def write_uint(w: BytesWriter, value: i64) -> None:
    """Append a uint. The caller has checked its range."""
    if value == 0:
        w.append(types.UINT0)
    elif value <= SHORT_MAX:
        w.append(types.SMALLUINT)
        w.append(value)
    else:
        w.append(types.UINT)
        push32(w, value)


def write_ulong(w: BytesWriter, value: int) -> None:
    in_range(value, 0, UINT64_MAX, "ulong")
    if value == 0:
        w.append(types.ULONG0)
    elif value <= SHORT_MAX:
        w.append(types.SMALLULONG)
        w.append(value)
    else:
        w.append(types.ULONG)
        _push64(w, value)


def _write_long(w: BytesWriter, value: int) -> None:
    if -128 <= value <= 127:
        w.append(types.SMALLLONG)
        w.append(value & 0xFF)
    else:
        in_range(value, INT64_MIN, INT64_MAX, "long (an int)")
        w.append(types.LONG)
        write_i64_be(w, i64(value))


def write_timestamp(w: BytesWriter, value: int) -> None:
    in_range(value, INT64_MIN, INT64_MAX, "timestamp")
    w.append(types.TIMESTAMP)
    write_i64_be(w, i64(value))


def _write_wrapped_int(w: BytesWriter, value: WrappedInt) -> None:
    number = value.value
    if isinstance(value, UInt):
        write_uint(w, unsigned(number, 0xFFFF_FFFF, "uint"))
    elif isinstance(value, ULong):
        write_ulong(w, number)
    elif isinstance(value, Int) and -128 <= number <= 127:
        w.append(types.SMALLINT)
        w.append(number & 0xFF)
    else:
        code = _code_of_int(value)
        w.append(code)
        _write_fixed_int(w, code, number)


def _code_of_int(value: WrappedInt) -> int:
    """Return the format code with the type's full width."""
    if isinstance(value, UInt):
        return types.UINT
    if isinstance(value, ULong):
        return types.ULONG
    if isinstance(value, Int):
        return types.INT
    if isinstance(value, UByte):
        return types.UBYTE
    if isinstance(value, UShort):
        return types.USHORT
    if isinstance(value, Byte):
        return types.BYTE
    if isinstance(value, Short):
        return types.SHORT
    if isinstance(value, TimestampMs):
        return types.TIMESTAMP
    assert isinstance(value, Char)
    return types.CHAR


def _write_fixed_int(w: BytesWriter, code: int, value: int) -> None:
    """Append an integer behind its format code, which is the one with the type's full width."""
    if code == types.UBYTE:
        w.append(in_range(value, 0, 0xFF, "ubyte"))
    elif code == types.BYTE:
        w.append(in_range(value, -0x80, 0x7F, "byte") & 0xFF)
    elif code == types.USHORT:
        _push16(w, unsigned(value, 0xFFFF, "ushort"))
    elif code == types.SHORT:
        write_i16_be(w, i16(in_range(value, -0x8000, 0x7FFF, "short")))
    elif code == types.UINT:
        push32(w, unsigned(value, 0xFFFF_FFFF, "uint"))
    elif code == types.INT:
        write_i32_be(w, i32(in_range(value, -0x8000_0000, 0x7FFF_FFFF, "int")))
    elif code == types.CHAR:
        if 0xD800 <= value <= 0xDFFF:
            raise LocalProtocolError("char is a surrogate, which is not a Unicode character")
        push32(w, unsigned(value, 0x10_FFFF, "char"))
    elif code == types.ULONG:
        _push64(w, in_range(value, 0, UINT64_MAX, "ulong"))
    else:
        write_i64_be(w, i64(in_range(value, INT64_MIN, INT64_MAX, "timestamp or long")))


def _code_of_raw(value: WrappedBytes) -> int:
    if isinstance(value, Uuid):
        return types.UUID
    if isinstance(value, Float32):
        return types.FLOAT
    if isinstance(value, Decimal32):
        return types.DECIMAL32
    if isinstance(value, Decimal64):
        return types.DECIMAL64
    assert isinstance(value, Decimal128)
    return types.DECIMAL128


def _raw_of(value: WrappedBytes, code: int) -> bytes:
    """Return the value's bytes: 4 for the format codes 0x7., 8 for 0x8., 16 for 0x9. ."""
    size = 1 << ((code >> 4) - 5)
    if len(value.raw) != size:
        raise LocalProtocolError(f"a {type(value).__name__} has {size} bytes, not {len(value.raw)}")
    return value.raw


def _utf8(value: str) -> bytes:
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError:
        raise LocalProtocolError("a string has lone surrogates, which UTF-8 cannot carry") from None


def _ascii(value: str) -> bytes:
    try:
        return value.encode("ascii")
    except UnicodeEncodeError:
        raise LocalProtocolError(f"symbol {value!r:.80} is not ASCII") from None


def _write_variable(w: BytesWriter, short_code: i64, raw: bytes) -> None:
    """Append a value with its length. `short_code` has one byte of length; the code with four is 0x10 higher."""
    size = i64(len(raw))
    if size <= SHORT_MAX:
        w.append(short_code)
        w.append(size)
    else:
        w.append(short_code + 0x10)
        push32(w, unsigned(size, 0xFFFF_FFFF, "length"))
    w.write(raw)


def write_string(w: BytesWriter, value: str) -> None:
    _write_variable(w, types.STR8, _utf8(value))


def write_symbol(w: BytesWriter, value: str) -> None:
    _write_variable(w, types.SYM8, _ascii(value))


def write_binary(w: BytesWriter, value: bytes) -> None:
    _write_variable(w, types.VBIN8, value)


def _write_compound(w: BytesWriter, short_code: i64, count: i64, content: bytes) -> None:
    """Append a list, map or array of `count` items.

    The short form has a size of one byte, which includes the byte of the count.
    """
    size = i64(len(content))
    if size < SHORT_MAX and count <= SHORT_MAX:
        w.append(short_code)
        w.append(size + 1)
        w.append(count)
    else:
        w.append(short_code + 0x10)
        push32(w, unsigned(size + 4, 0xFFFF_FFFF, "length"))
        push32(w, count)
    w.write(content)


def _list_content(values: list[object] | tuple[object, ...], depth: i64) -> bytes:
    w = BytesWriter()
    for value in values:
        write_value(w, value, depth + 1)
    return w.getvalue()


def _map_content(values: dict[object, object], depth: i64) -> bytes:
    w = BytesWriter()
    for key, value in values.items():
        write_value(w, key, depth + 1)
        write_value(w, value, depth + 1)
    return w.getvalue()


# The format code for the items of an array by type: full width, or four bytes of length. All items share the code, and
# the widest fits every item.
_ARRAY_CODES: Final[dict[str, int]] = {
    "null": types.NULL,
    "boolean": types.BOOLEAN,
    "ubyte": types.UBYTE,
    "ushort": types.USHORT,
    "uint": types.UINT,
    "ulong": types.ULONG,
    "byte": types.BYTE,
    "short": types.SHORT,
    "int": types.INT,
    "long": types.LONG,
    "float": types.FLOAT,
    "double": types.DOUBLE,
    "decimal32": types.DECIMAL32,
    "decimal64": types.DECIMAL64,
    "decimal128": types.DECIMAL128,
    "char": types.CHAR,
    "timestamp": types.TIMESTAMP,
    "uuid": types.UUID,
    "binary": types.VBIN8,
    "string": types.STR8,
    "symbol": types.SYM8,
    "list": types.LIST32,
    "map": types.MAP32,
    "array": types.ARRAY32,
}


def _write_array(w: BytesWriter, array: Array, depth: i64) -> None:
    code = _ARRAY_CODES.get(array.kind)
    if code is None:
        raise LocalProtocolError(f"an array cannot have items of type {array.kind!r:.80}")
    content = BytesWriter()
    for descriptor in array.descriptors:
        content.append(types.DESCRIBED)
        write_value(content, descriptor, depth + 1)
    if code == types.VBIN8 or code == types.STR8 or code == types.SYM8:
        _write_variable_items(content, array, code)
    else:
        content.append(code)
        for item in array.items:
            _write_item(content, item, code, depth + 1)
    _write_compound(w, types.ARRAY8, len(array.items), content.getvalue())


def _write_variable_items(w: BytesWriter, array: Array, code: int) -> None:
    raws: list[bytes] = []
    for item in array.items:
        if code == types.STR8 and isinstance(item, str):
            raws.append(_utf8(item))
        elif code == types.SYM8 and isinstance(item, Symbol):
            raws.append(_ascii(item.name))
        elif code == types.VBIN8 and isinstance(item, bytes):
            raws.append(item)
        else:
            raise _not_of(item, code)
    is_short = all(len(raw) <= SHORT_MAX for raw in raws)
    w.append(code if is_short else code + 0x10)
    for raw in raws:
        if is_short:
            w.append(len(raw))
        else:
            push32(w, unsigned(len(raw), 0xFFFF_FFFF, "length"))
        w.write(raw)


def _not_of(item: object, code: int) -> LocalProtocolError:
    return LocalProtocolError(f"an array of {types.KIND_OF_CODE[code]} values has a {type(item).__name__} in it")


def _write_item(w: BytesWriter, item: object, code: int, depth: i64) -> None:
    """Append an item of an array, without its format code."""
    if isinstance(item, WrappedInt) and _code_of_int(item) == code:
        _write_fixed_int(w, code, item.value)
    elif isinstance(item, WrappedBytes) and _code_of_raw(item) == code:
        w.write(_raw_of(item, code))
    elif code == types.BOOLEAN and isinstance(item, bool):
        w.append(1 if item else 0)
    elif code == types.LONG and isinstance(item, int) and not isinstance(item, bool):
        _write_fixed_int(w, code, item)
    elif code == types.DOUBLE and isinstance(item, float):
        write_f64_be(w, item)
    elif depth > VALUE_DEPTH_MAX:
        raise LocalProtocolError(f"a value is nested deeper than {VALUE_DEPTH_MAX}")
    elif code == types.LIST32 and isinstance(item, list):
        _write_long_compound(w, len(item), _list_content(item, depth))
    elif code == types.MAP32 and isinstance(item, dict):
        _write_long_compound(w, 2 * len(item), _map_content(item, depth))
    elif code == types.ARRAY32 and isinstance(item, Array):
        inner = BytesWriter()
        _write_array(inner, item, depth)
        raw = inner.getvalue()
        if raw[0] == types.ARRAY32:
            w.write(raw[1:])
        else:
            _write_long_compound(w, raw[2], raw[3:])
    elif code != types.NULL or item is not None:
        raise _not_of(item, code)


def _write_long_compound(w: BytesWriter, count: i64, content: bytes) -> None:
    push32(w, unsigned(i64(len(content)) + 4, 0xFFFF_FFFF, "length"))
    push32(w, count)
    w.write(content)


def write_fields(w: BytesWriter, fields: Fields, depth: i64 = 1) -> None:
    """Append a map with symbols as keys."""
    inner = BytesWriter()
    for key, value in fields.items():
        write_symbol(inner, key)
        write_value(inner, value, depth + 1)
    _write_compound(w, types.MAP8, 2 * len(fields), inner.getvalue())


def write_string_map(w: BytesWriter, values: dict[str, object]) -> None:
    """Append a map with strings as keys, such as application properties."""
    inner = BytesWriter()
    for key, value in values.items():
        write_string(inner, key)
        write_value(inner, value, 2)
    _write_compound(w, types.MAP8, 2 * len(values), inner.getvalue())


def write_annotations(w: BytesWriter, annotations: Annotations, depth: i64 = 1) -> None:
    """Append a map with symbols (str) and ulongs (int) as keys."""
    inner = BytesWriter()
    for key, value in annotations.items():
        if isinstance(key, str):
            write_symbol(inner, key)
        else:
            write_ulong(inner, key)
        write_value(inner, value, depth + 1)
    _write_compound(w, types.MAP8, 2 * len(annotations), inner.getvalue())


def write_composite(w: BytesWriter, value: Composite, depth: i64 = 1) -> None:
    """Append a composite value: a described list of the fields up to the last one that differs from its default."""
    layout = LAYOUTS[value.descriptor]
    w.append(types.DESCRIBED)
    w.append(types.SMALLULONG)
    w.append(layout.code)
    inner = BytesWriter()
    nulls = 0
    count = 0
    for i, kind in enumerate(layout.kinds):
        field = getattr(value, layout.attributes[i])
        if not layout.mandatory[i] and _is_default(field, layout.defaults[i]):
            nulls += 1
            continue
        count += nulls + 1
        while nulls:
            inner.append(types.NULL)
            nulls -= 1
        _write_field(inner, field, kind, layout.labels[i], depth + 1)
    if count:
        _write_compound(w, types.LIST8, count, inner.getvalue())
    else:
        w.append(types.LIST0)


def _is_default(value: object, default: object) -> bool:
    return type(value) is type(default) and value == default


def _write_field(w: BytesWriter, value: object, kind: int, what: str, depth: i64) -> None:
    if kind == composite.BOOLEAN:
        w.append(types.TRUE if value else types.FALSE)
    elif kind == composite.UINT:
        write_uint(w, unsigned(cast(int, value), 0xFFFF_FFFF, what))
    elif kind == composite.STRING:
        write_string(w, cast(str, value))
    elif kind == composite.SYMBOL:
        write_symbol(w, cast(str, value))
    elif kind == composite.BINARY:
        write_binary(w, cast(bytes, value))
    elif kind == composite.UBYTE:
        w.append(types.UBYTE)
        w.append(in_range(cast(int, value), 0, 0xFF, what))
    elif kind == composite.USHORT:
        w.append(types.USHORT)
        _push16(w, unsigned(cast(int, value), 0xFFFF, what))
    elif kind == composite.ULONG:
        write_ulong(w, cast(int, value))
    elif kind == composite.TIMESTAMP:
        write_timestamp(w, cast(int, value))
    elif kind == composite.SYMBOLS:
        names = cast("list[str]", value)
        _write_array(w, Array("symbol", [Symbol(name) for name in names]), depth)
    elif kind == composite.FIELDS:
        write_fields(w, cast(Fields, value), depth)
    elif kind == composite.ANNOTATIONS:
        write_annotations(w, cast(Annotations, value), depth)
    else:
        write_value(w, value, depth)
