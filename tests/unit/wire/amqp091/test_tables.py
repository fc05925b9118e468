"""Field tables: a hex snapshot per type, the limits, and what is refused on either side."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from librt.strings import BytesWriter

from flintmq.base.errors import LocalProtocolError, SyntaxFault
from flintmq.base.limits import TABLE_DEPTH_MAX, TABLE_ENTRIES_MAX
from flintmq.base.values import Int8, Int16, Int32, Timestamp, UInt8, UInt16, UInt32
from flintmq.wire.amqp091.tables import (
    Table,
    decode_arguments,
    decode_table,
    encode_address,
    encode_shortstr,
    encode_table,
    pull_shortstr,
)


def _table(entries: str) -> bytes:
    body = bytes.fromhex(entries)
    return len(body).to_bytes(4) + body


def _decode(raw: bytes) -> Table:
    table, end = decode_table(raw, 0)
    assert end == len(raw)
    return table


def _encode(table: Table) -> bytes:
    w = BytesWriter()
    encode_table(w, table)
    return w.getvalue()


BOTH_WAYS: list[tuple[str, str, object]] = [
    ("true", "74 01", True),
    ("false", "74 00", False),
    ("int32", "49 00000001", 1),
    ("int32-least", "49 80000000", -0x8000_0000),
    ("int32-most", "49 7fffffff", 0x7FFF_FFFF),
    ("int64", "6c 0000000080000000", 0x8000_0000),
    ("int64-least", "6c 8000000000000000", -(1 << 63)),
    ("int64-most", "6c 7fffffffffffffff", (1 << 63) - 1),
    ("double", "64 3ff8000000000000", 1.5),
    ("decimal", "44 02 0000013a", Decimal("3.14")),
    ("decimal-negative", "44 01 ffffffff", Decimal("-0.1")),
    ("decimal-zeros", "44 02 0000006e", Decimal("1.10")),
    ("decimal-least", "44 00 80000000", Decimal(-0x8000_0000)),
    ("decimal-scale", "44 ff 00000001", Decimal("1E-255")),
    ("str", "53 00000003 e282ac", "€"),
    ("str-empty", "53 00000000", ""),
    ("bytes", "78 00000002 00ff", b"\x00\xff"),
    ("timestamp", "54 000000006553f100", Timestamp(1_700_000_000)),
    ("timestamp-most", "54 ffffffffffffffff", Timestamp((1 << 64) - 1)),
    ("table", "46 00000007 016b 49 00000002", {"k": 2}),
    ("table-empty", "46 00000000", {}),
    ("list", "41 00000008 56 49 00000001 74 00", [None, 1, False]),
    ("list-empty", "41 00000000", []),
    ("void", "56", None),
]

DECODED_ONLY: list[tuple[str, str, object]] = [
    ("b", "62 80", -128),
    ("B", "42 80", 128),
    ("s", "73 8000", -0x8000),
    ("U", "55 8000", -0x8000),
    ("u", "75 8000", 0x8000),
    ("i", "69 80000000", 0x8000_0000),
    ("L", "4c ffffffffffffffff", -1),
    ("f", "66 3fc00000", 1.5),
    ("any-octet-but-0-is-true", "74 02", True),
    ("S-not-utf8", "53 00000002 c328", b"\xc3\x28"),
]


@pytest.mark.parametrize(
    ("value_hex", "value"),
    [
        ("62 80", Int8(-0x80)),
        ("42 ff", UInt8(0xFF)),
        ("73 8000", Int16(-0x8000)),
        ("75 ffff", UInt16(0xFFFF)),
        ("49 80000000", Int32(-0x8000_0000)),
        ("69 ffffffff", UInt32(0xFFFF_FFFF)),
        ("41 00000004 62 ff 42 ff", [Int8(-1), UInt8(0xFF)]),
        ("46 00000005 016b 73 0001", {"k": Int16(1)}),
    ],
)
def test_arguments_keep_the_types_of_integers(value_hex: str, value: object) -> None:
    """What is not of 64 bits has its own type, within lists and tables, too, and is written as that."""
    raw = _table("01 6e" + value_hex)
    table, end = decode_arguments(raw, 0)
    assert (end, table) == (len(raw), {"n": value})
    assert repr(_kinds(table["n"])) == repr(_kinds(value))
    assert _encode(table) == raw


def _kinds(value: object) -> object:
    if isinstance(value, list):
        return [_kinds(item) for item in value]
    return {key: _kinds(item) for key, item in value.items()} if isinstance(value, dict) else type(value)


def test_arguments_of_64_bits_are_plain() -> None:
    """Both tags of a long are Python's integers."""
    table, _ = decode_arguments(_table("01 61 6c 0000000000000005 01 62 4c 0000000000000005"), 0)
    assert [type(value) for value in table.values()] == [int, int]


