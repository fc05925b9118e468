"""Reads and edits messages that came by AMQP 1.0: the sections before the body, as their sender encoded them.

The bare message is never changed (amqp-1.0 part 3 §3.2). The broker writes only the header and message-annotations.
"""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import DecodeError, PreconditionFailed
from flintmq.base.limits import DECODED_BYTES_PER_UNIT, DELAY_MAX_MS
from flintmq.base.work import WORK
from flintmq.broker.exchange.headers import same
from flintmq.broker.message import FOREVER, PAUSE, RESUME, UNSTATED, ContentCodec, MessageOptions, Table
from flintmq.gateway.conversion import names
from flintmq.gateway.conversion.ids import id_to_091, reply_to_091
from flintmq.gateway.conversion.parts import (
    HeaderFields,
    Sections,
    read_annotations,
    read_header,
    readable_annotations,
    readable_application,
    readable_header,
    readable_properties,
    split,
    write_annotations,
    write_header,
)
from flintmq.gateway.conversion.plain import annotation_of, annotations_as_headers, application_as_headers
from flintmq.wire.amqp10.composite import Annotations
from flintmq.wire.amqp10.properties import Properties
from flintmq.wire.amqp10.spec import UINT_MAX
from flintmq.wire.amqp10.values import ULong, Uuid, WrappedInt

# Annotations that delay a message, cancel a delayed message, or give a queue a command. The names are those of the
# headers of AMQP 0-9-1, and those that clients of other brokers use.
DELAY: Final = ("x-opt-delivery-delay", "x-delay")
DELIVER_AT: Final = ("x-opt-delivery-time", "x-deliver-at")
CANCEL: Final = "x-delay-cancel"
COMMAND: Final = "x-queue-command"
_ASKING: Final = (b"x-opt-delivery-", b"x-del", b"x-queue-command")


@final
class Codec10(ContentCodec):
    format = 2
    nothing = b""
    dates_deaths = True

    def __init__(self) -> None:
        # The sections that were decoded last: many selectors read the same message.
        self._encoded: bytes | None = None
        self._sections = Sections()
        self._properties: Properties | None = None

    def _split(self, properties: bytes) -> Sections:
        if properties is not self._encoded:
            self._sections = split(properties)
            self._properties = None
            self._encoded = properties
        return self._sections

    def _fields(self, properties: bytes) -> Properties:
        sections = self._split(properties)
        found = self._properties
        if found is None:
            WORK.spent += len(sections.properties) // DECODED_BYTES_PER_UNIT
            found = readable_properties(sections.properties)
            self._properties = found
        return found

    def headers(self, properties: bytes) -> Table:
        """The headers of a message: its application-properties, and annotations that are headers in AMQP 0-9-1."""
        sections = self._split(properties)
        found: Table = {}
        WORK.spent += len(properties) // DECODED_BYTES_PER_UNIT
        if sections.application:
            application_as_headers(readable_application(sections.application), found)
        if sections.annotations:
            annotations_as_headers(readable_annotations(sections.annotations), found)
        return found

    def property_text(self, properties: bytes, name: str) -> str:
        if name == "expiration":
            ttl = readable_header(self._split(properties).header).ttl
            return "" if ttl is None else str(ttl)
        value = self.property_value(properties, name)
        return "" if value is None else str(value)

    def property_value(self, properties: bytes, name: str) -> object:
        if name == "delivery_mode" or name == "priority" or name == "expiration":
            header = readable_header(self._split(properties).header)
            if name == "priority":
                return header.priority
            if name == "expiration":
                return None if header.ttl is None else str(header.ttl)
            return 2 if header.durable else 1
        if name == "type":
            annotations = self._split(properties).annotations
            WORK.spent += len(annotations) // DECODED_BYTES_PER_UNIT
            kind = readable_annotations(annotations).get(names.TYPE)
            # JMSType is mapped to the subject.
            return kind if isinstance(kind, str) else self._fields(properties).subject
        found = self._fields(properties)
        if name == "message_id" or name == "correlation_id":
            value = found.message_id if name == "message_id" else found.correlation_id
            # A text is returned whole, even if it is too long for a short string of AMQP 0-9-1.
            return value if isinstance(value, str) else id_to_091(value)
        if name == "user_id":
            return None if found.user_id is None else found.user_id.decode(errors="replace")
        if name == "reply_to":
            return None if found.reply_to is None else reply_to_091(found.reply_to) or found.reply_to
        if name == "timestamp":
            return None if found.creation_time is None else found.creation_time // 1000
        if name == "app_id":
            return found.group_id
        # AMQP 1.0 has nothing like the reserved cluster-id.
        return None if name == "cluster_id" else getattr(found, name)

    def section_value(self, properties: bytes, name: str) -> object:
        if name == "priority":
            return readable_header(self._split(properties).header).priority
        value = getattr(self._fields(properties), name)
        if isinstance(value, ULong):
            return value.value
        return value.raw if isinstance(value, Uuid) else value

    def options(self, properties: bytes) -> MessageOptions:
        sections = self._split(properties)
        try:
            return options(sections)
        except (DecodeError, PreconditionFailed):
            # An earlier release stored the message without checking these annotations.
            return MessageOptions(readable_header(sections.header).durable is True)

    def edited(self, properties: bytes, headers: Table, keeps_expiration: bool) -> bytes:
        """Write changed `headers` into message-annotations; without `keeps_expiration` the header loses its ttl.

        Application-properties belong to the sender and do not change.
        """
        sections = split(properties)
        before = self.headers(properties)
        header = sections.header
        if not keeps_expiration and header:
            fields = readable_header(header)
            if fields.ttl is not None:
                fields.ttl = None
                header = write_header(fields)
        annotations = readable_annotations(sections.annotations)
        _edit(annotations, before, headers)
        return Sections(header, write_annotations(annotations), sections.properties, sections.application).encoded()

    def annotated(self, properties: bytes, annotations: Table) -> bytes:
        """Add `annotations` to the message-annotations. Their values are those of AMQP 1.0, as a receiver sent them."""
        sections = split(properties)
        found = readable_annotations(sections.annotations)
        for name, value in annotations.items():
            found[name] = value
        sections.annotations = write_annotations(found)
        return sections.encoded()

    def failed(self, properties: bytes, times: int) -> bytes:
        """Add `times` to the delivery-count in the header (amqp-1.0 part 3 §3.2.1)."""
        sections = split(properties)
        fields = readable_header(sections.header)
        fields.delivery_count = min((fields.delivery_count or 0) + times, UINT_MAX)
        sections.header = write_header(fields)
        return sections.encoded()


