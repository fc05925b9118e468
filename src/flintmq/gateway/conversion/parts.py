"""Splits, reads and writes the sections of a message of AMQP 1.0 (amqp-1.0 part 3 §3.2).

An absent section is empty bytes: it is read as a value without fields, and such a value is written as empty bytes.
"""

from typing import Final, final

from librt.strings import BytesWriter, read_i32_be
from mypy_extensions import i64

from flintmq.base.errors import DecodeError
from flintmq.base.limits import DATA_SECTIONS_MAX
from flintmq.wire.amqp10 import sections as wire
from flintmq.wire.amqp10 import spec
from flintmq.wire.amqp10.composite import Annotations
from flintmq.wire.amqp10.properties import Properties
from flintmq.wire.amqp10.reader import Reader
from flintmq.wire.amqp10.types import DESCRIBED, SMALLULONG, VBIN8, VBIN32, skip_value
from flintmq.wire.amqp10.values import UByte, UInt, ULong
from flintmq.wire.amqp10.writer import write_value

_NO_PROPERTIES: Final = Properties()
# The descriptor of a data section, and the size of all that precedes its content, with a length of one or four bytes.
_DATA: Final = bytes([DESCRIBED, SMALLULONG, spec.DATA])
_SHORT_DATA: Final = 5
_LONG_DATA: Final = 8


@final
class Sections:
    """The encoded sections before the body, each with its descriptor; empty bytes for an absent one."""

    def __init__(
        self, header: bytes = b"", annotations: bytes = b"", properties: bytes = b"", application: bytes = b""
    ) -> None:
        self.header = header
        self.annotations = annotations
        self.properties = properties
        self.application = application

    def encoded(self) -> bytes:
        return self.header + self.annotations + self.properties + self.application


def split(head: bytes) -> Sections:
    """Split all that precedes a body into sections. Raises DecodeError."""
    found = Sections()
    pos: i64 = 0
    end = i64(len(head))
    while pos < end:
        code, value = wire.section_at(head, pos, end)
        after = skip_value(head, value, end)
        raw = head if pos == 0 and after == end else head[pos:after]
        if code == spec.HEADER:
            found.header = raw
        elif code == spec.MESSAGE_ANNOTATIONS:
            found.annotations = raw
        elif code == spec.PROPERTIES:
            found.properties = raw
        elif code == spec.APPLICATION_PROPERTIES:
            found.application = raw
        else:
            raise DecodeError(f"the section {spec.SYMBOLS[code]} at byte {pos} does not stand before the body")
        pos = after
    return found


@final
class HeaderFields:
    """The fields of a header; None for a field that is not set. `ttl` is in milliseconds."""

    def __init__(
        self,
        durable: bool | None = None,
        priority: int | None = None,
        ttl: int | None = None,
        first_acquirer: bool | None = None,
        delivery_count: int | None = None,
    ) -> None:
        self.durable = durable
        self.priority = priority
        self.ttl = ttl
        self.first_acquirer = first_acquirer
        self.delivery_count = delivery_count


def read_header(section: bytes) -> HeaderFields:
    """Decode a header. Raises DecodeError, like all `read_` functions of this module."""
    fields = HeaderFields()
    if not section:
        return fields
    values = Reader(section, wire.section_at(section, 0, len(section))[1], len(section)).value()
    assert isinstance(values, list)
    durable, priority, ttl, first, count = [*values, None, None, None, None, None][:5]
    if isinstance(durable, bool):
        fields.durable = durable
    if isinstance(priority, UByte):
        fields.priority = priority.value
    if isinstance(ttl, UInt):
        fields.ttl = ttl.value
    if isinstance(first, bool):
        fields.first_acquirer = first
    if isinstance(count, UInt):
        fields.delivery_count = count.value
    return fields


def write_header(fields: HeaderFields) -> bytes:
    values: list[object] = [
        fields.durable,
        None if fields.priority is None else UByte(fields.priority),
        None if fields.ttl is None else UInt(fields.ttl),
        fields.first_acquirer,
        None if fields.delivery_count is None else UInt(fields.delivery_count),
    ]
    while values and values[-1] is None:
        values.pop()
    if not values:
        return b""
    writer = BytesWriter()
    writer.append(DESCRIBED)
    write_value(writer, ULong(spec.HEADER))
    write_value(writer, values)
    return writer.getvalue()


def read_annotations(section: bytes) -> Annotations:
    return wire.decode_message_annotations(section, 0) if section else {}


def write_annotations(entries: Annotations) -> bytes:
    return wire.encode_message_annotations(entries) if entries else b""


def read_properties(section: bytes) -> Properties:
    return wire.decode_properties(section, 0) if section else Properties()


def write_properties(properties: Properties) -> bytes:
    return b"" if properties == _NO_PROPERTIES else wire.encode_properties(properties)


def read_application(section: bytes) -> dict[str, object]:
    return wire.decode_application_properties(section, 0) if section else {}


def write_application(entries: dict[str, object]) -> bytes:
    return wire.encode_application_properties(entries) if entries else b""


# Published sections are not all checked. The `readable_` functions treat a section that cannot be decoded as absent,
# for uses where it concerns only the receiver.


def readable_header(section: bytes) -> HeaderFields:
    try:
        return read_header(section)
    except DecodeError:
        return HeaderFields()


def readable_annotations(section: bytes) -> Annotations:
    try:
        return read_annotations(section)
    except DecodeError:
        return {}


def readable_properties(section: bytes) -> Properties:
    try:
        return read_properties(section)
    except DecodeError:
        return Properties()


def readable_application(section: bytes) -> dict[str, object]:
    try:
        return read_application(section)
    except DecodeError:
        return {}


@final
class BodyParts:
    """A body taken apart. `footer` is the encoded section, or empty.

    `data` are the contents of the data sections; None for a body of another kind, or with more than DATA_SECTIONS_MAX.
    """

    def __init__(self, data: list[bytes] | None, footer: bytes) -> None:
        self.data = data
        self.footer = footer


def split_body(body: bytes) -> BodyParts:
    """Split a body and its footer. Raises DecodeError, also if another section precedes the body."""
    found = wire.scan(body)
    start = found.footer_or_end if found.body == wire.ABSENT else found.body
    if start != 0:
        raise DecodeError("a body begins with another section")
    footer = body[found.footer_or_end :]
    if found.body_kind != 0 and found.body_kind != spec.DATA:
        return BodyParts(None, footer)
    data: list[bytes] = []
    pos: i64 = 0
    end = found.footer_or_end
    while pos < end:
        if len(data) == DATA_SECTIONS_MAX:
            return BodyParts(None, footer)
        reader = Reader(body, wire.section_at(body, pos, end)[1], end)
        data.append(reader.binary())
        pos = reader.pos
    return BodyParts(data, footer)


def data_content(body: bytes) -> bytes | None:
    """The content of a body that is a single data section; None for any other body."""
    size = i64(len(body))
    if size < _SHORT_DATA or body[:3] != _DATA:
        return None
    if body[3] == VBIN8 and size == _SHORT_DATA + i64(body[4]):
        return body[_SHORT_DATA:]
    if body[3] == VBIN32 and size >= _LONG_DATA and size == _LONG_DATA + (i64(read_i32_be(body, 4)) & 0xFFFF_FFFF):
        return body[_LONG_DATA:]
    return None


def data_section(content: bytes) -> bytes:
    return wire.encode_data(content)