@pytest.mark.parametrize(("value_hex", "value"), [row[1:] for row in BOTH_WAYS], ids=[row[0] for row in BOTH_WAYS])
def test_a_value_and_its_bytes_are_each_other(value_hex: str, value: object) -> None:
    """Each Python type has one tag, and comes back as it was, with its type."""
    raw = _table("01 61" + value_hex)
    assert _encode({"a": value}).hex(" ") == raw.hex(" ")
    back = _decode(raw)
    assert back == {"a": value}
    assert type(back["a"]) is type(value)
    assert str(back["a"]) == str(value)


@pytest.mark.parametrize(
    ("value_hex", "value"), [row[1:] for row in DECODED_ONLY], ids=[row[0] for row in DECODED_ONLY]
)
def test_types_that_are_only_read(value_hex: str, value: object) -> None:
    """Tags other clients send and we do not, with the signs RabbitMQ gives them."""
    back = _decode(_table("01 61" + value_hex))
    assert back == {"a": value}
    assert type(back["a"]) is type(value)


@pytest.mark.parametrize(
    ("value", "value_hex"),
    [
        (datetime(2023, 11, 14, 22, 13, 20, 999_999, tzinfo=UTC), "54 000000006553f100"),
        (datetime(2023, 11, 15, 0, 13, 20, tzinfo=timezone(timedelta(hours=2))), "54 000000006553f100"),
        ((1, "a"), "41 0000000b 49 00000001 53 00000001 61"),
        (Decimal("1E+3"), "44 00 000003e8"),
        (Decimal("-0"), "44 00 00000000"),
    ],
)
def test_types_that_are_only_written(value: object, value_hex: str) -> None:
    """Datetimes go as whole seconds, tuples as lists, decimals with a positive exponent as integers."""
    assert _encode({"a": value}).hex(" ") == _table("01 61" + value_hex).hex(" ")


def test_a_table_in_the_middle_of_a_payload() -> None:
    """Decoding starts at the length and says where the table ends; what follows is not looked at."""
    assert decode_table(b"\xff\xff" + _table("01 61 56") + b"\xff", 2) == ({"a": None}, 9)


def test_of_equal_keys_the_last_one_holds() -> None:
    """A table with a key twice is accepted, as RabbitMQ does."""
    assert _decode(_table("01 61 74 00 01 61 74 01")) == {"a": True}


