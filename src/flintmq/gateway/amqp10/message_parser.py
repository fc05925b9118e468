"""Parses published messages. Publish options are decoded once for consecutive messages with the same sections.

The options are in the header and in message-annotations, which publishers repeat. The bare message is read only for a
user-id, and for an address that is in `to` or `subject`.
"""

from typing import Final, final

from librt.strings import read_i32_be
from mypy_extensions import i64

from flintmq.base.errors import SCOPE_LINK, AccessRefused, DecodeError, InvalidField
from flintmq.broker.access.user import User
from flintmq.broker.message import TRANSIENT, MessageOptions
from flintmq.gateway.amqp10.annotations import check_annotations
from flintmq.gateway.amqp10.codec import options
from flintmq.gateway.conversion.parts import split
from flintmq.wire.amqp10.composite import Annotations
from flintmq.wire.amqp10.reader import Reader
from flintmq.wire.amqp10.sections import (
    ABSENT,
    decode_delivery_annotations,
    decode_footer,
    decode_message_annotations,
    scan,
    section_at,
)
from flintmq.wire.amqp10.spec import AMQP_VALUE, APPLICATION_PROPERTIES, DATA, ERROR, PROPERTIES, SYMBOLS
from flintmq.wire.amqp10.states import Error
from flintmq.wire.amqp10.types import (
    DESCRIBED,
    LIST0,
    LIST8,
    LIST32,
    MAP8,
    MAP32,
    NULL,
    SMALLULONG,
    STR8,
    STR32,
    VBIN8,
    VBIN32,
    skip_value,
)
from flintmq.wire.amqp10.values import Described, Symbol, ULong

# Indexes of fields in the properties section (amqp-1.0 part 3 §3.2.4).
_USER_ID: Final = 1
_TO: Final = 2
_SUBJECT: Final = 3
# The size of a section with an empty text: three bytes of descriptor, type code and size.
_BODY_BYTES_MIN: Final = 5
# A prefix that no message has.
_UNKNOWN: Final = b"\xff"
# The annotation that holds routing keys in addition to that of the address (RabbitMQ).
_COPIES: Final = "x-cc"
# The delivery-annotation of a message that another node has rejected (part 3 §3.2.2).
_REJECTED: Final = "rejected"


@final
class PublishOptions:
    """Options of a published message. `more_keys` are routing keys in addition to that of the address; None: none."""

    def __init__(self, message_options: MessageOptions, more_keys: list[str] | None) -> None:
        self.message_options = message_options
        self.more_keys = more_keys


_NO_OPTIONS: Final = PublishOptions(TRANSIENT, None)


@final
class MessageParser:
    """Parses one message after the other. `properties` and `body` are those of the last one, as a queue keeps them.

    `is_strict`: unknown annotations with the prefix "x-" are refused, as the specification says.
    """

    def __init__(self, user: User, is_strict: bool = False) -> None:
        self.properties = b""
        self.body = b""
        self._user = user
        self._is_strict = is_strict
        # The sections of the last message before its body, and those of them that hold its publish options.
        self._before = _UNKNOWN
        self._lead = b""
        self._publish_options = _NO_OPTIONS
        self._fields_at: i64 = -1
        self._fields_end: i64 = 0
        self._payload = b""

    def read_at(self, data: bytes, start: i64, stop: i64) -> PublishOptions:
        """Parse the message data[start:stop], mostly from what is known of the last one.

        Raises DecodeError if it is malformed, AmqpError or Amqp10Error if its options or its user-id are refused.
        """
        before = self._before
        size: i64 = len(before)
        body: i64 = start + size
        if (size == 0 or data[start:body] == before) and _is_plain_body(data, body, stop):
            # Only the body differs from the last message.
            self.body = data[body:stop]
            self._check_user()
            return self._publish_options
        lead = self._lead
        body = start + len(lead)
        if not lead or data[start:body] == lead:
            fields, body = _skip_bare(data, body, stop)
            if body != ABSENT:
                # The publish options are those of the last message.
                self._before = _UNKNOWN
                self.properties = data[start:body]
                self.body = data[body:stop]
                self._payload = self.properties
                self._fields_at = -1 if fields == ABSENT else fields - start
                self._check_user()
                self._before = self.properties
                return self._publish_options
        return self.read(data[start:stop])

    def read(self, payload: bytes) -> PublishOptions:
        """Parse the message `payload`. Raises the same errors as `read_at`."""
        found = scan(payload)
        if found.body == ABSENT:
            raise DecodeError("a message has no body", SCOPE_LINK)
        lead = payload[: found.bare]
        if found.delivery_annotations == ABSENT:
            self.properties = payload[: found.body]
        else:
            # Delivery-annotations end at the next hop, which is this broker.
            _check_hop(decode_delivery_annotations(payload, found.delivery_annotations), self._is_strict)
            stop = found.bare if found.message_annotations == ABSENT else found.message_annotations
            lead = payload[: found.delivery_annotations] + payload[stop : found.bare]
            self.properties = lead + payload[found.bare : found.body]
        if found.footer != ABSENT:
            check_annotations(decode_footer(payload, found.footer), self._is_strict)
        self.body = payload[found.body :]
        self._before = _UNKNOWN
        self._fields_at = -1
        if lead != self._lead:
            self._publish_options = _read_publish_options(lead, self._is_strict)
            self._lead = lead
        self._payload = payload
        if found.properties != ABSENT:
            self._fields_at = section_at(payload, found.properties, found.end)[1]
        self._check_user()
        self._before = self.properties if found.delivery_annotations == ABSENT else payload[: found.body]
        return self._publish_options

    def _check_user(self) -> None:
        at = self._field(_USER_ID)
        if at >= 0:
            claimed = self._reader(at).binary().decode(errors="replace")
            if claimed != self._user.name and not self._user.may_impersonate:
                raise AccessRefused(
                    f"user_id property set to '{claimed}' but authenticated user was '{self._user.name}'"
                )

    @property
    def to(self) -> str | None:
        """The `to` of the last message; None if it is not set. Raises DecodeError."""
        at = self._field(_TO)
        return None if at < 0 else self._reader(at).string()

    @property
    def subject(self) -> str | None:
        at = self._field(_SUBJECT)
        return None if at < 0 else self._reader(at).string()

    def _reader(self, at: i64) -> Reader:
        return Reader(self._payload, at, self._fields_end)

    def _field(self, index: i64) -> i64:
        """The position of the field with this index in the properties; -1 if it is not set. Raises DecodeError."""
        at = self._fields_at
        if at < 0:
            return -1
        data = self._payload
        code: i64 = data[at]
        count: i64 = 0
        end = skip_value(data, at, len(data))
        if code == LIST0:
            return -1
        if code == LIST8:
            if end - at > 2:
                count = data[at + 2]
            at += 3
        else:
            if end - at > 8:
                count = i64(read_i32_be(data, at + 5))
            at += 9
        if count <= index:
            return -1
        while index > 0:
            at = skip_value(data, at, end)
            index -= 1
        if at >= end:
            raise DecodeError(f"properties have {count} fields and end before the last", SCOPE_LINK)
        self._fields_end = end
        return -1 if data[at] == NULL else at


