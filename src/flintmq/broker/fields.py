"""Named fields of messages: headers by name, properties as `properties.NAME` or by their JMS names.

Selectors, message groups and last-value queues use these names. Filters of AMQP 1.0 name fields of the properties
section, with the types that these have in AMQP 1.0.
"""

from typing import Final, final

from flintmq.base.errors import PreconditionFailed
from flintmq.base.work import WORK
from flintmq.broker.message import ContentCodec, Message, Table

_PREFIX: Final = "properties."
# The properties of AMQP 0-9-1, and those that only AMQP 1.0 has. Each codec returns the nearest property of its own
# protocol.
_PROPERTIES: Final = (
    "content_type",
    "content_encoding",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "timestamp",
    "type",
    "user_id",
    "app_id",
    "to",
    "subject",
    "creation_time",
    "absolute_expiry_time",
    "group_id",
    "group_sequence",
    "reply_to_group_id",
)
# The fields of the properties section (amqp-1.0 part 3 §3.2.4).
SECTION_FIELDS: Final = (
    "message_id",
    "user_id",
    "to",
    "subject",
    "reply_to",
    "correlation_id",
    "content_type",
    "content_encoding",
    "absolute_expiry_time",
    "creation_time",
    "group_id",
    "group_sequence",
    "reply_to_group_id",
)
# The header fields that a selector may name (JMS 2.0 §3.8.1.1).
_JMS: Final = {
    "JMSCorrelationID": "correlation_id",
    "JMSDeliveryMode": "delivery_mode",
    "JMSMessageID": "message_id",
    "JMSPriority": "priority",
    "JMSTimestamp": "creation_time",
    "JMSType": "type",
}

# Characters of a key that are assembled in one unit of work.
_KEY_PER_UNIT: Final = 4_096

# The ways in which a field is read.
_HEADER: Final = 0
_PROPERTY: Final = 1
_DELIVERY_MODE: Final = 2
_PRIORITY: Final = 3


@final
class _LastRead:
    """A cache of the headers decoded last: one message is asked many times, and publishers repeat headers."""

    def __init__(self) -> None:
        self.codec: ContentCodec | None = None
        self.properties = b""
        self.headers: Table = {}


_LAST: Final = _LastRead()


@final
class Field:
    """A named field. Raises PreconditionFailed for an unknown property.

    With `is_header`, the name is always a header's.
    """

    def __init__(self, name: str, is_header: bool = False) -> None:
        self.name = name
        self._found_by = _HEADER
        self._key = name
        if is_header:
            return
        if name in _JMS:
            self._key = _JMS[name]
            self._found_by = _PROPERTY
            if self._key == "delivery_mode":
                self._found_by = _DELIVERY_MODE
            elif self._key == "priority":
                self._found_by = _PRIORITY
        elif name.startswith(_PREFIX):
            self._key = name[len(_PREFIX) :]
            self._found_by = _PROPERTY
            if self._key not in _PROPERTIES:
                raise PreconditionFailed(
                    f"property '{self._key}' is unknown; known properties: {', '.join(_PROPERTIES)}"
                )

    def is_there(self, message: Message) -> bool:
        """Whether a message has this header; False if the field is not a header."""
        return self._key in headers_of(message)

    def read(self, message: Message) -> object:
        """Return the field's value, or None if the message has none."""
        found_by = self._found_by
        if found_by == _HEADER:
            return headers_of(message).get(self._key)
        if found_by == _DELIVERY_MODE:
            return "PERSISTENT" if message.options.persistent else "NON_PERSISTENT"
        if found_by == _PRIORITY:
            return max(0, int(message.options.priority))
        return message.codec.property_value(message.properties, self._key)


@final
class SectionField:
    """One of SECTION_FIELDS, with its type in AMQP 1.0: text, number, or bytes (binary and UUID)."""

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, message: Message) -> object:
        return message.codec.section_value(message.properties, self.name)


def headers_of(message: Message) -> Table:
    """Return a message's headers, shared with other callers: the caller must not change them."""
    last = _LAST
    if last.properties is not message.properties or last.codec is not message.codec:
        last.headers = message.codec.headers(message.properties)
        last.properties = message.properties
        last.codec = message.codec
    return last.headers


def key_of(field: Field, message: Message) -> str | None:
    """Return a field's value as text that is the same for equal values of one type, or None without a value."""
    value = field.read(message)
    if value is None:
        return None
    key = f"s{value}" if isinstance(value, str) else f"{type(value).__name__} {value!r}"
    WORK.spent += len(key) // _KEY_PER_UNIT
    return key
