"""What of a message has a name: its headers by theirs, its properties by `properties.NAME` or as JMS calls them.

Selectors, message groups and last-value queues all name fields like this. Filters of AMQP 1.0 name fields of the
properties section, which have their types there.
"""

from typing import Final, final

from flintmq.base.errors import PreconditionFailed
from flintmq.base.work import WORK
from flintmq.broker.message import ContentCodec, Message, Table

_PREFIX: Final = "properties."
# The properties of AMQP 0-9-1, and those that AMQP 1.0 has beside them; a codec says what is nearest to the others'.
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
# amqp-1.0 part 3 §3.2.4.
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
# JMS 2.0 §3.8.1.1: the header fields that a selector may name.
_JMS: Final = {
    "JMSCorrelationID": "correlation_id",
    "JMSDeliveryMode": "delivery_mode",
    "JMSMessageID": "message_id",
    "JMSPriority": "priority",
    "JMSTimestamp": "creation_time",
    "JMSType": "type",
}

# Characters of a key that are put together in one unit of work.
_KEY_PER_UNIT: Final = 4_096

# How a field is found.
_HEADER: Final = 0
_PROPERTY: Final = 1
_DELIVERY_MODE: Final = 2
_PRIORITY: Final = 3


@final
class _LastRead:
    """The headers decoded last: many questions are asked of one message, and publishers repeat themselves."""

    def __init__(self) -> None:
        self.codec: ContentCodec | None = None
        self.properties = b""
        self.headers: Table = {}


_LAST: Final = _LastRead()


@final
class Field:
    """One field, by its name. Raises PreconditionFailed for a property there is not.

    With `is_header`, the name is a header's whatever it looks like.
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
                raise PreconditionFailed(f"there is no property '{self._key}'; there are {', '.join(_PROPERTIES)}")

    def is_there(self, message: Message) -> bool:
        """Whether a message has this header, if it is one."""
        return self._key in headers_of(message)

    def read(self, message: Message) -> object:
        """The field's value; None where the message has none."""
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
    """One of SECTION_FIELDS, as it would be in AMQP 1.0: text, a number, or bytes (binary and UUID)."""

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, message: Message) -> object:
        return message.codec.section_value(message.properties, self.name)


def headers_of(message: Message) -> Table:
    """A message's headers, for a look only: others who ask about the same message get the same table."""
    last = _LAST
    if last.properties is not message.properties or last.codec is not message.codec:
        last.headers = message.codec.headers(message.properties)
        last.properties = message.properties
        last.codec = message.codec
    return last.headers


def key_of(field: Field, message: Message) -> str | None:
    """A field's value as a key: the same text for equal values of one type. None where there is none."""
    value = field.read(message)
    if value is None:
        return None
    key = f"s{value}" if isinstance(value, str) else f"{type(value).__name__} {value!r}"
    WORK.spent += len(key) // _KEY_PER_UNIT
    return key
