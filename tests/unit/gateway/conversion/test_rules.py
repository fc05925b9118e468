"""The rules of docs/conversions.md, one by one, each in its direction; what goes along is another test's."""

from decimal import Decimal

import pytest

from flintmq.base.limits import DATA_SECTIONS_MAX
from flintmq.base.values import Timestamp
from flintmq.gateway.conversion import from_amqp10, lossless, names, to_amqp10
from flintmq.gateway.conversion.decimals import from_ieee, to_decimal64, to_scaled
from flintmq.gateway.conversion.parts import (
    HeaderFields,
    Sections,
    read_annotations,
    read_application,
    read_header,
    read_properties,
    split,
    split_body,
    write_annotations,
    write_application,
    write_header,
    write_properties,
)
from flintmq.wire.amqp091.properties import Properties, decode_properties, encode_properties
from flintmq.wire.amqp10.properties import Properties as Properties10
from flintmq.wire.amqp10.sections import encode_amqp_value, encode_data, encode_footer, encode_sequence
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

UUID = Uuid(bytes(range(16)))
URN = "urn:uuid:00010203-0405-0607-0809-0a0b0c0d0e0f"
EMPTY = encode_data(b"")


def to_091(
    header: HeaderFields | None = None,
    annotations: dict[str | int, object] | None = None,
    properties: Properties10 | None = None,
    application: dict[str, object] | None = None,
    body: bytes = EMPTY,
) -> tuple[Properties, bytes]:
    sections = Sections(
        write_header(header or HeaderFields()),
        write_annotations(annotations or {}),
        write_properties(properties or Properties10()),
        write_application(application or {}),
    )
    encoded, content = from_amqp10.convert(sections, body)
    return decode_properties(encoded), content


def to_10(properties: Properties, body: bytes = b"") -> tuple[Sections, bytes]:
    return to_amqp10.convert(encode_properties(properties), body)


# What is the same both ways: of 1.0, of 0-9-1.
PROPERTIES = [
    (Properties10(message_id="m"), Properties(message_id="m")),
    (Properties10(message_id=UUID), Properties(message_id=URN)),
    (Properties10(correlation_id=UUID), Properties(correlation_id=URN)),
    (Properties10(user_id=b"guest"), Properties(user_id="guest")),
    (Properties10(reply_to="/queues/a%2Fb%20%C3%A4"), Properties(reply_to="a/b ä")),
    (Properties10(content_type="text/plain"), Properties(content_type="text/plain")),
    (Properties10(content_encoding="gzip"), Properties(content_encoding="gzip")),
    (Properties10(creation_time=1_700_000_000_000), Properties(timestamp=1_700_000_000)),
    (Properties10(group_id="g"), Properties(app_id="g")),
]
HEADERS = [
    (HeaderFields(durable=True), Properties(delivery_mode=2)),
    (HeaderFields(durable=False), Properties(delivery_mode=1)),
    (HeaderFields(priority=9), Properties(priority=9)),
    (HeaderFields(ttl=60_000), Properties(expiration="60000")),
]


@pytest.mark.parametrize(("of_10", "of_091"), PROPERTIES)
def test_properties(of_10: Properties10, of_091: Properties) -> None:
    """Both ways."""
    assert to_091(properties=of_10)[0] == of_091
    assert read_properties(to_10(of_091)[0].properties) == of_10


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("identity", None),
        ("Identity", None),
        ("gzip, identity", "gzip"),
        ("identity,gzip,deflate", "gzip,deflate"),
        ("identity, identity", None),
        ("identityx", "identityx"),
        ("gzip , deflate", "gzip , deflate"),
        ("", ""),
    ],
)
def test_no_encoding_is_not_called_one(said: str, left: str | None) -> None:
    """1.0 has no word for it but to leave the field out (part 3 §3.2.4); on the way back it is there again."""
    encoded = encode_properties(Properties(content_encoding=said))
    head, body = lossless.to_10(encoded, b"m")
    assert read_properties(split(head).properties).content_encoding == left
    assert lossless.to_091(head, body) == (encoded, b"m")