def _skip_bare(data: bytes, pos: i64, end: i64) -> tuple[i64, i64]:
    """Find the fields of the properties and the start of the body, if the sections at `pos` have the usual encoding.

    Returns ABSENT for the fields without properties, and ABSENT for the body if the encoding is another.
    """
    fields: i64 = ABSENT
    try:
        if _is_section(data, pos, end, PROPERTIES):
            code: i64 = data[pos + 3]
            if code != LIST8 and code != LIST32:
                return fields, ABSENT
            fields = pos + 3
            pos = skip_value(data, fields, end)
        if _is_section(data, pos, end, APPLICATION_PROPERTIES):
            code = data[pos + 3]
            if code != MAP8 and code != MAP32:
                return fields, ABSENT
            pos = skip_value(data, pos + 3, end)
    except DecodeError:
        # The slow path parses the message again, and reports the error with its position.
        return fields, ABSENT
    return fields, pos if _is_plain_body(data, pos, end) else ABSENT


def _is_section(data: bytes, pos: i64, end: i64, kind: i64) -> bool:
    return end - pos > 3 and data[pos + 2] == kind and data[pos] == DESCRIBED and data[pos + 1] == SMALLULONG


def _is_plain_body(data: bytes, pos: i64, end: i64) -> bool:
    """Whether pos:end is one body section in the usual encoding: a data section, or an amqp-value that is a text."""
    if end - pos < _BODY_BYTES_MIN or data[pos] != DESCRIBED or data[pos + 1] != SMALLULONG:
        return False
    kind: i64 = data[pos + 2]
    code: i64 = data[pos + 3]
    if not (kind == DATA and (code == VBIN8 or code == VBIN32)) and not (
        kind == AMQP_VALUE and (code == STR8 or code == STR32)
    ):
        return False
    if code == VBIN8 or code == STR8:
        return pos + _BODY_BYTES_MIN + data[pos + 4] == end
    if end - pos < _BODY_BYTES_MIN + 3:
        return False
    return pos + _BODY_BYTES_MIN + 3 + (i64(read_i32_be(data, pos + 4)) & 0xFFFF_FFFF) == end


def _read_publish_options(lead: bytes, is_strict: bool) -> PublishOptions:
    at = scan(lead).message_annotations
    annotations = {} if at == ABSENT else decode_message_annotations(lead, at)
    check_annotations(annotations, is_strict)
    return PublishOptions(options(split(lead)), _copies(annotations.get(_COPIES)))


def _check_hop(annotations: Annotations, is_strict: bool) -> None:
    """Check delivery-annotations. Raises InvalidField if `rejected` is no error, NotImplementedHere for other keys."""
    rejected = annotations.pop(_REJECTED, None)
    if rejected is not None and not isinstance(rejected, Error):
        described = rejected.descriptor if isinstance(rejected, Described) else None
        if described not in (ULong(ERROR), Symbol(SYMBOLS[ERROR])):
            raise InvalidField(f"the delivery-annotation '{_REJECTED}' is an error", SCOPE_LINK)
    check_annotations(annotations, is_strict)


def _copies(keys: object) -> list[str] | None:
    if keys is None:
        return None
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise InvalidField(f"bad value for 'x-cc' message-annotation: {keys!r:.200}", SCOPE_LINK)
    return [key for key in keys if isinstance(key, str)] or None
