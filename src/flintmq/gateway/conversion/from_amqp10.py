"""Converts messages from AMQP 1.0 to 0-9-1 as RabbitMQ does, and leaves out what 0-9-1 has no place for."""

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

from flintmq.base.errors import DecodeError
from flintmq.base.limits import TABLE_ENTRIES_MAX
from flintmq.gateway.conversion import deaths, names, tables
from flintmq.gateway.conversion.ids import fits_shortstr, id_to_091, reply_to_091
from flintmq.gateway.conversion.parts import (
    BodyParts,
    HeaderFields,
    Sections,
    readable_annotations,
    readable_application,
    readable_header,
    readable_properties,
    split_body,
)
from flintmq.wire.amqp091.properties import HEADERS, Properties, encode_properties
from flintmq.wire.amqp091.tables import TAG_BYTES, TAG_LONGSTR, begin_sized, end_sized, push_longstr, push_shortstr
from flintmq.wire.amqp10.composite import Annotations
from flintmq.wire.amqp10.properties import Properties as Properties10
from flintmq.wire.amqp10.values import TimestampMs, WrappedInt

_PERSISTENT: Final = 2
_TRANSIENT: Final = 1
# The properties of a message with undecodable sections: the whole message becomes the body.
UNREADABLE: Final = encode_properties(Properties(type=names.ENCODED_TYPE))


def convert(sections: Sections, body: bytes) -> tuple[bytes, bytes]:
    """Convert sections and body to properties and body of 0-9-1. An undecodable section counts as absent."""
    header = readable_header(sections.header)
    annotations = readable_annotations(sections.annotations)
    found = readable_properties(sections.properties)
    application = readable_application(sections.application)
    parts = _body(body)
    properties = Properties()
    _set_properties(properties, found)
    _set_header(properties, header, annotations)
    basic_type = annotations.get(names.TYPE)
    content = body
    if parts is None or parts.data is None or basic_type == names.ENCODED_TYPE:
        properties.type = names.ENCODED_TYPE
    else:
        content = parts.data[0] if len(parts.data) == 1 else b"".join(parts.data)
        if isinstance(basic_type, str) and fits_shortstr(basic_type):
            properties.type = basic_type
    table = _headers(annotations, application, found)
    if table is None:
        return encode_properties(properties), content
    properties.headers = {}
    return with_headers(encode_properties(properties), table), content


def with_headers(properties: bytes, table: bytes) -> bytes:
    """Put `table`, which includes its length, into encoded properties with an empty table of headers."""
    at = headers_at(properties)
    return properties[:at] + table + properties[at + 4 :]


def headers_at(properties: bytes) -> i64:
    """The position of the table of headers, which begins with its length; 0 if there is none."""
    flags = i64(properties[0]) << 8 | properties[1]
    if not flags & HEADERS:
        return 0
    pos: i64 = 2
    while properties[pos - 1] & 1:
        pos += 2
    for bit in (0x8000, 0x4000):
        if flags & bit:
            pos += 1 + i64(properties[pos])
    return pos


def _body(body: bytes) -> BodyParts | None:
    try:
        return split_body(body)
    except DecodeError:
        return None


def _set_properties(properties: Properties, found: Properties10) -> None:
    properties.message_id = id_to_091(found.message_id)
    properties.correlation_id = id_to_091(found.correlation_id)
    user_id = found.user_id
    if user_id is not None and len(user_id) <= 255 and b"\x00" not in user_id:
        try:
            properties.user_id = user_id.decode()
        except UnicodeDecodeError:
            properties.user_id = None
    if found.reply_to is not None:
        properties.reply_to = reply_to_091(found.reply_to)
    properties.content_type = _short(found.content_type)
    properties.content_encoding = _short(found.content_encoding)
    properties.app_id = _short(found.group_id)
    created = found.creation_time
    if created is not None and created >= 0:
        properties.timestamp = created // 1000


def _short(text: str | None) -> str | None:
    return text if text is not None and fits_shortstr(text) else None


def _set_header(properties: Properties, header: HeaderFields, annotations: Annotations) -> None:
    if header.durable is not None:
        properties.delivery_mode = _PERSISTENT if header.durable else _TRANSIENT
    else:
        mode = _octet(annotations.get(names.DELIVERY_MODE))
        properties.delivery_mode = mode if mode in (_TRANSIENT, _PERSISTENT) else None
    properties.priority = header.priority
    if header.priority is None:
        properties.priority = _octet(annotations.get(names.PRIORITY))
    if header.ttl is not None:
        properties.expiration = str(header.ttl)
    else:
        expiration = annotations.get(names.EXPIRATION)
        properties.expiration = expiration if isinstance(expiration, str) and fits_shortstr(expiration) else None


def _octet(value: object) -> int | None:
    number = value.value if isinstance(value, WrappedInt) else value
    if isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= 255:
        return number
    return None


def _headers(annotations: Annotations, application: dict[str, object], found: Properties10) -> bytes | None:
    """Encode the table of headers, with its length. None if there are no headers."""
    w = BytesWriter()
    start = begin_sized(w)
    taken: set[str] = set()
    for key, value in annotations.items():
        name = names.header_of(key)
        if name is None or name in taken or len(taken) >= TABLE_ENTRIES_MAX:
            continue
        if _push_annotation(w, key, name, value):
            taken.add(name)
    for name, identifier in (
        (names.CORRELATION_ID_HEADER, found.correlation_id),
        (names.MESSAGE_ID_HEADER, found.message_id),
    ):
        if identifier is not None and name not in taken and id_to_091(identifier) is None:
            _push_identifier(w, name, identifier)
            taken.add(name)
    more = list(application.items())
    others = annotations.get(names.HEADERS)
    if isinstance(others, dict):
        more += [(key, value) for key, value in others.items() if isinstance(key, str)]
    for name, value in more:
        is_new = name not in taken and len(taken) < TABLE_ENTRIES_MAX
        if is_new and fits_shortstr(name) and tables.push_entry(w, name, value, 1):
            taken.add(name)
    if not taken:
        return None
    end_sized(w, start)
    return w.getvalue()


def _push_annotation(w: BytesWriter, key: str | int, name: str, value: object) -> bool:
    if key == names.DEATHS:
        at = len(w)
        push_shortstr(w, name, "")
        if deaths.push_header(w, value):
            return True
        w.truncate(at)
        return False
    if key == names.RECEIVED:
        return isinstance(value, TimestampMs) and tables.push_entry(w, name, value.value, 1)
    return fits_shortstr(name) and tables.push_entry(w, name, value, 1)


def _push_identifier(w: BytesWriter, name: str, identifier: object) -> None:
    push_shortstr(w, name, "")
    raw = identifier if isinstance(identifier, bytes) else str(identifier).encode()
    w.append(u8(TAG_BYTES if isinstance(identifier, bytes) else TAG_LONGSTR))
    push_longstr(w, raw, "")