@pytest.mark.parametrize("body", [encode_amqp_value("m"), encode_sequence([1, 2])])
def test_a_value_has_no_content_encoding(body: bytes) -> None:
    """It is for data alone (part 3 §3.2.4); on the way back it is there again."""
    encoded = encode_properties(Properties(type=names.ENCODED_TYPE, content_encoding="gzip"))
    head, content = lossless.to_10(encoded, body)
    assert content == body
    assert read_properties(split(head).properties).content_encoding is None
    assert lossless.to_091(head, content) == (encoded, body)


@pytest.mark.parametrize(("of_10", "of_091"), HEADERS)
def test_the_header(of_10: HeaderFields, of_091: Properties) -> None:
    """Both ways."""
    assert to_091(header=of_10)[0] == of_091
    assert vars_of(read_header(to_10(of_091)[0].header)) == vars_of(of_10)


def vars_of(header: HeaderFields) -> list[object]:
    return [header.durable, header.priority, header.ttl, header.first_acquirer, header.delivery_count]


@pytest.mark.parametrize(
    ("of_10", "of_091"),
    [
        (Properties10(message_id=ULong(7)), Properties(message_id="7")),
        (Properties10(message_id=b"\x00"), Properties(headers={"x-message-id": b"\x00"})),
        (Properties10(correlation_id="c" * 256), Properties(headers={"x-correlation-id": "c" * 256})),
        (Properties10(user_id=b"\xff"), Properties()),
        (Properties10(reply_to="/exchanges/x/k"), Properties(reply_to="/exchanges/x/k")),
        (Properties10(reply_to="/queues/%ff"), Properties()),
        (Properties10(creation_time=1_999), Properties(timestamp=1)),
        (Properties10(creation_time=-1), Properties()),
        (Properties10(group_id="g" * 256), Properties()),
        (
            Properties10(to="t", subject="s", absolute_expiry_time=1, group_sequence=1, reply_to_group_id="r"),
            Properties(),
        ),
    ],
)
def test_properties_that_0_9_1_has_less_room_for(of_10: Properties10, of_091: Properties) -> None:
    """They become what is nearest, or nothing."""
    assert to_091(properties=of_10)[0] == of_091


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"x-basic-type": "t"}, Properties(type="t")),
        ({"x-basic-delivery-mode": UByte(2)}, Properties(delivery_mode=2)),
        ({"x-basic-delivery-mode": UByte(0)}, Properties()),
        ({"x-basic-priority": UByte(3)}, Properties(priority=3)),
        ({"x-basic-expiration": "5"}, Properties(expiration="5")),
        ({"x-cc": ["a"]}, Properties(headers={"CC": ["a"]})),
        ({"x-opt-rabbitmq-received-time": TimestampMs(5)}, Properties(headers={"timestamp_in_ms": 5})),
        ({"x-foo": Symbol("bar")}, Properties(headers={"x-foo": "bar"})),
        ({"x-opt-foo": True}, Properties(headers={"x-opt-foo": True})),
        ({"foo": 1, 7: 1}, Properties()),
        ({"x-exchange": "e", "x-routing-key": "k", "x-death": []}, Properties()),
        ({"x-opt-headers": {"l": [1]}}, Properties(headers={"l": [1]})),
        ({"x-amqp-1.0-properties": b"\x00"}, Properties()),
    ],
)
def test_annotations(annotations: dict[str | int, object], expected: Properties) -> None:
    """Those that begin with x- are headers, but for the ones that say what has a place of its own."""
    assert to_091(annotations=annotations)[0] == expected


