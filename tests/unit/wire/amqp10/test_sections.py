"""Sections of messages: where they are, their order, what is in them, and what is refused."""

import pytest

from flintmq.base.errors import DecodeError, LocalProtocolError
from flintmq.wire.amqp10 import sections, spec
from flintmq.wire.amqp10.properties import Header, Properties
from flintmq.wire.amqp10.sections import ABSENT, scan
from flintmq.wire.amqp10.values import Symbol, ULong, Uuid

HEADER = "00 53 70 c0 02 01 41"
DELIVERY = "00 53 71 c1 01 00"
ANNOTATIONS = "00 53 72 c1 05 02 a3 01 61 41"
PROPERTIES = "00 53 73 c0 04 01 a1 01 69"
APPLICATION = "00 53 74 c1 05 02 a1 01 6b 41"
DATA = "00 53 75 a0 02 0102"
SEQUENCE = "00 53 76 c0 02 01 41"
VALUE = "00 53 77 a1 01 76"
FOOTER = "00 53 78 c1 01 00"


def _join(*parts: str) -> bytes:
    return b"".join(bytes.fromhex(part) for part in parts)


def test_each_section_is_found() -> None:
    """At the byte where it begins; what stands before and behind the bare message is told apart from it."""
    data = _join(HEADER, DELIVERY, ANNOTATIONS, PROPERTIES, APPLICATION, DATA, FOOTER)
    found = scan(data)
    starts = [
        found.header,
        found.delivery_annotations,
        found.message_annotations,
        found.properties,
        found.application_properties,
        found.body,
        found.footer,
    ]
    assert starts == [0, 7, 13, 23, 32, 42, 49]
    assert found.body_kind == spec.DATA
    assert found.before_body == 42
    assert data[found.bare : found.footer_or_end] == _join(PROPERTIES, APPLICATION, DATA)


def test_sections_may_be_missing() -> None:
    """All of them, or any; the bare message then begins with the next one."""
    found = scan(b"")
    assert (found.header, found.body, found.footer, found.bare, found.end) == (ABSENT, ABSENT, ABSENT, 0, 0)
    found = scan(_join(HEADER, VALUE))
    assert (found.header, found.properties, found.body, found.bare, found.before_body) == (0, ABSENT, 7, 7, 7)
    assert found.body_kind == spec.AMQP_VALUE
    head = _join(HEADER, APPLICATION)
    assert (scan(head).before_body, scan(head).bare) == (len(head), 7)
    assert scan(_join(HEADER)).bare == 7


@pytest.mark.parametrize(
    "parts",
    [
        (ANNOTATIONS, HEADER),
        (ANNOTATIONS, DELIVERY),
        (HEADER, HEADER),
        (PROPERTIES, ANNOTATIONS),
        (APPLICATION, PROPERTIES),
        (DATA, APPLICATION),
        (DATA, SEQUENCE),
        (DATA, VALUE),
        (SEQUENCE, DATA),
        (VALUE, VALUE),
        (FOOTER, DATA),
        (FOOTER, FOOTER),
    ],
)
def test_the_order_is_kept(parts: tuple[str, str]) -> None:
    """A section out of order, twice, or of another body is refused."""
    with pytest.raises(DecodeError, match="cannot follow"):
        scan(_join(*parts))


@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        ("40", "is not described"),
        ("00 53 6f 45", "the descriptor is unknown"),
        ("00 53 24 45", "the descriptor is unknown"),
        ("00 53 79 45", "the descriptor is unknown"),
        ("00 a3 01 78 45", "the descriptor is unknown"),
        ("00 53 75", "a value is missing"),
        ("00 53 75 a1 00", "amqp:data:binary at byte 0 has a value of another type"),
        ("00 53 70 c1 01 00", "amqp:header:list at byte 0 has a value of another type"),
        ("00 53 72 45", "amqp:message-annotations:map at byte 0 has a value of another type"),
        ("00 53 76 a0 00", "amqp:amqp-sequence:list at byte 0 has a value of another type"),
        ("00 53 75 a0 02 00", "needs 3 bytes, 2 are left"),
        ("00 53 75 b0 ffff", "no room for its length"),
        ("00 53 77 3f", "unknown format code 0x3f"),
    ],
)
def test_what_is_no_section_is_refused(encoded: str, text: str) -> None:
    """With a decode error that says where."""
    with pytest.raises(DecodeError, match=text):
        scan(bytes.fromhex(encoded))


def test_descriptors_of_sections_may_be_long() -> None:
    """A ulong of eight bytes, or the symbol."""
    name = b"amqp:amqp-value:*"
    data = _join(HEADER) + b"\x00\xa3" + bytes([len(name)]) + name + b"\x41"
    found = scan(data)
    assert sections.decode_amqp_value(data, found.body) is True
    data = bytes.fromhex("00 80 0000000000000075 a0 01 07")
    assert sections.decode_data(data, scan(data)) == [b"\x07"]