def test_a_timestamp_is_a_value() -> None:
    """Equal by its seconds, usable as a key, and never equal to the number."""
    assert Timestamp(5) == Timestamp(5) != Timestamp(6)
    assert Timestamp(5) != 5
    assert len({Timestamp(5), Timestamp(5)}) == 1
    assert repr(Timestamp(5)) == "Timestamp(5)"


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        ("", "no room for its length"),
        ("000000", "no room for its length"),
        ("00000001", "claims 1 bytes, 0 are left"),
        ("ffffffff", "claims 4294967295 bytes"),
        ("80000000 00", "claims 2147483648 bytes"),
        ("00000001 00", "ends within an entry"),
        ("00000002 0561", "short string"),
        ("00000002 0161 56", "ends within an entry"),
        ("00000003 01ff 56", "not UTF-8"),
        ("00000003 0161 7a", "unknown type 0x7a"),
        ("00000003 0161 00", "unknown type 0x00"),
        ("00000006 0161 49 000000", "needs 4 bytes, 3 are left"),
        ("00000006 0161 49 000000 01", "needs 4 bytes, 3 are left"),
        ("00000003 0161 74 01", "needs 1 bytes, 0 are left"),
        ("00000007 0161 44 00 000000", "needs 5 bytes, 4 are left"),
        ("00000008 0161 53 7fffffff 61", "long string"),
        ("00000008 0161 78 ffffffff 61", "long string"),
        ("00000008 0161 53 00000002 61 61", "overruns the table or list around it"),
        ("00000007 0161 46 00000001 00", "table at byte 7 claims 1 bytes, 0 are left"),
        ("00000007 0161 41 00000001 56", "list at byte 7 claims 1 bytes, 0 are left"),
        ("00000005 0161 41 0000 0000", "list at byte 7 has no room for its length"),
        ("00000009 0161 41 00000002 49 00 000000", "needs 4 bytes, 1 are left"),
    ],
)
def test_a_malformed_table_is_a_syntax_fault(raw: str, complaint: str) -> None:
    """Lengths that lie, types nobody knows and entries cut short are told apart, and never believed."""
    with pytest.raises(SyntaxFault) as fault:
        decode_table(bytes.fromhex(raw), 0)
    assert complaint in fault.value.text


def test_a_value_must_not_reach_out_of_its_list() -> None:
    """A list ends where its length says, even when the bytes behind it would complete its last value."""
    inner = "41 00000003 49 0000"
    with pytest.raises(SyntaxFault, match="needs 4 bytes, 2 are left"):
        decode_table(_table("01 61" + inner + "0000 01 62 56"), 0)


def _nested(depth: int, tag: str, innermost: str = "") -> bytes:
    raw = bytes.fromhex(innermost)
    for _ in range(depth - 1):
        raw = bytes.fromhex(("01 61" if tag == "46" else "") + tag) + len(raw).to_bytes(4) + raw
    return _table(("01 61 41" + len(raw).to_bytes(4).hex() if tag == "41" else "") + raw.hex())


def test_tables_nest_up_to_the_limit_and_no_deeper() -> None:
    """The outermost table is the first level; one more than the limit is a syntax fault, however small."""
    table = _decode(_nested(TABLE_DEPTH_MAX, "46"))
    levels = 1
    while table:
        inner = table["a"]
        assert isinstance(inner, dict)
        table, levels = inner, levels + 1
    assert levels == TABLE_DEPTH_MAX
    with pytest.raises(SyntaxFault, match="nested deeper than 64"):
        decode_table(_nested(TABLE_DEPTH_MAX + 1, "46"), 0)


def test_lists_nest_no_deeper_either() -> None:
    """Lists count as levels: a million brackets cost their sender, not our stack."""
    with pytest.raises(SyntaxFault, match="nested deeper than 64"):
        decode_table(_nested(25_000, "41"), 0)


@pytest.mark.parametrize("value_hex", ["56", "46 00000000", "41 00000000", "53 00000000"])
def test_a_list_of_empty_values_is_bounded(value_hex: str) -> None:
    """Values of no width do not multiply: a list takes its limit of entries and not one more."""
    value = bytes.fromhex(value_hex)

    def flood(entries: int) -> bytes:
        return _table("01 61 41" + (len(value) * entries).to_bytes(4).hex() + (value * entries).hex())

    full = _decode(flood(TABLE_ENTRIES_MAX))["a"]
    assert isinstance(full, list)
    assert len(full) == TABLE_ENTRIES_MAX
    with pytest.raises(SyntaxFault, match="more than 4096 entries"):
        decode_table(flood(TABLE_ENTRIES_MAX + 1), 0)


