"""Laws of the AMQP 1.0 codec: what is written reads back, and no input does anything but parse or be refused."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from flintmq.base.errors import DecodeError, FramingError
from flintmq.wire.amqp10 import sections, spec
from flintmq.wire.amqp10.composite import LAYOUTS, Composite
from flintmq.wire.amqp10.composite_reader import decode_composite
from flintmq.wire.amqp10.frames import (
    FRAME_AMQP,
    decode_body,
    decode_sasl_body,
    frame_body,
    frame_channel,
    frame_size,
    write_body,
)
from flintmq.wire.amqp10.performatives import Performative, SaslPerformative, Transfer
from flintmq.wire.amqp10.reader import as_key
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
from tests.amqp10_wire import decode_value, write_frame

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
UINT = st.one_of(st.integers(0, 300), st.integers(0, (1 << 32) - 1))
ULONG = st.one_of(st.integers(0, 300), st.integers(0, (1 << 64) - 1))
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
names = st.text(st.characters(max_codepoint=127), max_size=20)
codepoints = st.one_of(st.integers(0, 0xD7FF), st.integers(0xE000, 0x10FFFF))
# By the type of AMQP: what has an encoding that says all of it.
SIMPLE: dict[str, st.SearchStrategy[object]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "ubyte": st.integers(0, 255).map(UByte),
    "ushort": st.integers(0, 0xFFFF).map(UShort),
    "uint": UINT.map(UInt),
    "ulong": ULONG.map(ULong),
    "byte": st.integers(-128, 127).map(Byte),
    "short": st.integers(-0x8000, 0x7FFF).map(Short),
    "int": st.one_of(st.integers(-200, 200), st.integers(-(1 << 31), (1 << 31) - 1)).map(Int),
    "long": st.one_of(st.integers(-200, 200), INT64),
    "float": st.binary(min_size=4, max_size=4).map(Float32),
    "double": st.floats(allow_nan=False),
    "decimal32": st.binary(min_size=4, max_size=4).map(Decimal32),
    "decimal64": st.binary(min_size=8, max_size=8).map(Decimal64),
    "decimal128": st.binary(min_size=16, max_size=16).map(Decimal128),
    "char": codepoints.map(Char),
    "timestamp": INT64.map(TimestampMs),
    "uuid": st.binary(min_size=16, max_size=16).map(Uuid),
    "binary": st.one_of(st.binary(max_size=40), st.binary(min_size=250, max_size=260)),
    "string": texts,
    "symbol": names.map(Symbol),
}
simple = st.one_of(*SIMPLE.values())
descriptors = st.one_of(SIMPLE["ulong"], SIMPLE["symbol"])


def _arrays(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    kinds = SIMPLE | {
        "list": st.lists(inner, max_size=3),
        "map": _maps(inner),
        "array": st.lists(UINT.map(UInt), max_size=3).map(lambda items: Array("uint", list(items))),
    }
    shared = st.lists(descriptors, max_size=2)
    return st.sampled_from(sorted(kinds)).flatmap(
        lambda kind: st.builds(Array, st.just(kind), st.lists(kinds[kind], max_size=5), shared)
    )


def _maps(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.dictionaries(inner.map(as_key), inner, max_size=4)


values: st.SearchStrategy[object] = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5), _maps(inner), _arrays(inner), st.builds(Described, descriptors, inner)
    ),
    max_leaves=15,
)
fields = st.dictionaries(names, values, max_size=3)
annotations = st.dictionaries(st.one_of(names, ULONG), values, max_size=4)
optional = st.none()


def _composites(code: int) -> st.SearchStrategy[Composite]:
    """A value of the type, some fields set and some not."""
    layout = LAYOUTS[code]
    kinds = next(row for number, _, row in spec.COMPOSITES if number == code).split()
    choices = {
        attribute: OF_KIND[field.partition(":")[2].rstrip("!")]
        if field.endswith("!")
        else st.one_of(st.just(layout.defaults[i]), OF_KIND[field.partition(":")[2]])
        for i, (attribute, field) in enumerate(zip(layout.attributes, kinds, strict=True))
    }
    return st.fixed_dictionaries(choices).map(lambda chosen: _made(code, chosen))


def _made(code: int, chosen: dict[str, object]) -> Composite:
    value = LAYOUTS[code].make()
    for attribute, each in chosen.items():
        setattr(value, attribute, each)
    return value


OF_KIND: dict[str, st.SearchStrategy[object]] = {
    "boolean": st.booleans(),
    "ubyte": st.integers(0, 255),
    "ushort": st.integers(0, 0xFFFF),
    "uint": UINT,
    "ulong": ULONG,
    "timestamp": INT64,
    "string": texts,
    "symbol": names,
    "binary": st.binary(max_size=40),
    "symbols": st.lists(names, max_size=3),
    "fields": fields,
    "annotations": annotations,
    "message-id": st.one_of(SIMPLE["ulong"], SIMPLE["uuid"], SIMPLE["binary"], SIMPLE["string"]),
    "any": values,
}
OF_KIND["error"] = _composites(spec.ERROR)
OF_KIND["outcome"] = st.one_of(
    *(_composites(code) for code in (spec.ACCEPTED, spec.REJECTED, spec.RELEASED, spec.MODIFIED, spec.DECLARED))
)
OF_KIND["state"] = st.one_of(OF_KIND["outcome"], _composites(spec.RECEIVED), _composites(spec.TRANSACTIONAL_STATE))
OF_KIND["unsettled"] = st.dictionaries(st.binary(max_size=8), st.one_of(st.none(), OF_KIND["state"]), max_size=3)
OF_KIND["source"] = _composites(spec.SOURCE)
OF_KIND["target"] = st.one_of(_composites(spec.TARGET), _composites(spec.COORDINATOR))
composites = st.sampled_from(sorted(LAYOUTS)).flatmap(_composites)
performatives = st.sampled_from(range(spec.OPEN, spec.CLOSE + 1)).flatmap(_composites)


def _body(value: Composite) -> bytes:
    w = BytesWriter()
    write_body(w, value)
    return w.getvalue()


def _same(one: object, other: object) -> bool:
    """Equality that tells 1, 1.0 and True apart, and 0.0 from -0.0, and looks at the order of maps."""
    return repr(one) == repr(other)


@given(values)
def test_a_value_reads_back_as_it_was_written(value: object) -> None:
    """With the same types, in the same order, and to the last byte."""
    raw = encode_value(value)
    assert _same(decode_value(raw), value)
    assert skip_value(raw, 0, len(raw)) == len(raw)


@given(composites)
def test_a_composite_reads_back_as_it_was_written(value: Composite) -> None:
    """For every type and any fields, in the general form."""
    raw = encode_value(value)
    back, end = decode_composite(raw, 0, len(raw))
    assert back == value
    assert end == len(raw)


@given(performatives, st.binary(max_size=20), st.integers(0, 0xFFFF))
def test_a_frame_reads_back_as_it_was_written(body: Composite, payload: bytes, channel: int) -> None:
    """What has its own short routines reads as what the general ones write, and the other way round."""
    assert isinstance(body, Performative)
    w = BytesWriter()
    write_frame(w, channel, body, payload if isinstance(body, Transfer) else b"")
    frame = w.getvalue()
    assert frame_size(frame, 0) == len(frame)
    assert frame_channel(frame, 0) == channel
    back, at = decode_body(frame, frame_body(frame, 0, len(frame), FRAME_AMQP), len(frame))
    assert back == body
    assert frame[at:] == (payload if isinstance(body, Transfer) else b"")
    general = encode_value(body)
    assert decode_body(general, 0, len(general))[0] == body
    assert decode_composite(_body(body), 0, len(_body(body)))[0] == body


@given(annotations, fields, st.dictionaries(texts, simple, max_size=4), _composites(spec.PROPERTIES))
def test_sections_read_back_as_they_were_written(
    about_message: dict[str | int, object], footer: dict[str | int, object], user: dict[str, object], bare: Composite
) -> None:
    """Each at the place the scan found, and nothing of the rest with it."""
    header = sections.encode_header(True, 9, 5, True, 3)
    parts = [
        header,
        sections.encode_delivery_annotations({"d": 1}),
        sections.encode_message_annotations(about_message),
        encode_value(bare),
        sections.encode_application_properties(user),
        sections.encode_data(b"one"),
        sections.encode_data(b"two"),
        sections.encode_footer(footer),
    ]
    data = b"".join(parts)
    found = sections.scan(data)
    places = [found.header, found.delivery_annotations, found.message_annotations, found.properties]
    places += [found.application_properties, found.body]
    assert places == [len(b"".join(parts[:i])) for i in range(6)]
    assert sections.decode_header(data, found.header).delivery_count == 3
    assert sections.decode_delivery_annotations(data, found.delivery_annotations) == {"d": 1}
    assert _same(sections.decode_message_annotations(data, found.message_annotations), about_message)
    assert sections.decode_properties(data, found.properties) == bare
    assert _same(sections.decode_application_properties(data, found.application_properties), user)
    assert sections.decode_data(data, found) == [b"one", b"two"]
    assert _same(sections.decode_footer(data, found.footer), footer)
    assert data[found.bare : found.footer_or_end] == b"".join(parts[3:7])


def _whole(data: bytes) -> object:
    return decode_composite(data, 0, len(data))


def _frame(data: bytes) -> object:
    return decode_body(data, 0, len(data))


def _sasl(data: bytes) -> SaslPerformative:
    return decode_sasl_body(data, 0, len(data))


def _message(data: bytes) -> object:
    found = sections.scan(data)
    read: list[object] = []
    for pos, decode in (
        (found.header, sections.decode_header),
        (found.delivery_annotations, sections.decode_delivery_annotations),
        (found.message_annotations, sections.decode_message_annotations),
        (found.properties, sections.decode_properties),
        (found.application_properties, sections.decode_application_properties),
        (found.footer, sections.decode_footer),
    ):
        if pos != sections.ABSENT:
            with suppress(DecodeError):
                read.append(decode(data, pos))
    if found.body_kind == spec.DATA:
        read.append(sections.decode_data(data, found))
    elif found.body_kind == spec.AMQP_SEQUENCE:
        read.append(sections.decode_sequences(data, found))
    elif found.body_kind == spec.AMQP_VALUE:
        read.append(sections.decode_amqp_value(data, found.body))
    return read


READERS: list[Callable[[bytes], object]] = [decode_value, _whole, _frame, _sasl, _message]
bodies = st.one_of(
    simple.map(sections.encode_amqp_value),
    st.lists(values, max_size=3).map(sections.encode_sequence),
    st.binary(max_size=20).map(sections.encode_data),
)
messages = st.tuples(
    _composites(spec.HEADER).map(encode_value),
    annotations.map(sections.encode_message_annotations),
    _composites(spec.PROPERTIES).map(encode_value),
    st.dictionaries(texts, simple, max_size=3).map(sections.encode_application_properties),
    bodies,
).map(b"".join)
valid = st.one_of(values.map(encode_value), composites.map(encode_value), performatives.map(_body), messages)


def _read(reader: Callable[[bytes], object], data: bytes) -> None:
    """Parse it or refuse it: any other error fails the test."""
    with suppress(DecodeError, FramingError):
        reader(data)


@pytest.mark.parametrize("reader", READERS)
@given(data=st.binary(max_size=200))
@example(data=b"\x00" * 200)
@example(data=b"\x00\x53\x14\xd0\xff\xff\xff\xff\xff\xff\xff\xff")
@example(data=b"\xf0\xff\xff\xff\xff\xff\xff\xff\xff\x45")
@example(data=b"\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x45")
@example(data=b"\x00\x53\x24" * 60)
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


@given(data=valid)
def test_every_prefix_parses_or_is_refused(data: bytes) -> None:
    """Input may end anywhere."""
    for end in range(len(data)):
        for reader in READERS:
            _read(reader, data[:end])


@given(value=values)
def test_no_prefix_of_a_value_is_a_value(value: object) -> None:
    """A value whose end is missing is never taken for a shorter one."""
    raw = encode_value(value)
    for end in range(len(raw)):
        with pytest.raises(DecodeError):
            decode_value(raw[:end])
        with pytest.raises(DecodeError):
            skip_value(raw, 0, end)


@given(data=st.binary(max_size=120))
def test_a_value_that_parses_survives_a_round_trip(data: bytes) -> None:
    """Whatever form it came in, what we read can be written, and reads the same."""
    try:
        value = decode_value(data)
    except DecodeError:
        return
    assert _same(decode_value(encode_value(value)), value)
