"""Reads values of AMQP 1.0 from bytes (amqp-1.0 part 1 §1.6).

Invalid input raises DecodeError and no other error. A length or count is only trusted after the bytes that it promises
have been checked to be there; items without bytes of their own are limited by a budget.
"""

from typing import Final, cast, final

from librt.strings import read_f64_be, read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64, mypyc_attr

from flintmq.base.errors import DecodeError
from flintmq.base.limits import VALUE_COUNT_MAX, VALUE_DEPTH_MAX
from flintmq.wire.amqp10 import types
from flintmq.wire.amqp10.composite import Annotations, Fields
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
)
from flintmq.wire.amqp10.writer import encode_value

UINT64_MAX: Final = 0xFFFF_FFFF_FFFF_FFFF
# Stands for null in place of a uint.
ABSENT: Final = -1


@final
@mypyc_attr(free_list_len=1, acyclic=True)
class Reader:
    """A reader of `data` up to `end`. `left` is how many more values may be created within lists, maps and arrays.

    With `is_lenient`, an error may lack its condition, which the specification makes mandatory: RabbitMQ and its Erlang
    client send an error without any field if they mean no error.
    """

    def __init__(self, data: bytes, pos: i64, end: i64, is_lenient: bool = False) -> None:
        self.data = data
        self.pos: i64 = pos
        self.end: i64 = end
        self.left: i64 = VALUE_COUNT_MAX
        self.is_lenient = is_lenient

    def take(self, size: i64) -> i64:
        """Return the position of the next `size` bytes, and skip them."""
        pos = self.pos
        if size > self.end - pos:
            raise DecodeError(f"{size} bytes are needed at byte {pos}, {self.end - pos} are left")
        self.pos = pos + size
        return pos

    def code(self) -> i64:
        pos = self.pos
        if pos >= self.end:
            raise DecodeError(f"1 bytes are needed at byte {pos}, 0 are left")
        self.pos = pos + 1
        return i64(self.data[pos])

    def peek(self) -> i64:
        """Return the format code of the next value. Raises DecodeError if there is none."""
        if self.pos >= self.end:
            raise DecodeError(f"a value is missing at byte {self.pos}")
        return i64(self.data[self.pos])

    def value(self, depth: i64 = 1) -> object:
        return self.value_of(self.code(), depth)

    def value_of(self, code: i64, depth: i64) -> object:
        """Return the value behind a format code that was read already."""
        width = code >> 4
        if width == 0x4:
            if code == types.LIST0 and depth > VALUE_DEPTH_MAX:
                raise self._too_deep()
            return self._empty(code)
        if width == 0x5:
            return self._one_byte(code)
        if width == 0xA or width == 0xB:
            return self._variable(code)
        if width == 0x7:
            return self._four_bytes(code)
        if width == 0x8:
            return self._eight_bytes(code)
        if depth > VALUE_DEPTH_MAX:
            raise self._too_deep()
        if code == types.LIST8 or code == types.LIST32:
            return self._list(code, depth)
        if code == types.MAP8 or code == types.MAP32:
            return self._map(code, depth)
        if code == types.ARRAY8 or code == types.ARRAY32:
            return self._array(code, depth)
        if code == types.DESCRIBED:
            descriptor = self.value(depth + 1)
            return Described(descriptor, self.value(depth + 1))
        if code == types.USHORT:
            return UShort(i64(read_i16_be(self.data, self.take(2))) & 0xFFFF)
        if code == types.SHORT:
            return Short(int(read_i16_be(self.data, self.take(2))))
        if code == types.UUID:
            return Uuid(self.raw(16))
        if code == types.DECIMAL128:
            return Decimal128(self.raw(16))
        raise self.unknown(code)

    def _too_deep(self) -> DecodeError:
        return DecodeError(f"value at byte {self.pos} is nested deeper than {VALUE_DEPTH_MAX}")

    def unknown(self, code: i64) -> DecodeError:
        return DecodeError(f"unknown format code 0x{int(code):02x} before byte {self.pos}")

    def raw(self, size: i64) -> bytes:
        pos = self.take(size)
        return self.data[pos : pos + size]

    def _empty(self, code: i64) -> object:
        if code == types.NULL:
            return None
        if code == types.TRUE:
            return True
        if code == types.FALSE:
            return False
        if code == types.UINT0:
            return UInt(0)
        if code == types.ULONG0:
            return ULong(0)
        if code == types.LIST0:
            return []
        raise self.unknown(code)

    def _one_byte(self, code: i64) -> object:
        octet = self.code()
        if code == types.SMALLULONG:
            return ULong(octet)
        if code == types.SMALLUINT:
            return UInt(octet)
        if code == types.UBYTE:
            return UByte(octet)
        if code == types.BOOLEAN:
            return self._boolean(octet)
        signed: int = octet - 256 if octet > 127 else octet
        if code == types.SMALLINT:
            return Int(signed)
        if code == types.SMALLLONG:
            return signed
        if code == types.BYTE:
            return Byte(signed)
        raise self.unknown(code)

    def _boolean(self, octet: i64) -> bool:
        if octet > 1:
            raise DecodeError(f"boolean before byte {self.pos} is neither 0 nor 1")
        return octet == 1

    def _four_bytes(self, code: i64) -> object:
        pos = self.take(4)
        if code == types.UINT:
            return UInt(i64(read_i32_be(self.data, pos)) & 0xFFFF_FFFF)
        if code == types.INT:
            return Int(int(read_i32_be(self.data, pos)))
        if code == types.FLOAT:
            return Float32(self.data[pos : pos + 4])
        if code == types.DECIMAL32:
            return Decimal32(self.data[pos : pos + 4])
        if code == types.CHAR:
            point = i64(read_i32_be(self.data, pos)) & 0xFFFF_FFFF
            if point > 0x10_FFFF or 0xD800 <= point <= 0xDFFF:
                raise DecodeError(f"char at byte {pos} is not a Unicode character")
            return Char(point)
        raise self.unknown(code)

    def _eight_bytes(self, code: i64) -> object:
        pos = self.take(8)
        if code == types.ULONG:
            return ULong(self._unsigned64(pos))
        if code == types.LONG:
            return int(read_i64_be(self.data, pos))
        if code == types.DOUBLE:
            return read_f64_be(self.data, pos)
        if code == types.TIMESTAMP:
            return TimestampMs(int(read_i64_be(self.data, pos)))
        if code == types.DECIMAL64:
            return Decimal64(self.data[pos : pos + 8])
        raise self.unknown(code)

    def _unsigned64(self, pos: i64) -> int:
        value: int = read_i64_be(self.data, pos)
        return value & UINT64_MAX

    def _variable(self, code: i64) -> object:
        if code == types.STR8 or code == types.STR32:
            return self._text(self._length(code))
        if code == types.SYM8 or code == types.SYM32:
            return Symbol(self._ascii(self._length(code)))
        if code == types.VBIN8 or code == types.VBIN32:
            return self.raw(self._length(code))
        raise self.unknown(code)

    def _length(self, code: i64) -> i64:
        """Read a size or count: one byte for the format codes 0xA0, 0xC0 and 0xE0, four bytes for the others."""
        if code & 0x10 == 0:
            return self.code()
        return i64(read_i32_be(self.data, self.take(4))) & 0xFFFF_FFFF

    def _text(self, size: i64) -> str:
        pos = self.take(size)
        try:
            return self.data[pos : pos + size].decode("utf-8")
        except UnicodeDecodeError:
            raise DecodeError(f"string at byte {pos} is not UTF-8") from None

    def _ascii(self, size: i64) -> str:
        pos = self.take(size)
        try:
            return self.data[pos : pos + size].decode("ascii")
        except UnicodeDecodeError:
            raise DecodeError(f"symbol at byte {pos} is not ASCII") from None

    def open(self, code: i64) -> tuple[i64, i64]:
        """Begin a list, map or array. Returns the number of its items, and the end of its container.

        Until `close`, reading ends at the compound's end.
        """
        size = self._length(code)
        start = self.take(size)
        outer = self.end
        self.pos = start
        self.end = start + size
        count = self._length(code)
        if count > self.left:
            raise DecodeError(f"more than {VALUE_COUNT_MAX} values, at byte {start}")
        self.left -= count
        return count, outer

    def close(self, outer: i64) -> None:
        if self.pos != self.end:
            raise DecodeError(f"{self.end - self.pos} bytes at byte {self.pos} belong to no value")
        self.end = outer

    def _list(self, code: i64, depth: i64) -> list[object]:
        count, outer = self.open(code)
        values: list[object] = []
        while count > 0:
            values.append(self.value(depth + 1))
            count -= 1
        self.close(outer)
        return values

    def _map(self, code: i64, depth: i64) -> dict[object, object]:
        count, outer = self.open(code)
        if count & 1:
            raise DecodeError(f"map before byte {self.pos} has a key without a value")
        values: dict[object, object] = {}
        while count > 0:
            at = self.pos
            key = as_key(self.value(depth + 1))
            if key in values:
                raise DecodeError(f"map has the key at byte {at} twice")
            values[key] = self.value(depth + 1)
            count -= 2
        self.close(outer)
        return values

    def _array(self, code: i64, depth: i64) -> Array:
        count, outer = self.open(code)
        descriptors: list[object] = []
        item = self.code()
        while item == types.DESCRIBED:
            if len(descriptors) >= VALUE_DEPTH_MAX:
                raise DecodeError(f"array before byte {self.pos} is described more than {VALUE_DEPTH_MAX} times")
            descriptors.append(self.value(depth + 1))
            item = self.code()
        kind = types.KIND_OF_CODE.get(item)
        if kind is None:
            raise self.unknown(item)
        items: list[object] = []
        while count > 0:
            items.append(self.value_of(item, depth + 1))
            count -= 1
        self.close(outer)
        return Array(kind, items, descriptors)

    # The methods below read a value that must have a certain type, such as a field or a key.

    def is_null(self) -> bool:
        """Whether a null is next. It is skipped then."""
        if self.peek() != types.NULL:
            return False
        self.pos += 1
        return True

    def flag(self) -> bool:
        """Read a boolean. Null is False."""
        code = self.code()
        return code != types.NULL and self._boolean_of(code)

    def boolean(self) -> bool:
        return self._boolean_of(self.code())

    def _boolean_of(self, code: i64) -> bool:
        if code == types.TRUE:
            return True
        if code == types.FALSE:
            return False
        if code == types.BOOLEAN:
            return self._boolean(self.code())
        raise self._unexpected(code, "boolean")

    def ubyte(self) -> int:
        code = self.code()
        if code != types.UBYTE:
            raise self._unexpected(code, "ubyte")
        return self.code()

    def ushort(self) -> int:
        code = self.code()
        if code != types.USHORT:
            raise self._unexpected(code, "ushort")
        return i64(read_i16_be(self.data, self.take(2))) & 0xFFFF

    def uint(self) -> i64:
        return self._uint_of(self.code())

    def uint_or_null(self) -> i64:
        """Read a uint. Null is ABSENT."""
        code = self.code()
        return ABSENT if code == types.NULL else self._uint_of(code)

    def _uint_of(self, code: i64) -> i64:
        if code == types.SMALLUINT:
            return self.code()
        if code == types.UINT0:
            return 0
        if code == types.UINT:
            return i64(read_i32_be(self.data, self.take(4))) & 0xFFFF_FFFF
        raise self._unexpected(code, "uint")

    def ulong(self) -> int:
        code = self.code()
        if code == types.SMALLULONG:
            return self.code()
        if code == types.ULONG0:
            return 0
        if code == types.ULONG:
            return self._unsigned64(self.take(8))
        raise self._unexpected(code, "ulong")

    def timestamp(self) -> int:
        code = self.code()
        if code != types.TIMESTAMP:
            raise self._unexpected(code, "timestamp")
        return read_i64_be(self.data, self.take(8))

    def string(self) -> str:
        code = self.code()
        if code != types.STR8 and code != types.STR32:
            raise self._unexpected(code, "string")
        return self._text(self._length(code))

    def symbol(self) -> str:
        code = self.code()
        if code != types.SYM8 and code != types.SYM32:
            raise self._unexpected(code, "symbol")
        return self._ascii(self._length(code))

    def binary(self) -> bytes:
        code = self.code()
        if code != types.VBIN8 and code != types.VBIN32:
            raise self._unexpected(code, "binary")
        return self.raw(self._length(code))

    def symbols(self) -> list[str]:
        """Read a field with multiple="true": one symbol, or an array of them (amqp-1.0 part 1 §1.4)."""
        code = self.peek()
        if code != types.ARRAY8 and code != types.ARRAY32:
            return [self.symbol()]
        array = self._array(self.code(), 1)
        if array.kind != "symbol" or array.descriptors:
            raise DecodeError(f"array before byte {self.pos} has items of type {array.kind}, expected symbol")
        return [cast(Symbol, item).name for item in array.items]

    def map_start(self) -> tuple[i64, i64]:
        """Begin a map. Returns the number of its pairs, and the end of its container, as `open` does."""
        code = self.code()
        if code != types.MAP8 and code != types.MAP32:
            raise self._unexpected(code, "map")
        count, outer = self.open(code)
        if count & 1:
            raise DecodeError(f"map before byte {self.pos} has a key without a value")
        return count >> 1, outer

    def fields(self, depth: i64 = 1) -> Fields:
        """Read a map with symbols as keys."""
        entries, outer = self.map_start()
        values: Fields = {}
        while entries > 0:
            key = self.symbol()
            if key in values:
                raise DecodeError(f"map has the key {key!r:.80} twice")
            values[key] = self.value(depth + 1)
            entries -= 1
        self.close(outer)
        return values

    def text_map(self) -> dict[str, object]:
        """Read a map with strings as keys."""
        entries, outer = self.map_start()
        values: dict[str, object] = {}
        while entries > 0:
            key = self.string()
            if key in values:
                raise DecodeError(f"map has the key {key!r:.80} twice")
            values[key] = self.value(2)
            entries -= 1
        self.close(outer)
        return values

    def annotations(self, depth: i64 = 1) -> Annotations:
        """Read a map with symbols (here str) and ulongs (here int) as keys."""
        entries, outer = self.map_start()
        values: Annotations = {}
        while entries > 0:
            code = self.peek()
            key: str | int
            if code == types.SYM8 or code == types.SYM32:  # noqa: SIM108 - mypyc does not join the two types
                key = self.symbol()
            else:
                key = self.ulong()
            if key in values:
                raise DecodeError(f"map has the key {key!r:.80} twice")
            values[key] = self.value(depth + 1)
            entries -= 1
        self.close(outer)
        return values

    def _unexpected(self, code: i64, wanted: str) -> DecodeError:
        found = "described value" if code == types.DESCRIBED else types.KIND_OF_CODE.get(code)
        if found is None:
            return self.unknown(code)
        return DecodeError(f"{found} before byte {self.pos}, expected a value of type {wanted}")


def as_key(value: object) -> object:
    """Return a value as a key that is equal to no other value's (see MapKey)."""
    if isinstance(value, (bool, float, list, dict, Array, Described)):
        return MapKey(value, encode_value(value))
    return value
