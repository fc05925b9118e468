"""Values of AMQP 1.0: a hex snapshot per encoding, what keys of maps are, the limits, and what is refused."""

import pytest

from flintmq.base.errors import DecodeError, LocalProtocolError
from flintmq.base.limits import VALUE_COUNT_MAX, VALUE_DEPTH_MAX
from flintmq.wire.amqp10.reader import as_key
from flintmq.wire.amqp10.termini import DeleteOnNoLinks
from flintmq.wire.amqp10.types import skip_value
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
from tests.amqp10_wire import decode_value

LONG_TEXT = "x" * 256

BOTH_WAYS: list[tuple[str, str, object]] = [
    ("null", "40", None),
    ("true", "41", True),
    ("false", "42", False),
    ("ubyte", "50 ff", UByte(255)),
    ("ushort", "60 ffff", UShort(0xFFFF)),
    ("uint0", "43", UInt(0)),
    ("smalluint", "52 ff", UInt(255)),
    ("uint", "70 00000100", UInt(256)),
    ("uint-most", "70 ffffffff", UInt(0xFFFF_FFFF)),
    ("ulong0", "44", ULong(0)),
    ("smallulong", "53 ff", ULong(255)),
    ("ulong", "80 0000000000000100", ULong(256)),
    ("ulong-most", "80 ffffffffffffffff", ULong((1 << 64) - 1)),
    ("byte", "51 80", Byte(-128)),
    ("short", "61 8000", Short(-0x8000)),
    ("smallint", "54 80", Int(-128)),
    ("int", "71 ffffff7f", Int(-129)),
    ("int-most", "71 7fffffff", Int(0x7FFF_FFFF)),
    ("smalllong", "55 ff", -1),
    ("long", "81 0000000000000080", 128),
    ("long-least", "81 8000000000000000", -(1 << 63)),
    ("float", "72 3fc00000", Float32(b"\x3f\xc0\x00\x00")),
    ("double", "82 3ff8000000000000", 1.5),
    ("double-negative-zero", "82 8000000000000000", -0.0),
    ("decimal32", "74 22500001", Decimal32(b"\x22\x50\x00\x01")),
    ("decimal64", "84 2234000000000001", Decimal64(b"\x22\x34\x00\x00\x00\x00\x00\x01")),
    ("decimal128", "94" + "22" * 16, Decimal128(b"\x22" * 16)),
    ("char", "73 0001f525", Char(0x1F525)),
    ("timestamp", "83 ffffffffffffffff", TimestampMs(-1)),
    ("uuid", "98 00112233445566778899aabbccddeeff", Uuid(bytes.fromhex("00112233445566778899aabbccddeeff"))),
    ("vbin8", "a0 02 00ff", b"\x00\xff"),
    ("vbin32", "b0 00000100" + "00" * 256, bytes(256)),
    ("str8", "a1 03 e282ac", "€"),
    ("str32", "b1 00000100" + "78" * 256, LONG_TEXT),
    ("sym8", "a3 03 782d79", Symbol("x-y")),
    ("sym32", "b3 00000100" + "78" * 256, Symbol(LONG_TEXT)),
    ("list0", "45", []),
    ("list8", "c0 03 02 41 45", [True, []]),
    ("list8-largest", "c0 ff 02 a0 fb" + "00" * 251 + "40", [bytes(251), None]),
    ("list32-by-size", "d0 00000103 00000002 a0 fc" + "00" * 252 + "40", [bytes(252), None]),
    ("list32-by-count", "d0 00000104 00000100" + "40" * 256, [None] * 256),
    ("map8-empty", "c1 01 00", {}),
    ("map8", "c1 07 04 a1 01 6b 41 43 40", {"k": True, UInt(0): None}),
    ("map32", "d1 00000106 00000002 a1 01 6b a0 fd" + "00" * 253, {"k": bytes(253)}),
    ("described", "00 53 24 45", Described(ULong(0x24), [])),
    ("described-by-symbol", "00 a3 01 61 40", Described(Symbol("a"), None)),
    ("described-twice", "00 44 00 53 01 40", Described(ULong(0), Described(ULong(1), None))),
    ("descriptor-described", "00 00 44 43 40", Described(Described(ULong(0), UInt(0)), None)),
    ("array-empty", "e0 02 00 a3", Array("symbol", [])),
    ("array-null", "e0 02 03 40", Array("null", [None, None, None])),
    ("array-boolean", "e0 04 02 56 01 00", Array("boolean", [True, False])),
    ("array-ubyte", "e0 03 01 50 07", Array("ubyte", [UByte(7)])),
    ("array-ushort", "e0 04 01 60 0007", Array("ushort", [UShort(7)])),
    ("array-uint", "e0 06 01 70 00000007", Array("uint", [UInt(7)])),
    ("array-ulong", "e0 0a 01 80 0000000000000007", Array("ulong", [ULong(7)])),
    ("array-byte", "e0 03 01 51 ff", Array("byte", [Byte(-1)])),
    ("array-short", "e0 04 01 61 ffff", Array("short", [Short(-1)])),
    ("array-int", "e0 06 01 71 ffffffff", Array("int", [Int(-1)])),
    ("array-long", "e0 0a 01 81 ffffffffffffffff", Array("long", [-1])),
    ("array-double", "e0 0a 01 82 3ff8000000000000", Array("double", [1.5])),
    ("array-char", "e0 06 01 73 00000041", Array("char", [Char(0x41)])),
    ("array-timestamp", "e0 0a 01 83 0000000000000001", Array("timestamp", [TimestampMs(1)])),
    ("array-uuid", "e0 12 01 98" + "01" * 16, Array("uuid", [Uuid(b"\x01" * 16)])),
    ("array-sym8", "e0 06 02 a3 01 61 01 62", Array("symbol", [Symbol("a"), Symbol("b")])),
    ("array-str32", "f0 00000109 00000001 b1 00000100" + "78" * 256, Array("string", [LONG_TEXT])),
    ("array-list", "e0 13 02 d0 00000004 00000000 00000005 00000001 40", Array("list", [[], [None]])),
    ("array-map", "e0 0a 01 d1 00000004 00000000", Array("map", [{}])),
    ("array-array", "e0 0b 01 f0 00000005 00000000 40", Array("array", [Array("null", [])])),
    ("array-described", "e0 06 01 00 53 05 50 07", Array("ubyte", [UByte(7)], [ULong(5)])),
    ("array-described-twice", "e0 08 01 00 44 00 53 05 50 07", Array("ubyte", [UByte(7)], [ULong(0), ULong(5)])),
]


