"""The basic properties of a message, and their encoding.

"Properties bytes" are a content header's payload without its first twelve bytes (class, weight, body size): the flag
words, then the values of the properties that are set (amqp-0-9-1 §4.2.6.1). The broker keeps messages with the bytes
that arrived, so functions that need one property skip the others without decoding them.
"""

from dataclasses import dataclass
from typing import Final, final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, write_i32_be
from mypy_extensions import i64

from flintmq.base.errors import SyntaxFault
from flintmq.wire.amqp091.tables import (
    Table,
    check_shortstr,
    check_table,
    decode_table,
    encode_table,
    pull_longlong,
    pull_octet,
    pull_shortstr,
    push_entry,
    push_longlong,
    push_octet,
    push_shortstr,
)

CONTENT_TYPE: Final = 0x8000
CONTENT_ENCODING: Final = 0x4000
HEADERS: Final = 0x2000
DELIVERY_MODE: Final = 0x1000
PRIORITY: Final = 0x0800
CORRELATION_ID: Final = 0x0400
REPLY_TO: Final = 0x0200
EXPIRATION: Final = 0x0100
MESSAGE_ID: Final = 0x0080
TIMESTAMP: Final = 0x0040
TYPE: Final = 0x0020
USER_ID: Final = 0x0010
APP_ID: Final = 0x0008
# The specification reserves this property; clients call it cluster-id.
CLUSTER_ID: Final = 0x0004
# An undefined property. The length of its value is unknown.
UNKNOWN: Final = 0x0002
# Another word of flags follows.
CONTINUATION: Final = 0x0001