CODEC_10: Final = Codec10()


def _edit(annotations: Annotations, before: Table, after: Table) -> None:
    for name in before:
        if name not in after:
            annotations.pop(_annotation_named(name), None)
    for name, value in after.items():
        if name not in before or not same(before[name], value):
            annotations[_annotation_named(name)] = annotation_of(name, value)


def _annotation_named(header: str) -> str:
    if header == names.COPIES_HEADER:
        return names.COPIES
    return names.DEATHS if header == names.DEATHS_HEADER else header


def options(sections: Sections) -> MessageOptions:
    """Read the publish options in the sections of a message.

    Raises DecodeError for malformed sections, PreconditionFailed for a delay, cancellation or command that is invalid.
    """
    header = read_header(sections.header)
    # Without a priority, the message ranks with messages of AMQP 0-9-1 that have none (RabbitMQ).
    priority = UNSTATED if header.priority is None else header.priority
    ttl: i64 = FOREVER if header.ttl is None else header.ttl
    encoded = sections.annotations
    if encoded and any(each in encoded for each in _ASKING):
        return _asking(header, priority, ttl, read_annotations(encoded))
    return _centred(MessageOptions(header.durable is True, priority, ttl))


def _asking(header: HeaderFields, priority: int, ttl: i64, annotations: Annotations) -> MessageOptions:
    delay: i64 = 0
    until: i64 = 0
    for name in DELAY:
        asked = _number(annotations.get(name))
        if asked > DELAY_MAX_MS:
            raise PreconditionFailed(f"invalid annotation '{name}': {asked} ms is more than {DELAY_MAX_MS}")
        if asked > 0:
            delay = asked
    for name in DELIVER_AT:
        moment = _number(annotations.get(name))
        if 0 < moment < 2**60:
            until = moment
    cancels = annotations.get(CANCEL, "")
    if not isinstance(cancels, str) or (CANCEL in annotations and cancels == ""):
        raise PreconditionFailed(f"invalid annotation '{CANCEL}': the message-id of a delayed message is due")
    command = annotations.get(COMMAND, "")
    if not isinstance(command, str) or (COMMAND in annotations and command not in (PAUSE, RESUME)):
        raise PreconditionFailed(f"invalid annotation '{COMMAND}': {PAUSE} or {RESUME} is due")
    return _centred(MessageOptions(header.durable is True, priority, ttl, delay, until, cancels, command))


def _centred(options: MessageOptions) -> MessageOptions:
    # Without a priority, the message is treated as one of AMQP 0-9-1 without a priority.
    options.is_centred = options.priority > 0
    return options


def _number(value: object) -> int:
    if isinstance(value, WrappedInt):
        return value.value
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
