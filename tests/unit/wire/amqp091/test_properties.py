"""Basic properties: hex snapshots, and the functions that read or change them without decoding."""

import pytest

from flintmq.base.errors import LocalProtocolError, SyntaxFault
from flintmq.base.values import Timestamp
from flintmq.wire.amqp091.properties import (
    Properties,
    add_header,
    decode_properties,
    encode_properties,
    headers,
    scan,
)

ALL = Properties(
    content_type="t",
    content_encoding="e",
    headers={"k": 1},
    delivery_mode=2,
    priority=9,
    correlation_id="c",
    reply_to="r",
    expiration="60000",
    message_id="m",
    timestamp=1_700_000_000,
    type="y",
    user_id="u",
    app_id="a",
    cluster_id="l",
)

SNAPSHOTS: list[tuple[str, Properties, str]] = [
    ("none", Properties(), "0000"),
    ("content-type", Properties(content_type="t"), "8000 0174"),
    ("content-encoding", Properties(content_encoding="e"), "4000 0165"),
    ("headers", Properties(headers={"k": 1}), "2000 00000007 016b 49 00000001"),
    ("headers-empty", Properties(headers={}), "2000 00000000"),
    ("delivery-mode", Properties(delivery_mode=2), "1000 02"),
    ("priority", Properties(priority=255), "0800 ff"),
    ("correlation-id", Properties(correlation_id="c"), "0400 0163"),
    ("reply-to", Properties(reply_to="r"), "0200 0172"),
    ("expiration", Properties(expiration="1"), "0100 0131"),
    ("message-id", Properties(message_id=""), "0080 00"),
    ("timestamp", Properties(timestamp=(1 << 64) - 1), "0040 ffffffffffffffff"),
    ("type", Properties(type="y"), "0020 0179"),
    ("user-id", Properties(user_id="u"), "0010 0175"),
    ("app-id", Properties(app_id="a"), "0008 0161"),
    ("cluster-id", Properties(cluster_id="l"), "0004 016c"),
    ("pika-persistent", Properties(content_type="text/plain", delivery_mode=2), "9000 0a746578742f706c61696e 02"),
    (
        "all",
        ALL,
        (
            "fffc 0174 0165 00000007 016b 49 00000001 02 09 0163 0172 05 3630303030 016d 000000006553f100"
            "0179 0175 0161 016c"
        ),
    ),
]

# Properties, and their delivery mode: the shapes publishers send, and each thing that can stand before it.
DELIVERY_MODES = [
    ("1000 02", 2),
    ("1000 01", 1),
    ("0000", 0),
    ("0800 05", 0),
    ("2000 00000000", 0),
    ("8000 0174", 0),
    ("9000 0174 02", 2),
    ("9000 00 02", 2),
    ("9000 10 61706c69636174696f6e2f6a736f6e21 02", 2),
    ("5000 0165 02", 2),
    ("d000 0174 0265 65 02", 2),
    ("3000 00000000 02", 2),
    ("3000 00000007 016b 49 00000001 02", 2),
    ("b000 0174 00000003 016b 56 01", 1),
    ("f000 0174 0165 00000003 016b 56 02", 2),
    ("1800 02 09", 2),
    ("1080 02 016d", 2),
    ("1001 0000 02", 2),
    ("1001 0001 0000 02", 2),
    ("3001 0000 00000000 02", 2),
]

MALFORMED = [
    "",
    "10",
    "1000",
    "9000",
    "9000 02",
    "9000 05 61 02",
    "9000 01 61",
    "5000 ff",
    "3000",
    "3000 000000",
    "3000 00000001",
    "3000 ffffffff 02",
    "3000 7fffffff 02",
    "3000 00000000",
    "1001",
    "1001 02",
    "1001 0001",
    # Properties nobody defined: nothing says how long they are.
    "1002 02",
    "1001 8000 02",
    "1001 0001 0002 02",
]


@pytest.mark.parametrize(("properties", "raw"), [row[1:] for row in SNAPSHOTS], ids=[row[0] for row in SNAPSHOTS])
def test_properties_and_their_bytes_are_each_other(properties: Properties, raw: str) -> None:
    """Each property has its flag and its place, and is absent or empty as it was."""
    assert encode_properties(properties).hex(" ") == bytes.fromhex(raw).hex(" ")
    assert decode_properties(bytes.fromhex(raw)) == properties


def test_properties_are_equal_by_value() -> None:
    """Absent and empty differ."""
    assert Properties(type="a") == Properties(type="a") != Properties(type="b")
    assert Properties(message_id="") != Properties()


@pytest.mark.parametrize(("raw", "mode"), DELIVERY_MODES)
def test_the_delivery_mode_is_found_where_it_stands(raw: str, mode: int) -> None:
    """Without decoding what is before it; 0 when it is absent. Full decoding agrees."""
    data = bytes.fromhex(raw)
    assert scan(data).delivery_mode == mode
    assert (decode_properties(data).delivery_mode or 0) == mode