@pytest.mark.parametrize(("encoded", "value"), [row[1:] for row in BOTH_WAYS], ids=[row[0] for row in BOTH_WAYS])
def test_each_type_has_this_form(encoded: str, value: object) -> None:
    """Written as the snapshot, read back with its type, and skipped to its end."""
    raw = bytes.fromhex(encoded)
    assert encode_value(value) == raw
    assert repr(decode_value(raw)) == repr(value)
    assert decode_value(raw) == value
    assert skip_value(raw, 0, len(raw)) == len(raw)


READ_ONLY: list[tuple[str, object]] = [
    ("56 01", True),
    ("56 00", False),
    ("70 00000007", UInt(7)),
    ("80 0000000000000007", ULong(7)),
    ("71 00000007", Int(7)),
    ("81 0000000000000007", 7),
    ("b0 00000001 07", b"\x07"),
    ("b1 00000001 61", "a"),
    ("b3 00000001 61", Symbol("a")),
    ("c0 01 00", []),
    ("d0 00000004 00000000", []),
    ("d0 00000005 00000001 40", [None]),
    ("d1 00000006 00000002 4140", {MapKey(True, b"\x41"): None}),
    ("f0 00000006 00000001 50 07", Array("ubyte", [UByte(7)])),
    ("e0 02 02 41", Array("boolean", [True, True])),
    ("e0 02 01 45", Array("list", [[]])),
    ("e0 04 02 52 0709", Array("uint", [UInt(7), UInt(9)])),
    ("e0 02 01 43", Array("uint", [UInt(0)])),
    ("e0 03 01 55 ff", Array("long", [-1])),
    ("e0 04 01 c0 01 00", Array("list", [[]])),
    ("e0 05 01 e0 02 00 40", Array("array", [Array("null", [])])),
]


