"""Converts messages from AMQP 0-9-1 to 1.0 as RabbitMQ does, but keeps headers that are lists, tables or decimals."""

from typing import Final

from mypy_extensions import i64

from flintmq.base.errors import DecodeError
from flintmq.gateway.conversion import deaths, names, tables
from flintmq.gateway.conversion.from_amqp10 import headers_at
from flintmq.gateway.conversion.ids import id_to_10, reply_to_10
from flintmq.gateway.conversion.parts import (
    HeaderFields,
    Sections,
    data_section,
    split_body,
    write_annotations,
    write_application,
    write_header,
    write_properties,
)
from flintmq.wire.amqp091.properties import Properties, decode_properties
from flintmq.wire.amqp10.composite import Annotations
from flintmq.wire.amqp10.properties import Properties as Properties10

_PERSISTENT: Final = 2
_TRANSIENT: Final = 1
_UINT_MAX: Final = 2**32 - 1
_MS_MAX: Final = 2**63 - 1
# The content-encoding that means no encoding (RFC 2616 §3.5).
_IDENTITY: Final = "identity"
# Headers with the names of annotations that only conversion may write.
_OURS: Final = (names.HEADERS, names.PROPERTIES_091)
# The maximum depth of nested lists and tables: sections around them take a few of the levels that 1.0 allows.
_NESTED_MAX: Final = 60


def convert(encoded: bytes, body: bytes) -> tuple[Sections, bytes]:
    """Convert encoded properties and a body to the sections before the body, and the body with its footer.

    The properties must be valid: they were checked at publishing.
    """
    properties = decode_properties(encoded)
    at = headers_at(encoded)
    table = tables.pull_table(encoded, at) if at else {}
    annotations, application = _sorted(table)
    content = _encoded_body(properties, body)
    kind = properties.type
    # The type "amqp-1.0" is left out if the body is no data, because that implies it, and if the body is not encoded
    # as in 1.0, because the type is wrong then.
    if kind is not None and (kind != names.ENCODED_TYPE if content is None else _is_data(content)):
        annotations[names.TYPE] = kind
    found = _properties(properties)
    if content is None or _is_data(content):
        found.content_encoding = _content_encoding(properties)
    sections = Sections(
        write_header(_header(properties)),
        write_annotations(annotations),
        write_properties(found),
        write_application(application),
    )
    return sections, data_section(body) if content is None else content


def _encoded_body(properties: Properties, body: bytes) -> bytes | None:
    """The body if its type says that it is encoded as in 1.0, and it is; None otherwise."""
    if properties.type != names.ENCODED_TYPE:
        return None
    try:
        split_body(body)
    except DecodeError:
        return None
    return body


def _is_data(body: bytes) -> bool:
    return split_body(body).data is not None


def _header(properties: Properties) -> HeaderFields:
    fields = HeaderFields(priority=properties.priority)
    if properties.delivery_mode is not None:
        fields.durable = properties.delivery_mode == _PERSISTENT
    expiration = properties.expiration
    if expiration is not None and expiration.isascii() and expiration.lstrip("+").isdigit():
        fields.ttl = min(int(expiration), _UINT_MAX)
    return fields


def _properties(properties: Properties) -> Properties10:
    found = Properties10()
    if properties.message_id is not None:
        found.message_id = id_to_10(properties.message_id)
    if properties.correlation_id is not None:
        found.correlation_id = id_to_10(properties.correlation_id)
    if properties.user_id is not None:
        found.user_id = properties.user_id.encode()
    if properties.reply_to is not None:
        found.reply_to = reply_to_10(properties.reply_to)
    # The content-type is a symbol, which must be ASCII.
    if properties.content_type is not None and properties.content_type.isascii():
        found.content_type = properties.content_type
    if properties.timestamp is not None and properties.timestamp * 1000 <= _MS_MAX:
        found.creation_time = properties.timestamp * 1000
    found.group_id = properties.app_id
    return found


def _content_encoding(properties: Properties) -> str | None:
    """The content-encoding without "identity"; None if nothing is left (amqp-1.0 part 3 §3.2.4).

    It must only be set for a body of data sections.
    """
    said = properties.content_encoding
    if said is None or not said.isascii():
        return None
    encodings = said.split(",")
    left = [each for each in encodings if each.strip().lower() != _IDENTITY]
    if len(left) == len(encodings):
        return said
    return ",".join(left).strip() or None


def _sorted(table: dict[str, object]) -> tuple[Annotations, dict[str, object]]:
    """Split headers into those that become annotations, and those that become application-properties."""
    annotations: Annotations = {}
    application: dict[str, object] = {}
    others: dict[object, object] = {}
    for name, value in table.items():
        is_nested = isinstance(value, (list, dict))
        if is_nested and _depth(value) > _NESTED_MAX:
            continue
        if name == names.COPIES_HEADER and isinstance(value, list):
            annotations[names.COPIES] = value
        elif name == names.DEATHS_HEADER and (history := deaths.to_10(value)) is not None:
            annotations[names.DEATHS] = history
        elif name in _OURS:
            others[name] = value
        elif name.startswith("x-") and name.isascii():
            annotations[name] = value
        elif is_nested:
            others[name] = value
        else:
            application[name] = value
    if others:
        annotations[names.HEADERS] = others
    return annotations, application


def _depth(value: object) -> i64:
    deepest: i64 = 0
    if isinstance(value, list):
        for item in value:
            deepest = max(deepest, _depth(item))
        return deepest + 1
    if isinstance(value, dict):
        for item in value.values():
            deepest = max(deepest, _depth(item))
        return deepest + 1
    return 0