def test_bodies_are_read() -> None:
    """Several data or sequence sections in their order, and one value of any type."""
    data = _join(DATA, "00 53 75 a0 00", FOOTER)
    assert sections.decode_data(data, scan(data)) == [b"\x01\x02", b""]
    data = _join(SEQUENCE, "00 53 76 45")
    assert sections.decode_sequences(data, scan(data)) == [[True], []]
    data = _join("00 53 77 00 53 01 40")
    assert repr(sections.decode_amqp_value(data, 0)) == "Described(ULong(1), None)"


def test_a_header_has_defaults() -> None:
    """What is missing or null in it is as the specification says (amqp-1.0 part 3 §3.2.1)."""
    for encoded in ("00 53 70 45", "00 53 70 c0 01 00", "00 53 70 c0 06 05 4040404040"):
        header = sections.decode_header(bytes.fromhex(encoded), 0)
        assert header == Header(durable=False, priority=4, ttl=None, first_acquirer=False, delivery_count=0)
    header = sections.decode_header(bytes.fromhex("00 53 70 c0 09 05 41 50 09 52 05 41 52 03"), 0)
    assert header == Header(durable=True, priority=9, ttl=5, first_acquirer=True, delivery_count=3)
    with pytest.raises(DecodeError, match="header: 6 fields, the type has 5"):
        sections.decode_header(bytes.fromhex("00 53 70 c0 07 06 404040404040"), 0)


@pytest.mark.parametrize(
    ("header", "encoded"),
    [
        (Header(), ""),
        (Header(durable=True), "00 53 70 c0 02 01 41"),
        (Header(priority=9), "00 53 70 c0 04 02 42 50 09"),
        (Header(ttl=5), "00 53 70 c0 06 03 42 50 04 52 05"),
        (Header(first_acquirer=True), "00 53 70 c0 06 04 42 50 04 40 41"),
        (Header(True, 0, 0, False, 256), "00 53 70 c0 0b 05 41 50 00 43 42 70 00000100"),
    ],
)
def test_a_header_is_written_up_to_its_last_field(header: Header, encoded: str) -> None:
    """One that says nothing is left out."""
    raw = sections.encode_header(
        header.durable, header.priority, header.ttl, header.first_acquirer, header.delivery_count
    )
    expected = bytearray(bytes.fromhex(encoded))
    if expected:
        expected[4] = len(expected) - 5
    assert raw.hex() == expected.hex()
    if raw:
        assert sections.decode_header(raw, 0) == header


def test_annotations_have_symbols_and_ulongs_as_keys() -> None:
    """Symbols are str and ulongs are int; any other key is refused, and so is one that comes twice."""
    raw = sections.encode_message_annotations({"x-opt-a": Symbol("v"), 7: ULong(1)})
    assert raw.hex() == "005372c11104" + "a307782d6f70742d61a30176" + "53075301"
    assert sections.decode_message_annotations(raw, 0) == {"x-opt-a": Symbol("v"), 7: ULong(1)}
    with pytest.raises(DecodeError, match="string before byte"):
        sections.decode_message_annotations(bytes.fromhex("00 53 72 c1 05 02 a1 01 61 41"), 0)
    with pytest.raises(DecodeError, match="has the key 'a' twice"):
        sections.decode_message_annotations(bytes.fromhex("00 53 72 c1 09 04 a3 01 61 41 a3 01 61 41"), 0)


def test_application_properties_have_strings_as_keys() -> None:
    """A symbol is refused."""
    raw = sections.encode_application_properties({"k": 1})
    assert raw.hex() == "005374c10602a1016b5501"
    assert sections.decode_application_properties(raw, 0) == {"k": 1}
    with pytest.raises(DecodeError, match="symbol before byte"):
        sections.decode_application_properties(bytes.fromhex("00 53 74 c1 05 02 a3 01 61 41"), 0)


def test_properties_are_read() -> None:
    """A message-id in each of its four types, and no other."""
    for id_ in (ULong(1), Uuid(bytes(16)), b"id", "id"):
        properties = Properties(message_id=id_, content_type="text/plain", creation_time=-1, group_sequence=3)
        assert sections.decode_properties(sections.encode_properties(properties), 0) == properties
    with pytest.raises(DecodeError, match="properties message-id is neither"):
        sections.decode_properties(bytes.fromhex("00 53 73 c0 02 01 41"), 0)


def test_a_section_is_not_taken_for_another() -> None:
    """Who asks for the wrong place is told what is there."""
    with pytest.raises(DecodeError, match="amqp:data:binary is at byte 0, not amqp:header:list"):
        sections.decode_header(_join(DATA), 0)


def test_what_does_not_fit_a_section_is_refused() -> None:
    """As a fault of our own side."""
    with pytest.raises(LocalProtocolError, match="header priority is out of range"):
        sections.encode_header(False, 256, None, False, 0)
