"""Format codes of AMQP 1.0, and the size of a value by its code (amqp-1.0 part 1 §1.2, §1.6).

The upper half of a format code says how long the value is; the lower half matters to its reader only.
"""

from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

from flintmq.base.errors import DecodeError
from flintmq.base.limits import VALUE_DEPTH_MAX

DESCRIBED: Final = 0x00
NULL: Final = 0x40
TRUE: Final = 0x41
FALSE: Final = 0x42
UINT0: Final = 0x43
ULONG0: Final = 0x44
LIST0: Final = 0x45
UBYTE: Final = 0x50
BYTE: Final = 0x51
SMALLUINT: Final = 0x52
SMALLULONG: Final = 0x53
SMALLINT: Final = 0x54
SMALLLONG: Final = 0x55
BOOLEAN: Final = 0x56
USHORT: Final = 0x60
SHORT: Final = 0x61
UINT: Final = 0x70
INT: Final = 0x71
FLOAT: Final = 0x72
CHAR: Final = 0x73
DECIMAL32: Final = 0x74
ULONG: Final = 0x80
LONG: Final = 0x81
DOUBLE: Final = 0x82
TIMESTAMP: Final = 0x83
DECIMAL64: Final = 0x84
DECIMAL128: Final = 0x94
UUID: Final = 0x98
VBIN8: Final = 0xA0
STR8: Final = 0xA1
SYM8: Final = 0xA3
VBIN32: Final = 0xB0
STR32: Final = 0xB1
SYM32: Final = 0xB3
LIST8: Final = 0xC0
MAP8: Final = 0xC1
LIST32: Final = 0xD0
MAP32: Final = 0xD1
ARRAY8: Final = 0xE0
ARRAY32: Final = 0xF0

# The type of each format code.
KIND_OF_CODE: Final[dict[int, str]] = {
    NULL: "null",
    TRUE: "boolean",
    FALSE: "boolean",
    BOOLEAN: "boolean",
    UBYTE: "ubyte",
    USHORT: "ushort",
    UINT0: "uint",
    SMALLUINT: "uint",
    UINT: "uint",
    ULONG0: "ulong",
    SMALLULONG: "ulong",
    ULONG: "ulong",
    BYTE: "byte",
    SHORT: "short",
    SMALLINT: "int",
    INT: "int",
    SMALLLONG: "long",
    LONG: "long",
    FLOAT: "float",
    DOUBLE: "double",
    DECIMAL32: "decimal32",
    DECIMAL64: "decimal64",
    DECIMAL128: "decimal128",
    CHAR: "char",
    TIMESTAMP: "timestamp",
    UUID: "uuid",
    VBIN8: "binary",
    VBIN32: "binary",
    STR8: "string",
    STR32: "string",
    SYM8: "symbol",
    SYM32: "symbol",
    LIST0: "list",
    LIST8: "list",
    LIST32: "list",
    MAP8: "map",
    MAP32: "map",
    ARRAY8: "array",
    ARRAY32: "array",
}


def skip_value(data: bytes, pos: i64, end: i64, depth: i64 = 1) -> i64:
    """Return the position behind the value at `pos`, at most `end`. Contents are not checked. Raises DecodeError."""
    while pos < end and data[pos] == DESCRIBED:
        depth += 1
        if depth > VALUE_DEPTH_MAX:
            raise DecodeError(f"value at byte {pos} is described more than {VALUE_DEPTH_MAX} times")
        # A descriptor is a value, and may itself be described.
        pos = skip_value(data, pos + 1, end, depth)
    return _skip_plain(data, pos, end)


def _skip_plain(data: bytes, pos: i64, end: i64) -> i64:
    if pos >= end:
        raise DecodeError(f"a value is missing at byte {pos}")
    code: i64 = data[pos]
    pos += 1
    width = code >> 4
    size: i64
    if width == 0x4:
        size = 0
    elif width == 0x5:
        size = 1
    elif width == 0x6:
        size = 2
    elif width == 0x7:
        size = 4
    elif width == 0x8:
        size = 8
    elif width == 0x9:
        size = 16
    elif width == 0xA or width == 0xC or width == 0xE:
        if pos >= end:
            raise DecodeError(f"value at byte {pos - 1} has no room for its length")
        size = i64(data[pos]) + 1
    elif width == 0xB or width == 0xD or width == 0xF:
        if pos + 4 > end:
            raise DecodeError(f"value at byte {pos - 1} has no room for its length")
        size = (i64(read_i32_be(data, pos)) & 0xFFFF_FFFF) + 4
    else:
        raise DecodeError(f"value at byte {pos - 1} has the unknown format code 0x{int(code):02x}")
    if size > end - pos:
        raise DecodeError(f"value at byte {pos - 1} needs {size} bytes, {end - pos} are left")
    return pos + size
