"""Lossless conversion: whatever the plain conversion would not restore is carried along in its encoded form.

A message converted to 0-9-1 carries such sections as headers. A message converted to 1.0 carries all its properties as
an annotation. What is carried is only used while the rest of the message is unchanged: if a client changes a property
and publishes the message again, the change counts.
"""

from collections.abc import Callable
from typing import Final, final

from librt.strings import BytesWriter, read_i32_be
from mypy_extensions import i64

from flintmq.base.errors import DecodeError, SyntaxFault
from flintmq.gateway.conversion import from_amqp10, names, tables, to_amqp10
from flintmq.gateway.conversion.from_amqp10 import headers_at, with_headers
from flintmq.gateway.conversion.merge import merged
from flintmq.gateway.conversion.parts import (
    Sections,
    data_section,
    read_annotations,
    read_application,
    read_header,
    read_properties,
    readable_annotations,
    split,
    split_body,
    write_annotations,
    write_application,
    write_properties,
)
from flintmq.wire.amqp091.properties import HEADERS, decode_properties, scan
from flintmq.wire.amqp091.tables import TAG_BYTES, begin_sized, end_sized, pull_shortstr, push_longstr, push_shortstr

_PREFIX: Final = names.CARRIED_PREFIX.encode()
_PROPERTIES_091: Final = names.PROPERTIES_091.encode()


def to_091(head: bytes, body: bytes) -> tuple[bytes, bytes]:
    """Convert a message of 1.0 to properties and body: `head` has its sections before the body, `body` the rest."""
    sections = split(head)
    if _PROPERTIES_091 in sections.annotations:
        original = _original(sections, body)
        if original is not None:
            return original
    return _backward(sections, body)


def to_10(properties: bytes, body: bytes) -> tuple[bytes, bytes]:
    """Convert a message of 0-9-1 to the sections before the body, and the body with its footer."""
    sections, content = _forward(properties, body)
    if _backward(sections, content) != (properties, body):
        annotations = readable_annotations(sections.annotations)
        annotations[names.PROPERTIES_091] = properties
        sections.annotations = write_annotations(annotations)
    return sections.encoded(), content


def _backward(sections: Sections, body: bytes) -> tuple[bytes, bytes]:
    properties, content = from_amqp10.convert(sections, body)
    carried = _changed(sections, body, properties, content)
    return (with_more_headers(properties, carried) if carried else properties), content


def _forward(properties: bytes, body: bytes) -> tuple[Sections, bytes]:
    at = headers_at(properties)
    if at and _PREFIX in properties:
        carried = _Carried(properties, at)
        if carried.found:
            return carried.restored(body)
    return to_amqp10.convert(properties, body)


def _original(sections: Sections, body: bytes) -> tuple[bytes, bytes] | None:
    """The properties and body that a message had in 0-9-1, if it carries them and has not been changed since.

    None otherwise. Removes the carried properties from `sections`.
    """
    try:
        annotations = read_annotations(sections.annotations)
        properties = annotations.pop(names.PROPERTIES_091, None)
        if not isinstance(properties, bytes):
            return None
        scan(properties)
        sections.annotations = write_annotations(annotations)
        data = split_body(body).data
        candidates = [body] if decode_properties(properties).type == names.ENCODED_TYPE else []
        if data is not None:
            candidates.append(b"".join(data))
        for candidate in candidates:
            again, content = _forward(properties, candidate)
            if _same_body(content, body) and _same(again, sections):
                return properties, candidate
    except (DecodeError, SyntaxFault):
        # A client wrote the annotation, or a section cannot be decoded.
        return None
    return None


def _same(left: Sections, right: Sections) -> bool:
    return (
        _canonical_header(left.header) == _canonical_header(right.header)
        and _without_address(left.annotations) == _without_address(right.annotations)
        and _canonical_properties(left.properties) == _canonical_properties(right.properties)
        and _canonical_application(left.application) == _canonical_application(right.application)
    )


def _same_body(left: bytes, right: bytes) -> bool:
    if left == right:
        return True
    mine, theirs = split_body(left), split_body(right)
    return mine.data is not None and mine.data == theirs.data and mine.footer == theirs.footer


# Canonical encodings: equal values have equal encodings. They raise DecodeError for a section that cannot be decoded.


def _canonical_header(section: bytes) -> tuple[bool, int | None, int | None]:
    fields = read_header(section)
    return fields.durable is True, fields.priority, fields.ttl


def _canonical_annotations(section: bytes) -> bytes:
    return write_annotations(read_annotations(section))


def _without_address(section: bytes) -> bytes:
    """Canonical annotations without those that the broker adds for receivers: exchange and routing key."""
    annotations = read_annotations(section)
    annotations.pop(names.EXCHANGE, None)
    annotations.pop(names.ROUTING_KEY, None)
    return write_annotations(annotations)


def _canonical_properties(section: bytes) -> bytes:
    return write_properties(read_properties(section)) if section else b""


def _canonical_application(section: bytes) -> bytes:
    return write_application(read_application(section)) if section else b""


def _changed(sections: Sections, body: bytes, properties: bytes, content: bytes) -> list[tuple[str, bytes]]:
    """The headers that carry the sections which converting `properties` and `content` back would not restore."""
    again, _ = to_amqp10.convert(properties, content)
    carried: list[tuple[str, bytes]] = []
    if _says_more(sections.header):
        carried.append((names.CARRIED_HEADER, sections.header))
    if _differs(sections.annotations, again.annotations, _canonical_annotations):
        carried.append((names.CARRIED_ANNOTATIONS, sections.annotations))
    if _differs(sections.properties, again.properties, _canonical_properties):
        carried.append((names.CARRIED_PROPERTIES, sections.properties))
    if _differs(sections.application, again.application, _canonical_application):
        carried.append((names.CARRIED_APPLICATION, sections.application))
    try:
        parts = split_body(body)
    except DecodeError:
        return carried
    # The content differs from the body only if it was taken out of data sections.
    if parts.data is not None and (content != body or not body):
        if parts.footer:
            carried.append((names.CARRIED_FOOTER, parts.footer))
        if len(parts.data) != 1:
            carried.append((names.CARRIED_DATA, b"".join(len(each).to_bytes(4, "big") for each in parts.data)))
    return carried