def test_more_words_of_flags_are_read_over() -> None:
    """amqp-0-9-1 §4.2.6.1: the lowest bit announces another word; words without properties change nothing."""
    data = bytes.fromhex("3001 0001 0000 00000003 016b 56 02")
    assert decode_properties(data) == Properties(headers={"k": None}, delivery_mode=2)
    assert headers(data) == {"k": None}


@pytest.mark.parametrize("raw", MALFORMED)
def test_malformed_properties_are_a_syntax_fault(raw: str) -> None:
    """Whoever reads them: nothing is read behind the end, and no flag is guessed at."""
    data = bytes.fromhex(raw)
    with pytest.raises(SyntaxFault):
        decode_properties(data)
    with pytest.raises(SyntaxFault):
        scan(data)


def test_bytes_after_the_last_property_are_a_syntax_fault() -> None:
    """Decoding takes all there is, and so does looking."""
    with pytest.raises(SyntaxFault, match="1 bytes are left"):
        decode_properties(bytes.fromhex("1000 02 00"))
    with pytest.raises(SyntaxFault, match="1 bytes are left"):
        scan(bytes.fromhex("1000 02 00"))


def test_every_prefix_of_properties_is_a_syntax_fault() -> None:
    """Cut anywhere, all fourteen properties are refused."""
    data = encode_properties(ALL)
    for end in range(len(data)):
        with pytest.raises(SyntaxFault):
            decode_properties(data[:end])
        with pytest.raises(SyntaxFault):
            scan(data[:end])


def test_headers_are_read_alone() -> None:
    """Empty when absent, and without looking at what follows."""
    assert headers(encode_properties(ALL)) == {"k": 1}
    assert headers(b"\x00\x00") == {}
    assert headers(b"\x10\x00\x02") == {}
    assert headers(bytes.fromhex("a004 0174 00000003 016b 56")) == {"k": None}


@pytest.mark.parametrize("raw", ["", "2000", "2000 00000001", "2000 00000002 016b", "a000 05 00", "2002 00000000"])
def test_malformed_headers_are_a_syntax_fault(raw: str) -> None:
    """Read alone, they are checked as ever."""
    with pytest.raises(SyntaxFault):
        headers(bytes.fromhex(raw))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("0000", "2000 00000007 016f 49 00000005"),
        ("1000 02", "3000 00000007 016f 49 00000005 02"),
        ("9000 0174 02", "b000 0174 00000007 016f 49 00000005 02"),
        ("c008 0174 0165 0161", "e008 0174 0165 00000007 016f 49 00000005 0161"),
        ("2000 00000000", "2000 00000007 016f 49 00000005"),
        ("f000 0174 0165 00000003 016b 56 02", "f000 0174 0165 0000000a 016b 56 016f 49 00000005 02"),
        # A table that decoding would refuse, and a byte too many: neither is anything of ours.
        ("2000 00000003 016b ff 99", "2000 0000000a 016b ff 016f 49 00000005 99"),
        ("1001 0000 02", "3001 0000 00000007 016f 49 00000005 02"),
    ],
)
def test_a_header_is_added_and_all_else_stays(before: str, after: str) -> None:
    """The new one is the last header; every byte but the flag and the table's length is the publisher's."""
    assert add_header(bytes.fromhex(before), "o", 5).hex(" ") == bytes.fromhex(after).hex(" ")


def test_an_added_header_is_the_one_readers_see() -> None:
    """A publisher's header of the same name stays in the bytes and is outvoted."""
    data = add_header(encode_properties(Properties(headers={"x-stream-offset": "forged"})), "x-stream-offset", 1 << 40)
    assert headers(data) == {"x-stream-offset": 1 << 40}
    assert b"forged" in data


@pytest.mark.parametrize(
    "raw", ["", "20", "2000", "2000 0000", "2000 00000001", "9000 05 02", "8000", "8000 01", "0002", "0001"]
)
def test_a_header_is_not_added_to_malformed_properties(raw: str) -> None:
    """What cannot be stepped over cannot be changed."""
    with pytest.raises(SyntaxFault):
        add_header(bytes.fromhex(raw), "o", 5)


def test_a_header_no_table_can_hold_is_not_added() -> None:
    """The same rules as for a whole table."""
    with pytest.raises(LocalProtocolError, match="'o'"):
        add_header(b"\x00\x00", "o", object())
    with pytest.raises(LocalProtocolError, match="256 bytes"):
        add_header(b"\x00\x00", "o" * 256, 5)


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        (Properties(priority=256), "priority"),
        (Properties(delivery_mode=-1), "delivery_mode"),
        (Properties(timestamp=1 << 64), "timestamp"),
        (Properties(message_id="m" * 256), "message_id"),
        (Properties(user_id="\ud800"), "user_id"),
        (Properties(headers={"h": Timestamp(-1)}), "h"),
    ],
)
def test_a_property_that_does_not_fit_is_our_own_fault(properties: Properties, name: str) -> None:
    """It is LocalProtocolError, and names the property."""
    with pytest.raises(LocalProtocolError, match=f"^{name} "):
        encode_properties(properties)
