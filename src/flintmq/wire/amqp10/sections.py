"""The sections of a message (amqp-1.0 part 3 §3.2): where they begin, and decoding on demand.

Their order is header, delivery-annotations, message-annotations, properties, application-properties, body, footer. All
are optional, here also the body, so that the sections before a body can be read without it. The body is one or more
data sections, or one or more amqp-sequence sections, or one amqp-value section.
"""

from typing import Final, cast, final

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

from flintmq.base.errors import DecodeError
from flintmq.wire.amqp10 import spec, types
from flintmq.wire.amqp10.composite import LAYOUTS, Annotations
from flintmq.wire.amqp10.composite_reader import read_described, read_descriptor
from flintmq.wire.amqp10.properties import Header, Properties
from flintmq.wire.amqp10.reader import Reader
from flintmq.wire.amqp10.types import skip_value
from flintmq.wire.amqp10.writer import (
    unsigned,
    write_annotations,
    write_binary,
    write_composite,
    write_string_map,
    write_uint,
    write_value,
)

ABSENT: Final = -1
UINT_MAX: Final = 0xFFFF_FFFF
# A descriptor that does not have the usual three bytes is looked up.
_USUAL_BYTES: Final = 3


@final
class Sections:
    """The positions of the sections of an encoded message, ABSENT for missing ones. They have no gaps.

    `body` is the position of the body's first section, `body_kind` the descriptor of its sections, 0 without a body;
    `bare` is where the bare message begins and `footer_or_end` where it ends.
    """

    def __init__(self, end: i64) -> None:
        self.header: i64 = ABSENT
        self.delivery_annotations: i64 = ABSENT
        self.message_annotations: i64 = ABSENT
        self.properties: i64 = ABSENT
        self.application_properties: i64 = ABSENT
        self.body: i64 = ABSENT
        self.body_kind: i64 = 0
        self.footer: i64 = ABSENT
        self.bare: i64 = end
        self.end: i64 = end

    @property
    def before_body(self) -> i64:
        """The end of the sections before the body."""
        return self.footer_or_end if self.body == ABSENT else self.body

    @property
    def footer_or_end(self) -> i64:
        return self.end if self.footer == ABSENT else self.footer


def scan(data: bytes) -> Sections:
    """Find the sections of an encoded message, or of its beginning or end, without decoding them.

    Raises DecodeError for an unknown section, a wrong type, or a wrong order.
    """
    end = i64(len(data))
    found = Sections(end)
    pos: i64 = 0
    last: i64 = 0
    while pos < end:
        code, value = section_at(data, pos, end)
        if code <= last and not (code == last and (code == spec.DATA or code == spec.AMQP_SEQUENCE)):
            raise DecodeError(f"the section {spec.SYMBOLS[code]} at byte {pos} cannot follow {spec.SYMBOLS[last]}")
        if code == spec.HEADER:
            found.header = pos
        elif code == spec.DELIVERY_ANNOTATIONS:
            found.delivery_annotations = pos
        elif code == spec.MESSAGE_ANNOTATIONS:
            found.message_annotations = pos
        else:
            if found.bare == end:
                found.bare = pos
            if code == spec.PROPERTIES:
                found.properties = pos
            elif code == spec.APPLICATION_PROPERTIES:
                found.application_properties = pos
            elif code == spec.FOOTER:
                found.footer = pos
            elif found.body_kind == 0:
                found.body = pos
                found.body_kind = code
            elif code != found.body_kind:
                raise DecodeError(
                    f"the section {spec.SYMBOLS[code]} at byte {pos} cannot follow {spec.SYMBOLS[found.body_kind]}"
                )
        last = code
        pos = skip_value(data, value, end)
    return found


def section_at(data: bytes, pos: i64, end: i64) -> tuple[i64, i64]:
    """Return the descriptor code of the section at `pos`, and the position of its value, whose type is checked."""
    if pos + _USUAL_BYTES < end and data[pos] == types.DESCRIBED and data[pos + 1] == types.SMALLULONG:
        code = i64(data[pos + 2])
        value = pos + _USUAL_BYTES
    else:
        reader = Reader(data, pos, end)
        if reader.code() != types.DESCRIBED:
            raise DecodeError(f"no section at byte {pos}: the value is not described")
        code = read_descriptor(reader)
        value = reader.pos
        reader.peek()
    if code < spec.HEADER or code > spec.FOOTER:
        raise DecodeError(f"no section at byte {pos}: the descriptor is unknown")
    if not _fits(code, i64(data[value])):
        raise DecodeError(f"the section {spec.SYMBOLS[code]} at byte {pos} has a value of another type")
    return code, value


def _fits(section: i64, code: i64) -> bool:
    if section == spec.DATA:
        return code == types.VBIN8 or code == types.VBIN32
    if section == spec.AMQP_VALUE:
        return True
    if section == spec.HEADER or section == spec.PROPERTIES or section == spec.AMQP_SEQUENCE:
        return code == types.LIST8 or code == types.LIST0 or code == types.LIST32
    return code == types.MAP8 or code == types.MAP32


def _reader_at(data: bytes, pos: i64, section: i64) -> Reader:
    """Return a reader of the value of the section at `pos`, which must be of that kind."""
    code, value = section_at(data, pos, len(data))
    if code != section:
        raise DecodeError(f"{spec.SYMBOLS[code]} is at byte {pos}, not {spec.SYMBOLS[section]}")
    return Reader(data, value, len(data))


# The functions below decode the section at `pos`, as `scan` found it. All raise DecodeError.