@final
@dataclass
class Properties:
    """The properties of a message of class basic; None means that a property is not set. `timestamp` is in seconds."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: Table | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


def decode_properties(data: bytes) -> Properties:
    """Decode all properties. Raises SyntaxFault, also for trailing bytes."""
    flags, pos = _pull_flags(data)
    p = Properties()
    if flags & CONTENT_TYPE:
        p.content_type, pos = pull_shortstr(data, pos)
    if flags & CONTENT_ENCODING:
        p.content_encoding, pos = pull_shortstr(data, pos)
    if flags & HEADERS:
        p.headers, pos = decode_table(data, pos)
    if flags & DELIVERY_MODE:
        p.delivery_mode, pos = pull_octet(data, pos)
    if flags & PRIORITY:
        p.priority, pos = pull_octet(data, pos)
    if flags & CORRELATION_ID:
        p.correlation_id, pos = pull_shortstr(data, pos)
    if flags & REPLY_TO:
        p.reply_to, pos = pull_shortstr(data, pos)
    if flags & EXPIRATION:
        p.expiration, pos = pull_shortstr(data, pos)
    if flags & MESSAGE_ID:
        p.message_id, pos = pull_shortstr(data, pos)
    if flags & TIMESTAMP:
        p.timestamp, pos = pull_longlong(data, pos)
    if flags & TYPE:
        p.type, pos = pull_shortstr(data, pos)
    if flags & USER_ID:
        p.user_id, pos = pull_shortstr(data, pos)
    if flags & APP_ID:
        p.app_id, pos = pull_shortstr(data, pos)
    if flags & CLUSTER_ID:
        p.cluster_id, pos = pull_shortstr(data, pos)
    if pos != len(data):
        raise SyntaxFault(f"{len(data) - pos} bytes are left after the last property")
    return p


def encode_properties(p: Properties) -> bytes:
    """Encode properties. Raises LocalProtocolError if a value does not fit its property."""
    w = BytesWriter()
    flags = 0
    w.append(0)
    w.append(0)
    if p.content_type is not None:
        flags |= CONTENT_TYPE
        push_shortstr(w, p.content_type, "content_type")
    if p.content_encoding is not None:
        flags |= CONTENT_ENCODING
        push_shortstr(w, p.content_encoding, "content_encoding")
    if p.headers is not None:
        flags |= HEADERS
        encode_table(w, p.headers)
    if p.delivery_mode is not None:
        flags |= DELIVERY_MODE
        push_octet(w, p.delivery_mode, "delivery_mode")
    if p.priority is not None:
        flags |= PRIORITY
        push_octet(w, p.priority, "priority")
    if p.correlation_id is not None:
        flags |= CORRELATION_ID
        push_shortstr(w, p.correlation_id, "correlation_id")
    if p.reply_to is not None:
        flags |= REPLY_TO
        push_shortstr(w, p.reply_to, "reply_to")
    if p.expiration is not None:
        flags |= EXPIRATION
        push_shortstr(w, p.expiration, "expiration")
    if p.message_id is not None:
        flags |= MESSAGE_ID
        push_shortstr(w, p.message_id, "message_id")
    if p.timestamp is not None:
        flags |= TIMESTAMP
        push_longlong(w, p.timestamp, "timestamp")
    if p.type is not None:
        flags |= TYPE
        push_shortstr(w, p.type, "type")
    if p.user_id is not None:
        flags |= USER_ID
        push_shortstr(w, p.user_id, "user_id")
    if p.app_id is not None:
        flags |= APP_ID
        push_shortstr(w, p.app_id, "app_id")
    if p.cluster_id is not None:
        flags |= CLUSTER_ID
        push_shortstr(w, p.cluster_id, "cluster_id")
    w[0] = flags >> 8
    w[1] = flags & 0xFF
    return w.getvalue()


@final
class Scan:
    """The result of `scan`: what the broker needs of encoded properties, without decoding the others.

    The delivery mode is 0, and the priority -1, if it is not set. Positions are those of encoded short strings and of
    the table of headers; 0 if a property is not set.
    """

    def __init__(self) -> None:
        self.delivery_mode: i64 = 0
        self.priority: i64 = -1
        self.headers_at: i64 = 0
        self.headers_end: i64 = 0
        self.reply_to_at: i64 = 0
        self.expiration_at: i64 = 0
        self.message_id_at: i64 = 0
        self.user_id_at: i64 = 0


def scan(data: bytes) -> Scan:
    """Scan all properties once. Raises SyntaxFault exactly when `decode_properties` does."""
    found = Scan()
    if len(data) == 3 and data[0] == 0x10 and data[1] == 0:
        # Most publishers send the delivery mode alone.
        found.delivery_mode = data[2]
        return found
    flags, pos = _pull_flags(data)
    # One check for all strings, since most are ASCII. Otherwise each name has to be checked for valid UTF-8.
    is_ascii = data[pos:].isascii()
    if flags & CONTENT_TYPE:
        pos = check_shortstr(data, pos, is_ascii)
    if flags & CONTENT_ENCODING:
        pos = check_shortstr(data, pos, is_ascii)
    if flags & HEADERS:
        found.headers_at = pos
        pos = check_table(data, pos, is_ascii)
        found.headers_end = pos
    if flags & DELIVERY_MODE:
        found.delivery_mode = _octet(data, pos)
        pos += 1
    if flags & PRIORITY:
        found.priority = _octet(data, pos)
        pos += 1
    if flags & CORRELATION_ID:
        pos = check_shortstr(data, pos, is_ascii)
    if flags & REPLY_TO:
        found.reply_to_at = pos
        pos = check_shortstr(data, pos, is_ascii)
    if flags & EXPIRATION:
        found.expiration_at = pos
        pos = check_shortstr(data, pos, is_ascii)
    if flags & MESSAGE_ID:
        found.message_id_at = pos
        pos = check_shortstr(data, pos, is_ascii)
    if flags & TIMESTAMP:
        pos += 8
    if flags & TYPE:
        pos = check_shortstr(data, pos, is_ascii)
    if flags & USER_ID:
        found.user_id_at = pos
        pos = check_shortstr(data, pos, is_ascii)
    if flags & APP_ID:
        pos = check_shortstr(data, pos, is_ascii)
    if flags & CLUSTER_ID:
        pos = check_shortstr(data, pos, is_ascii)
    if pos > len(data):
        raise SyntaxFault(f"properties need {pos - len(data)} bytes more")
    if pos != len(data):
        raise SyntaxFault(f"{len(data) - pos} bytes are left after the last property")
    return found


def _octet(data: bytes, pos: i64) -> i64:
    if pos >= len(data):
        raise SyntaxFault("properties need 1 byte more")
    return data[pos]


def short_at(data: bytes, pos: i64) -> str:
    """Return the short string at a position that `scan` found, or "" for a position of 0."""
    return data[pos + 1 : pos + 1 + i64(data[pos])].decode() if pos else ""


def headers(data: bytes) -> Table:
    """Return the headers, empty if there are none. Reads nothing behind them. Raises SyntaxFault."""
    flags, pos = _pull_flags(data)
    if not flags & HEADERS:
        return {}
    return decode_table(data, _skip_to_headers(data, flags, pos))[0]


def add_header(data: bytes, key: str, value: object) -> bytes:
    """Return the properties with one more header behind all others; all other bytes are unchanged.

    An existing header of the same key stays: readers take the last one. Raises SyntaxFault for properties that are
    malformed before the end of the headers, LocalProtocolError for a key or value that no table can hold.
    """
    flags, pos = _pull_flags(data)
    pos = _skip_to_headers(data, flags, pos)
    w = BytesWriter()
    push_entry(w, key, value, 1)
    entry = w.getvalue()
    out = BytesWriter()
    if flags & HEADERS:
        end = _table_end(data, pos)
        out.write(data[:pos])
        write_i32_be(out, read_i32_be(data, pos) + len(entry))
        out.write(data[pos + 4 : end])
        out.write(entry)
        out.write(data[end:])
    else:
        out.append(data[0] | HEADERS >> 8)
        out.write(data[1:pos])
        write_i32_be(out, len(entry))
        out.write(entry)
        out.write(data[pos:])
    return out.getvalue()


def _pull_flags(data: bytes) -> tuple[i64, i64]:
    """Return the flags, and the position behind all words of flags, where the values start."""
    if len(data) < 2:
        raise SyntaxFault("properties have no flags")
    flags = i64(read_i16_be(data, 0)) & 0xFFFF
    pos: i64 = 2
    word = flags
    while word & CONTINUATION:
        if len(data) < pos + 2:
            raise SyntaxFault("properties announce more flags than there are")
        word = i64(read_i16_be(data, pos)) & 0xFFFF
        if word & ~CONTINUATION:
            raise SyntaxFault(f"properties have the unknown flags 0x{word:04x}")
        pos += 2
    if flags & UNKNOWN:
        raise SyntaxFault(f"properties have the unknown flag 0x{UNKNOWN:04x}")
    return flags, pos


def _skip_to_headers(data: bytes, flags: i64, pos: i64) -> i64:
    if flags & CONTENT_TYPE:
        pos = _shortstr_end(data, pos)
    if flags & CONTENT_ENCODING:
        pos = _shortstr_end(data, pos)
    return pos


def _shortstr_end(data: bytes, pos: i64) -> i64:
    if pos < len(data):
        end = pos + 1 + i64(data[pos])
        if end <= len(data):
            return end
    raise SyntaxFault(f"short string at byte {pos} overruns the properties")


def _table_end(data: bytes, pos: i64) -> i64:
    if pos + 4 <= len(data):
        end = pos + 4 + (i64(read_i32_be(data, pos)) & 0xFFFF_FFFF)
        if end <= len(data):
            return end
    raise SyntaxFault(f"headers at byte {pos} overrun the properties")