@pytest.mark.parametrize(
    ("value", "header"),
    [
        (None, None),
        (True, True),
        (UByte(200), 200),
        (UShort(60_000), 60_000),
        (UInt(2**32 - 1), 2**32 - 1),
        (ULong(2**63 - 1), 2**63 - 1),
        (ULong(2**63), str(2**63)),
        (Byte(-1), -1),
        (Short(-1), -1),
        (Int(-1), -1),
        (-1, -1),
        (Float32(b"\x3f\x00\x00\x00"), 0.5),
        (0.5, 0.5),
        (to_decimal64(-125, 2), Decimal("-1.25")),
        (Decimal32(bytes.fromhex("32800001")), Decimal(1)),
        (Char(0x1F44D), "👍"),
        (TimestampMs(1_999), Timestamp(1)),
        (UUID, URN),
        (b"text", "text"),
        (b"\xff", b"\xff"),
        ("text", "text"),
        (Symbol("s"), "s"),
        ([1, "a"], [1, "a"]),
        (Array("uint", [UInt(1)]), [1]),
        ({"k": 1, Symbol("s"): 2, 7: 3}, {"k": 1, "s": 2}),
    ],
)
def test_values_towards_0_9_1(value: object, header: object) -> None:
    """As application-properties."""
    headers = to_091(application={"h": value})[0].headers
    assert headers == {"h": header}
    assert type(headers["h"]) is type(header)


@pytest.mark.parametrize("value", [Described(ULong(1), 1), TimestampMs(-1), Decimal64(b"\x78" + bytes(7))])
def test_values_that_0_9_1_has_nothing_like(value: object) -> None:
    """No header stands for them."""
    assert to_091(application={"h": value})[0].headers is None


RAW = [
    (b"t\x01", True),
    (b"b\xff", Byte(-1)),
    (b"B\xff", UByte(255)),
    (b"s\xff\xff", Short(-1)),
    (b"U\xff\xff", Short(-1)),
    (b"u\xff\xff", UShort(0xFFFF)),
    (b"I\xff\xff\xff\xff", Int(-1)),
    (b"i\xff\xff\xff\xff", UInt(0xFFFFFFFF)),
    (b"l\xff\xff\xff\xff\xff\xff\xff\xff", -1),
    (b"L\xff\xff\xff\xff\xff\xff\xff\xff", -1),
    (b"f\x3f\x00\x00\x00", Float32(b"\x3f\x00\x00\x00")),
    (b"d\x3f\xe0\x00\x00\x00\x00\x00\x00", 0.5),
    (b"D\x02\x00\x00\x00\x7d", to_decimal64(125, 2)),
    (b"S\x00\x00\x00\x01a", "a"),
    (b"S\x00\x00\x00\x01\x00", b"\x00"),
    (b"S\x00\x00\x00\x01\xff", b"\xff"),
    (b"x\x00\x00\x00\x01a", b"a"),
    (b"T\x00\x00\x00\x00\x00\x00\x00\x05", TimestampMs(5000)),
    (b"V", None),
]


@pytest.mark.parametrize(("raw", "value"), RAW)
def test_values_towards_1_0(raw: bytes, value: object) -> None:
    """Each tag has its type."""
    entry = b"\x01h" + raw
    sections, _ = to_amqp10.convert(b"\x20\x00" + len(entry).to_bytes(4, "big") + entry, b"")
    application = read_application(sections.application)
    assert application == {"h": value}
    assert type(application["h"]) is type(value)


def test_long_text_is_taken_for_binary() -> None:
    """RabbitMQ looks at 4,096 bytes and no further."""
    sections, _ = to_10(Properties(headers={"short": "a" * 4096, "long": "a" * 4097}))
    assert read_application(sections.application) == {"short": "a" * 4096, "long": b"a" * 4097}