@pytest.mark.parametrize(("encoded", "value"), READ_ONLY)
def test_longer_forms_read_as_the_same_value(encoded: str, value: object) -> None:
    """What we never write, because there is a shorter form, others may."""
    assert repr(decode_value(bytes.fromhex(encoded))) == repr(value)


REFUSED: list[tuple[str, str]] = [
    ("", "1 bytes are needed at byte 0, 0 are left"),
    ("3f", "unknown format code 0x3f"),
    ("46", "unknown format code 0x46"),
    ("57 00", "unknown format code 0x57"),
    ("62 0000", "unknown format code 0x62"),
    ("75 00000000", "unknown format code 0x75"),
    ("85 0000000000000000", "unknown format code 0x85"),
    ("95" + "00" * 16, "unknown format code 0x95"),
    ("a2 00", "unknown format code 0xa2"),
    ("c2 01 00", "unknown format code 0xc2"),
    ("ff", "unknown format code 0xff"),
    ("56 02", "neither 0 nor 1"),
    ("73 0000d800", "not a Unicode character"),
    ("73 00110000", "not a Unicode character"),
    ("a1 02 c328", "not UTF-8"),
    ("a1 03 eda080", "not UTF-8"),
    ("a3 02 c3a9", "not ASCII"),
    ("a0 02 00", "2 bytes are needed at byte 2, 1 are left"),
    ("b0 ffffffff", "4294967295 bytes are needed"),
    ("40 40", "1 bytes follow the value"),
    ("c0 00", "1 bytes are needed"),
    ("c0 01 01", "1 bytes are needed"),
    ("c0 02 00 40", "1 bytes at byte 3 belong to no value"),
    ("c0 03 01 a0 01 00", "1 bytes are needed"),
    ("d0 ffffffff 00000000", "4294967295 bytes are needed"),
    ("d0 00000004 ffffffff", f"more than {VALUE_COUNT_MAX} values"),
    ("c1 02 01 40", "a key without a value"),
    ("c1 05 04 4140 4140", "has the key at byte 5 twice"),
    ("c1 06 04 4140 560140", "has the key at byte 5 twice"),
    ("c1 07 04 530140 530141", "twice"),
    ("00", "1 bytes are needed"),
    ("00 40", "1 bytes are needed"),
    ("e0 01 00", "1 bytes are needed"),
    ("e0 02 00 3f", "unknown format code 0x3f"),
    ("e0 02 01 50", "1 bytes are needed"),
    ("e0 03 00 50 07", "1 bytes at byte 4 belong to no value"),
    ("f0 00000005 00040001 40", f"more than {VALUE_COUNT_MAX} values"),
]


@pytest.mark.parametrize(("encoded", "text"), REFUSED)
def test_what_is_no_value_is_refused(encoded: str, text: str) -> None:
    """With a decode error that says where and why."""
    with pytest.raises(DecodeError, match=text):
        decode_value(bytes.fromhex(encoded))


def test_keys_that_python_confuses_stay_apart() -> None:
    """True, 1, 1.0 and UInt(1), and zeros with either sign, are six keys of one map."""
    raw = bytes.fromhex(
        "c1 27 0c 41 40 55 01 40 52 01 40 82 3ff0000000000000 40 82 0000000000000000 40 82 8000000000000000 40"
    )
    value = decode_value(raw)
    assert isinstance(value, dict)
    assert [*value] == [as_key(True), 1, UInt(1), as_key(1.0), as_key(0.0), as_key(-0.0)]
    assert encode_value(value) == raw


def test_maps_may_be_written_with_plain_keys() -> None:
    """Wrapping keys is for what was read; who writes a boolean or a double may leave it as it is."""
    assert encode_value({True: None}) == encode_value({as_key(True): None})
    assert encode_value({(1.5): None}) == encode_value({as_key(1.5): None})


def test_keys_may_be_lists_and_maps() -> None:
    """Python has no hash for them: they are told apart by their bytes."""
    raw = encode_value({as_key([1, {"a": 2}]): "v", as_key(Array("uint", [])): "w"})
    value = decode_value(raw)
    assert value == {as_key([1, {"a": 2}]): "v", as_key(Array("uint", [])): "w"}