def _says_more(header: bytes) -> bool:
    """Whether a header has fields that 0-9-1 has no property for, or cannot be decoded."""
    try:
        fields = read_header(header)
    except DecodeError:
        return True
    return bool(fields.first_acquirer) or bool(fields.delivery_count)


def _differs(mine: bytes, theirs: bytes, canonical: Callable[[bytes], bytes]) -> bool:
    if mine == theirs:
        return False
    try:
        return canonical(mine) != theirs
    except DecodeError:
        return True


def with_more_headers(properties: bytes, headers: list[tuple[str, bytes]]) -> bytes:
    """Append headers with binary values to encoded properties."""
    at = headers_at(properties)
    w = BytesWriter()
    start = begin_sized(w)
    if at:
        w.write(properties[at + 4 : _table_end(properties, at)])
    for name, value in headers:
        push_shortstr(w, name, "")
        w.append(TAG_BYTES)
        push_longstr(w, value, "")
    end_sized(w, start)
    if at:
        return properties[:at] + w.getvalue() + properties[_table_end(properties, at) :]
    return with_headers(with_empty_headers(properties), w.getvalue())


def with_empty_headers(properties: bytes) -> bytes:
    """Add an empty table of headers to encoded properties without one."""
    flagged = bytes([properties[0] | HEADERS >> 8]) + properties[1:]
    at = headers_at(flagged)
    return flagged[:at] + b"\x00\x00\x00\x00" + flagged[at:]


def _table_end(properties: bytes, at: i64) -> i64:
    return at + 4 + (i64(read_i32_be(properties, at)) & 0xFFFF_FFFF)


@final
class _Carried:
    """The carried sections among the headers of a message of 0-9-1, and the properties without these headers."""

    def __init__(self, properties: bytes, at: i64) -> None:
        self.found: dict[str, bytes] = {}
        end = _table_end(properties, at)
        w = BytesWriter()
        start = begin_sized(w)
        pos = at + 4
        while pos < end:
            name, value_at = pull_shortstr(properties, pos)
            value, after = tables.pull_value(properties, value_at)
            if name in _CARRIED and name not in self.found and isinstance(value, bytes) and _is_whole(name, value):
                self.found[name] = value
            else:
                w.write(properties[pos:after])
            pos = after
        end_sized(w, start)
        if len(w) > 4:
            self.properties = properties[:at] + w.getvalue() + properties[end:]
        else:
            # There were only carried headers, so the message had no table of headers.
            bare = properties[:at] + properties[end:]
            self.properties = bytes([bare[0] & ~(HEADERS >> 8)]) + bare[1:]

    def restored(self, body: bytes) -> tuple[Sections, bytes]:
        fresh, fresh_body = to_amqp10.convert(self.properties, body)
        whole = Sections(fresh.header, fresh.annotations, fresh.properties, fresh.application)
        found = self.found
        for name, value in found.items():
            if name == names.CARRIED_HEADER:
                whole.header = value
            elif name == names.CARRIED_ANNOTATIONS:
                whole.annotations = value
            elif name == names.CARRIED_PROPERTIES:
                whole.properties = value
            elif name == names.CARRIED_APPLICATION:
                whole.application = value
        content = self._body(body, fresh_body)
        again, body_again = from_amqp10.convert(whole, content)
        if body_again != body:
            # The body has been changed: the carried sizes of data sections do not fit it.
            content = fresh_body
        if again != self.properties:
            whole = merged(whole, again, fresh, self.properties)
        return whole, content

    def _body(self, body: bytes, fresh: bytes) -> bytes:
        """The body in the data sections that it had in 1.0."""
        footer = self.found.get(names.CARRIED_FOOTER, b"")
        sizes = self.found.get(names.CARRIED_DATA)
        if split_body(fresh).data is None:
            return fresh
        if sizes is None:
            return fresh + footer
        sections: list[bytes] = []
        pos: i64 = 0
        for at in range(0, len(sizes) - 3, 4):
            size = i64(read_i32_be(sizes, at)) & 0xFFFF_FFFF
            sections.append(data_section(body[pos : pos + size]))
            pos += size
        return (b"".join(sections) if pos == len(body) else fresh) + footer


_CARRIED: Final = (
    names.CARRIED_HEADER,
    names.CARRIED_ANNOTATIONS,
    names.CARRIED_PROPERTIES,
    names.CARRIED_APPLICATION,
    names.CARRIED_FOOTER,
    names.CARRIED_DATA,
)


def _is_whole(name: str, value: bytes) -> bool:
    """Whether a carried header holds exactly one section of its kind: a client may have written anything there."""
    if name == names.CARRIED_DATA:
        return True
    try:
        if name == names.CARRIED_FOOTER:
            return split_body(value).footer == value
        return _section_of(split(value), name) == value
    except DecodeError:
        return False


def _section_of(sections: Sections, name: str) -> bytes:
    if name == names.CARRIED_HEADER:
        return sections.header
    if name == names.CARRIED_ANNOTATIONS:
        return sections.annotations
    return sections.properties if name == names.CARRIED_PROPERTIES else sections.application