def decode_header(data: bytes, pos: i64) -> Header:
    reader = _reader_at(data, pos, spec.HEADER)
    header = Header()
    code = reader.code()
    if code == types.LIST0:
        return header
    count, outer = reader.open(code)
    if count > 5:
        raise DecodeError(f"header: {count} fields, the type has 5")
    if count > 0:
        header.durable = reader.flag()
    if count > 1 and not reader.is_null():
        header.priority = reader.ubyte()
    if count > 2 and not reader.is_null():
        header.ttl = reader.uint()
    if count > 3:
        header.first_acquirer = reader.flag()
    if count > 4 and not reader.is_null():
        header.delivery_count = reader.uint()
    reader.close(outer)
    return header


def decode_delivery_annotations(data: bytes, pos: i64) -> Annotations:
    return _reader_at(data, pos, spec.DELIVERY_ANNOTATIONS).annotations()


def decode_message_annotations(data: bytes, pos: i64) -> Annotations:
    return _reader_at(data, pos, spec.MESSAGE_ANNOTATIONS).annotations()


def decode_footer(data: bytes, pos: i64) -> Annotations:
    return _reader_at(data, pos, spec.FOOTER).annotations()


def decode_properties(data: bytes, pos: i64) -> Properties:
    reader = _reader_at(data, pos, spec.PROPERTIES)
    return cast(Properties, read_described(reader, LAYOUTS[spec.PROPERTIES], 1))


def decode_application_properties(data: bytes, pos: i64) -> dict[str, object]:
    return _reader_at(data, pos, spec.APPLICATION_PROPERTIES).text_map()


def decode_data(data: bytes, sections: Sections) -> list[bytes]:
    """Return the contents of the body's data sections."""
    parts: list[bytes] = []
    pos = sections.body
    end = sections.footer_or_end
    while pos < end:
        reader = _reader_at(data, pos, spec.DATA)
        parts.append(reader.binary())
        pos = reader.pos
    return parts


def decode_sequences(data: bytes, sections: Sections) -> list[list[object]]:
    """Return the lists of the body's amqp-sequence sections."""
    parts: list[list[object]] = []
    pos = sections.body
    end = sections.footer_or_end
    while pos < end:
        reader = _reader_at(data, pos, spec.AMQP_SEQUENCE)
        parts.append(cast("list[object]", reader.value()))
        pos = reader.pos
    return parts


def decode_amqp_value(data: bytes, pos: i64) -> object:
    return _reader_at(data, pos, spec.AMQP_VALUE).value()


def encode_header(durable: bool, priority: i64, ttl: int | None, first_acquirer: bool, delivery_count: i64) -> bytes:
    """Encode a header section. Trailing defaults are left out; without any field there is no section."""
    count: i64 = 0
    if delivery_count:
        count = 5
    elif first_acquirer:
        count = 4
    elif ttl is not None:
        count = 3
    elif priority != spec.DEFAULT_PRIORITY:
        count = 2
    elif durable:
        count = 1
    else:
        return b""
    w = BytesWriter()
    _begin_section(w, spec.HEADER)
    w.append(types.LIST8)
    size_at = i64(len(w))
    w.append(0)
    w.append(count)
    w.append(types.TRUE if durable else types.FALSE)
    if count > 1:
        w.append(types.UBYTE)
        w.append(unsigned(priority, 0xFF, "header priority"))
    if count > 2:
        if ttl is None:
            w.append(types.NULL)
        else:
            write_uint(w, unsigned(ttl, UINT_MAX, "header ttl"))
    if count > 3:
        w.append(types.TRUE if first_acquirer else types.FALSE)
    if count > 4:
        write_uint(w, unsigned(delivery_count, UINT_MAX, "header delivery-count"))
    w[size_at] = u8(i64(len(w)) - size_at - 1)
    return w.getvalue()


def _begin_section(w: BytesWriter, section: i64) -> None:
    w.append(types.DESCRIBED)
    w.append(types.SMALLULONG)
    w.append(section)


def _encode_annotations(section: i64, annotations: Annotations) -> bytes:
    w = BytesWriter()
    _begin_section(w, section)
    write_annotations(w, annotations)
    return w.getvalue()


def encode_delivery_annotations(annotations: Annotations) -> bytes:
    return _encode_annotations(spec.DELIVERY_ANNOTATIONS, annotations)


def encode_message_annotations(annotations: Annotations) -> bytes:
    return _encode_annotations(spec.MESSAGE_ANNOTATIONS, annotations)


def encode_footer(annotations: Annotations) -> bytes:
    return _encode_annotations(spec.FOOTER, annotations)


def encode_properties(properties: Properties) -> bytes:
    w = BytesWriter()
    write_composite(w, properties)
    return w.getvalue()


def encode_application_properties(values: dict[str, object]) -> bytes:
    w = BytesWriter()
    _begin_section(w, spec.APPLICATION_PROPERTIES)
    write_string_map(w, values)
    return w.getvalue()


def encode_data(content: bytes) -> bytes:
    w = BytesWriter()
    _begin_section(w, spec.DATA)
    write_binary(w, content)
    return w.getvalue()


def encode_sequence(values: list[object]) -> bytes:
    w = BytesWriter()
    _begin_section(w, spec.AMQP_SEQUENCE)
    write_value(w, values)
    return w.getvalue()


def encode_amqp_value(value: object) -> bytes:
    w = BytesWriter()
    _begin_section(w, spec.AMQP_VALUE)
    write_value(w, value)
    return w.getvalue()