def test_values_of_different_types_are_different() -> None:
    """Also if their numbers or bytes are equal, for == as for hash."""
    assert len({UInt(1), ULong(1), Int(1), 1, Symbol("a"), "a", Decimal32(bytes(4)), Float32(bytes(4))}) == 8
    assert UInt(1) != ULong(1)
    assert Symbol("a") != "a"


def _nested(levels: int) -> bytes:
    raw = b"\x45"
    for _ in range(levels - 1):
        raw = b"\xd0" + (4 + len(raw)).to_bytes(4) + b"\x00\x00\x00\x01" + raw
    return raw


def test_depth_is_limited() -> None:
    """Lists within lists to the limit, and no further, in either direction."""
    deepest = decode_value(_nested(VALUE_DEPTH_MAX))
    assert decode_value(encode_value(deepest)) == deepest
    with pytest.raises(DecodeError, match="nested deeper than 64"):
        decode_value(_nested(VALUE_DEPTH_MAX + 1))
    with pytest.raises(LocalProtocolError, match="nested deeper than 64"):
        encode_value([deepest])


@pytest.mark.parametrize("repeated", ["00", "0044", "c00201", "e0fd0100"])
def test_anything_repeated_is_no_deeper(repeated: str) -> None:
    """Descriptions, descriptors that are described, lists and arrays of descriptors all end at the limit or before."""
    with pytest.raises(DecodeError):
        decode_value(bytes.fromhex(repeated) * 100_000)
    raw = bytes.fromhex(repeated) * 100_000
    if repeated.startswith("00"):
        with pytest.raises(DecodeError):
            skip_value(raw, 0, len(raw))


def test_items_without_bytes_are_counted() -> None:
    """An array of a few bytes may claim as many empty lists as may be made, in all of a value together."""
    array = b"\xf0\x00\x00\x00\x05" + (VALUE_COUNT_MAX // 2).to_bytes(4) + b"\x45"
    value = decode_value(array)
    assert isinstance(value, Array)
    assert len(value.items) == VALUE_COUNT_MAX // 2
    with pytest.raises(DecodeError, match="more than"):
        decode_value(b"\xc0" + bytes([1 + 2 * len(array), 2]) + array * 2)


class _Unknown:
    pass


NOT_WRITABLE: list[tuple[object, str]] = [
    (_Unknown(), "cannot encode a _Unknown"),
    (1 << 63, "out of range"),
    (10**5000, "out of range"),
    (UInt(-1), "out of range"),
    (ULong(1 << 64), "out of range"),
    (UByte(256), "out of range"),
    (Byte(128), "out of range"),
    (UShort(-1), "out of range"),
    (Short(0x8000), "out of range"),
    (Int(1 << 31), "out of range"),
    (Char(0x11_0000), "out of range"),
    (Char(0xD800), "surrogate"),
    (TimestampMs(1 << 63), "out of range"),
    (Uuid(b"short"), "has 16 bytes, not 5"),
    (Decimal64(b""), "has 8 bytes, not 0"),
    ("\ud800", "lone surrogates"),
    (Symbol("é"), "not ASCII"),
    (Array("number", []), "cannot have items of type 'number'"),
    (Array("uint", [1]), "an array of uint values has a int in it"),
    (Array("long", [True]), "an array of long values has a bool in it"),
    (Array("symbol", ["a"]), "an array of symbol values has a str in it"),
    (Array("null", [0]), "an array of null values has a int in it"),
]


@pytest.mark.parametrize(("value", "text"), NOT_WRITABLE, ids=range(len(NOT_WRITABLE)))
def test_what_does_not_fit_is_refused(value: object, text: str) -> None:
    """As a fault of our own side, whatever the value is."""
    with pytest.raises(LocalProtocolError, match=text):
        encode_value(value)


def test_composites_are_values_too() -> None:
    """A lifetime policy goes into a map of properties as it is, and reads back as what it is on the wire."""
    assert decode_value(encode_value({"p": DeleteOnNoLinks()})) == {"p": Described(ULong(0x2C), [])}


def test_a_uuid_prints_as_uuids_do() -> None:
    """In groups of hexadecimal digits."""
    assert str(Uuid(bytes(range(16)))) == "00010203-0405-0607-0809-0a0b0c0d0e0f"