def test_a_table_of_empty_entries_is_bounded() -> None:
    """Entries are counted, not keys: the same empty key over and over is a flood too."""
    assert _decode(_table("00 56" * TABLE_ENTRIES_MAX)) == {"": None}
    with pytest.raises(SyntaxFault, match="more than 4096 entries"):
        decode_table(_table("00 56" * (TABLE_ENTRIES_MAX + 1)), 0)


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1, 2},
        1j,
        bytearray(b"a"),
        date(2023, 11, 14),
        datetime(2023, 11, 14),  # noqa: DTZ001 - its missing zone is the point
        1 << 63,
        -(1 << 63) - 1,
        10**5000,
        Decimal("NaN"),
        Decimal("Infinity"),
        Decimal(1 << 31),
        Decimal("1E+10"),
        # Its digits would fill any memory.
        Decimal("1E+999999999999999"),
        Decimal("1E-256"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_no_table_can_hold_is_our_own_fault(value: object) -> None:
    """It is LocalProtocolError; the text names the key, at any depth, and lists what is accepted."""
    tables: list[Table] = [{"x-bad": value}, {"ok": {"x-bad": value}}, {"ok": [{"x-bad": [value]}]}]
    for table in tables:
        with pytest.raises(LocalProtocolError) as refusal:
            _encode(table)
        assert "'x-bad'" in str(refusal.value)
        assert "accepted are str, bytes, bool, int of 64 bits" in str(refusal.value)


@pytest.mark.parametrize("seconds", [-1, 1 << 64])
def test_a_timestamp_out_of_range_is_our_own_fault(seconds: int) -> None:
    """Timestamps are unsigned: 1969 has none."""
    with pytest.raises(LocalProtocolError, match="x-when is out of range"):
        _encode({"x-when": Timestamp(seconds)})


def test_a_datetime_before_1970_is_our_own_fault() -> None:
    """The same holds for a datetime."""
    with pytest.raises(LocalProtocolError, match="x-when is out of range"):
        _encode({"x-when": datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)})


def test_keys_that_no_table_can_have() -> None:
    """A key is a str of at most 255 bytes of UTF-8."""
    with pytest.raises(LocalProtocolError, match="1 is not a str"):
        _encode({1: "a"})  # type: ignore[dict-item]
    with pytest.raises(LocalProtocolError, match=r"table key 'kkkk.* has 256 bytes"):
        _encode({"k" * 256: 1})
    with pytest.raises(LocalProtocolError, match="surrogates"):
        _encode({"\udcff": 1})
    with pytest.raises(LocalProtocolError, match="x-text has lone surrogates"):
        _encode({"x-text": "\udcff"})


def test_what_is_written_is_bounded_as_what_is_read() -> None:
    """We send no table we would refuse, and a table within itself ends."""
    _encode({"a": [None] * TABLE_ENTRIES_MAX})
    with pytest.raises(LocalProtocolError, match="a has 4097 entries"):
        _encode({"a": [None] * (TABLE_ENTRIES_MAX + 1)})
    with pytest.raises(LocalProtocolError, match="table has 4097 entries"):
        _encode({str(i): None for i in range(TABLE_ENTRIES_MAX + 1)})
    deepest: object = 1
    for _ in range(TABLE_DEPTH_MAX - 1):
        deepest = {"a": deepest}
    assert _encode({"a": deepest}) == _nested(TABLE_DEPTH_MAX, "46", "01 61 49 00000001")
    with pytest.raises(LocalProtocolError, match="a is nested deeper than 64"):
        _encode({"a": [deepest]})
    knot: Table = {}
    knot["self"] = knot
    with pytest.raises(LocalProtocolError, match="self is nested deeper than 64"):
        _encode(knot)


def test_an_address_is_two_short_strings() -> None:
    """The exchange and the routing key, one behind the other, as they stand in basic.deliver."""
    assert encode_address("", "q").hex(" ") == "00 01 71"
    raw = encode_address("événements", "a.b")
    exchange, pos = pull_shortstr(raw, 0)
    assert (exchange, pull_shortstr(raw, pos)) == ("événements", ("a.b", len(raw)))
    with pytest.raises(LocalProtocolError, match="256 bytes"):
        encode_address("e", "k" * 256)


def test_short_strings_end_to_end() -> None:
    """Up to 255 bytes, a length octet before them."""
    assert encode_shortstr("") == b"\x00"
    assert pull_shortstr(encode_shortstr("k" * 255), 0) == ("k" * 255, 256)
    for raw in (b"", b"\x01", b"\x03ab"):
        with pytest.raises(SyntaxFault):
            pull_shortstr(raw, 0)