def test_headers_towards_1_0() -> None:
    """x- headers are annotations, others are application-properties unless they are lists or tables."""
    headers = {"a": 1, "x-b": [1, {"k": True}], "CC": ["k"], "l": [1], "t": {"k": "v"}, "x-ä": 1}
    sections, _ = to_10(Properties(headers=headers, type="order"))
    assert read_application(sections.application) == {"a": Int(1), "x-ä": Int(1)}
    assert read_annotations(sections.annotations) == {
        "x-b": [Int(1), {Symbol("k"): True}],
        "x-cc": ["k"],
        "x-opt-headers": {"l": [Int(1)], "t": {Symbol("k"): "v"}},
        "x-basic-type": "order",
    }


@pytest.mark.parametrize(
    ("body", "kind", "content"),
    [
        (encode_data(b"a"), None, b"a"),
        (encode_data(b"a") + encode_data(b"b"), None, b"ab"),
        (encode_data(b"a") + encode_footer({"x": 1}), None, b"a"),
        (encode_amqp_value("a"), "amqp-1.0", encode_amqp_value("a")),
        (encode_sequence([1]) + encode_footer({"x": 1}), "amqp-1.0", encode_sequence([1]) + encode_footer({"x": 1})),
    ],
)
def test_bodies_towards_0_9_1(body: bytes, kind: str | None, content: bytes) -> None:
    """Data is the body; anything else is encoded, and the type says so."""
    assert to_091(body=body) == (Properties(type=kind), content)


def test_a_body_of_too_many_sections_goes_out_encoded() -> None:
    """And comes back as it was."""
    body = EMPTY * (DATA_SECTIONS_MAX + 1)
    assert to_091(body=body) == (Properties(type="amqp-1.0"), body)
    assert to_091(body=EMPTY * DATA_SECTIONS_MAX) == (Properties(), b"")
    form, content = lossless.to_091(b"", body)
    assert lossless.to_10(form, content) == (b"", body)


def test_bodies_towards_1_0() -> None:
    """A data section, unless the type says that it is encoded, and it is."""
    assert to_10(Properties(), b"a")[1] == encode_data(b"a")
    value = encode_amqp_value("a")
    sections, body = to_10(Properties(type=names.ENCODED_TYPE), value)
    assert (sections.annotations, body) == (b"", value)
    assert split_body(to_10(Properties(type=names.ENCODED_TYPE), b"a")[1]).data == [b"a"]


@pytest.mark.parametrize(
    ("raw", "number"),
    [
        (Decimal32(bytes.fromhex("3280000f")), Decimal(15)),
        (Decimal64(bytes.fromhex("b1c0000000000001")), Decimal(-1)),
        (Decimal64(bytes.fromhex("31a000000000007d")), Decimal("12.5")),
        (Decimal128(bytes.fromhex("30400000000000000000000000000001")), Decimal(1)),
        # A coefficient of more bits than are left beside the exponent.
        (Decimal32(bytes.fromhex("6ca00000")), Decimal(8388608)),
        # More digits than the type has are none.
        (Decimal32(bytes.fromhex("6cbfffff")), Decimal(0)),
        (Decimal32(bytes.fromhex("78000000")), None),
        (Decimal32(bytes.fromhex("7c000000")), None),
    ],
)
def test_decimals(raw: Decimal32 | Decimal64 | Decimal128, number: Decimal | None) -> None:
    """IEEE 754 with binary integers."""
    assert from_ieee(raw) == number


@pytest.mark.parametrize(
    ("number", "scaled"),
    [
        ("1.25", (125, 2)),
        ("-1.25", (-125, 2)),
        ("1E+3", (1000, 0)),
        ("2147483647", (2**31 - 1, 0)),
        ("2147483648", None),
        ("-2147483648", (-(2**31), 0)),
        ("1E-255", (1, 255)),
        ("1E-256", None),
        ("1E+10", None),
        ("12345678901", None),
    ],
)
def test_decimals_that_0_9_1_has_room_for(number: str, scaled: tuple[int, int] | None) -> None:
    """32 bits, and a scale of one octet."""
    assert to_scaled(Decimal(number)) == scaled
