"""Laws of the AMQP 0-9-1 codec: what is written reads back, and no input does anything but parse or be refused."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from flintmq.base.errors import NotImplementedHere, SyntaxFault
from flintmq.base.values import Timestamp
from flintmq.wire.amqp091.method_codec import decode_method, encode_method
from flintmq.wire.amqp091.methods import METHODS, Method
from flintmq.wire.amqp091.properties import (
    Properties,
    add_header,
    decode_properties,
    encode_properties,
    headers,
    scan,
)
from flintmq.wire.amqp091.spec import METHOD_TABLE, RESERVED, MethodRow
from flintmq.wire.amqp091.tables import Table, decode_table, encode_table


def _fits_shortstr(text: str) -> bool:
    return len(text.encode()) <= 255


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
shortstrs = st.one_of(texts, st.text(st.characters(exclude_categories=["Cs"]), max_size=255)).filter(_fits_shortstr)
decimals = st.builds(
    lambda unscaled, scale: Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale)),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.integers(0, 255),
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(allow_nan=False),
    texts,
    st.binary(max_size=40),
    decimals,
    st.builds(Timestamp, st.integers(0, (1 << 64) - 1)),
)
values: st.SearchStrategy[object] = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(shortstrs, inner, max_size=5)),
    max_leaves=20,
)
tables: st.SearchStrategy[Table] = st.dictionaries(shortstrs, values, max_size=6)
ARGUMENTS: dict[str, st.SearchStrategy[object]] = {
    "bit": st.booleans(),
    "octet": st.integers(0, 0xFF),
    "short": st.integers(0, 0xFFFF),
    "long": st.integers(0, 0xFFFF_FFFF),
    "longlong": st.integers(0, (1 << 64) - 1),
    "shortstr": shortstrs,
    "longstr": st.binary(max_size=300),
    "table": tables,
}


def _methods_of(row: MethodRow) -> st.SearchStrategy[Method]:
    kinds = {argument.name: argument.kind for argument in row.arguments if argument.name != RESERVED}
    return st.builds(METHODS[row.number], **{name: ARGUMENTS[kind] for name, kind in kinds.items()})


methods = st.sampled_from(METHOD_TABLE).flatmap(_methods_of)


def _or_absent(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.one_of(st.none(), strategy)


OF_PROPERTY = {
    "headers": tables,
    "delivery_mode": ARGUMENTS["octet"],
    "priority": ARGUMENTS["octet"],
    "timestamp": ARGUMENTS["longlong"],
}
properties = st.builds(
    Properties,
    **{field.name: _or_absent(OF_PROPERTY.get(field.name, shortstrs)) for field in fields(Properties)},
)


def _encode_table(table: Table) -> bytes:
    w = BytesWriter()
    encode_table(w, table)
    return w.getvalue()


def _same(one: object, other: object) -> bool:
    """Equality that tells 1, 1.0, True and Decimal(1) apart, 1.0 from 1.00, and 0.0 from -0.0."""
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and one == other and str(one) == str(other)


@given(tables)
def test_a_table_reads_back_as_it_was_written(table: Table) -> None:
    """With the same types, in the same order, and to the last byte."""
    raw = _encode_table(table)
    back, end = decode_table(raw, 0)
    assert end == len(raw)
    assert _same(_without_negative_zeros(table), back)


def _without_negative_zeros(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_negative_zeros(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_negative_zeros(item) for item in value]
    return abs(value) if isinstance(value, Decimal) and not value else value


@given(methods)
def test_a_method_reads_back_as_it_was_written(method: Method) -> None:
    """For every method and any arguments that fit."""
    assert decode_method(encode_method(method)) == method


@given(properties)
def test_properties_read_back_as_they_were_written(p: Properties) -> None:
    """And the functions that read only one of them agree with full decoding."""
    data = encode_properties(p)
    assert decode_properties(data) == p
    assert scan(data).delivery_mode == (p.delivery_mode or 0)
    assert headers(data) == (p.headers or {})


@given(properties, shortstrs, values)
def test_adding_a_header_adds_nothing_else(p: Properties, key: str, value: object) -> None:
    """Decoded, the properties are the same but for the one header."""
    changed = decode_properties(add_header(encode_properties(p), key, value))
    p.headers = {**(p.headers or {}), key: value}
    assert changed == p


@given(st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)))  # noqa: DTZ001
def test_a_datetime_becomes_its_whole_seconds(moment: datetime) -> None:
    """Fractions are cut off, never rounded into the next second."""
    table, _ = decode_table(_encode_table({"t": moment}), 0)
    stamp = table["t"]
    assert isinstance(stamp, Timestamp)
    assert stamp.seconds == int(moment.replace(microsecond=0).timestamp())


def _read_table(data: bytes) -> Table:
    table, end = decode_table(data, 0)
    assert 4 <= end <= len(data)
    return table


def _add_header(data: bytes) -> Table:
    return headers(add_header(data, "o", 5))


READERS: list[Callable[[bytes], object]] = [
    _read_table,
    decode_method,
    decode_properties,
    headers,
    _add_header,
]
valid = st.one_of(
    tables.map(_encode_table),
    methods.map(encode_method),
    properties.map(encode_properties),
)


def _read(reader: Callable[[bytes], object], data: bytes) -> None:
    """Parse it or refuse it: any other error fails the test."""
    with suppress(SyntaxFault, NotImplementedHere):
        reader(data)


@pytest.mark.parametrize("reader", READERS)
@given(data=st.binary(max_size=200))
@example(data=b"\xff" * 200)
@example(data=b"\x00\x01" * 100)
@example(data=b"\x20\x00" + b"\x7f" * 100)
def test_any_bytes_parse_or_are_refused(reader: Callable[[bytes], object], data: bytes) -> None:
    """The only outcomes are a value and a typed fault with a text."""
    _read(reader, data)


@given(data=valid, place=st.integers(0), octet=st.integers(0, 255))
def test_one_wrong_octet_parses_or_is_refused(data: bytes, place: int, octet: int) -> None:
    """Damage within otherwise valid input gets deeper than noise does."""
    place %= len(data)
    damaged = data[:place] + bytes([octet]) + data[place + 1 :]
    for reader in READERS:
        _read(reader, damaged)


@given(p=properties, place=st.integers(0), octet=st.integers(0, 255))
@example(p=Properties(headers={"k": [[1], {"k": b"\x80"}]}), place=0, octet=0x20)
def test_checking_properties_agrees_with_decoding_them(p: Properties, place: int, octet: int) -> None:
    """What is taken without being decoded can be decoded, and what can be decoded is taken."""
    data = encode_properties(p)
    place %= len(data)
    for suspect in (data, data[:place] + bytes([octet]) + data[place + 1 :]):
        assert _refused(scan, suspect) == _refused(decode_properties, suspect)


def _refused(reader: Callable[[bytes], object], data: bytes) -> bool:
    try:
        reader(data)
    except SyntaxFault:
        return True
    return False


@given(data=valid)
def test_every_prefix_parses_or_is_refused(data: bytes) -> None:
    """Input may end anywhere."""
    for end in range(len(data)):
        for reader in READERS:
            _read(reader, data[:end])


@given(table=tables)
def test_no_prefix_of_a_table_is_a_table(table: Table) -> None:
    """A table whose end is missing is never taken for a shorter one."""
    raw = _encode_table(table)
    for end in range(len(raw)):
        with pytest.raises(SyntaxFault):
            decode_table(raw[:end], 0)


@given(data=st.binary(max_size=120))
def test_a_table_that_parses_survives_a_round_trip(data: bytes) -> None:
    """Whatever the tags it came with, what we read can be written, and reads the same."""
    try:
        table, _ = decode_table(len(data).to_bytes(4) + data, 0)
    except SyntaxFault:
        return
    back, _ = decode_table(_encode_table(table), 0)
    assert repr(back) == repr(table)
