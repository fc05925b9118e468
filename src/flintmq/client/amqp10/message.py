"""Messages of AMQP 1.0 (amqp-1.0 part 3 §3.2)."""

from typing import Final, final

from flintmq.base.errors import DecodeError
from flintmq.wire.amqp10 import sections, spec
from flintmq.wire.amqp10.composite import Annotations
from flintmq.wire.amqp10.properties import Header, Properties

_NO_PROPERTIES: Final = Properties()


@final
class Data:
    """A body of several data sections."""

    def __init__(self, parts: list[bytes]) -> None:
        self.parts = parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Data) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(tuple(self.parts))

    def __repr__(self) -> str:
        return f"Data({self.parts!r})"


@final
class Sequence:
    """A body of one or more amqp-sequence sections; each one is a list."""

    def __init__(self, lists: list[list[object]]) -> None:
        self.lists = lists

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self.lists == other.lists

    def __hash__(self) -> int:
        raise TypeError("a body of lists cannot be hashed")

    def __repr__(self) -> str:
        return f"Sequence({self.lists!r})"


@final
class Value:
    """A body of bytes as an amqp-value. Without this, bytes are a data section."""

    def __init__(self, value: bytes) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"Value({self.value!r})"


@final
class Message:
    """A message to send, or one that was received.

    Args:
        body: bytes (a data section), a `Data`, a `Sequence`, or any other value of AMQP (an amqp-value).
        properties: The properties of the message, such as its subject.
        application_properties: Properties of the application, by name.
        header: Without one, the message is durable. `Header(durable=False)` makes it transient.
        annotations: Message annotations, which stay with the message.
        delivery_annotations: Annotations for this delivery only.
        footer: Annotations that follow the body.
    """

    def __init__(
        self,
        body: object = b"",
        properties: Properties | None = None,
        application_properties: dict[str, object] | None = None,
        header: Header | None = None,
        annotations: Annotations | None = None,
        delivery_annotations: Annotations | None = None,
        footer: Annotations | None = None,
    ) -> None:
        self.body = body
        self.properties: Properties = properties or Properties()
        self.application_properties: dict[str, object] = application_properties or {}
        self.header: Header = header or Header(durable=True)
        self.annotations: Annotations = annotations or {}
        self.delivery_annotations: Annotations = delivery_annotations or {}
        self.footer: Annotations = footer or {}

    def __repr__(self) -> str:
        return f"Message({self.body!r}, {self.properties!r}, {self.application_properties!r})"

    def encode(self) -> bytes:
        """Encode the message. Raises LocalProtocolError if a value has no type in AMQP."""
        header = self.header
        parts = [
            sections.encode_header(
                header.durable, header.priority, header.ttl, header.first_acquirer, header.delivery_count
            )
        ]
        if self.delivery_annotations:
            parts.append(sections.encode_delivery_annotations(self.delivery_annotations))
        if self.annotations:
            parts.append(sections.encode_message_annotations(self.annotations))
        if self.properties != _NO_PROPERTIES:
            parts.append(sections.encode_properties(self.properties))
        if self.application_properties:
            parts.append(sections.encode_application_properties(self.application_properties))
        parts += self._body_sections()
        if self.footer:
            parts.append(sections.encode_footer(self.footer))
        return b"".join(parts)

    def _body_sections(self) -> list[bytes]:
        body = self.body
        if isinstance(body, bytes):
            return [sections.encode_data(body)]
        if isinstance(body, Data):
            return [sections.encode_data(part) for part in body.parts]
        if isinstance(body, Sequence):
            return [sections.encode_sequence(each) for each in body.lists]
        return [sections.encode_amqp_value(body.value if isinstance(body, Value) else body)]


def decode(payload: bytes) -> Message:
    """Decode a message. Raises DecodeError if the bytes are not a message."""
    found = sections.scan(payload)
    absent = sections.ABSENT
    if found.body == absent:
        raise DecodeError("message: it has no body")
    at = found.header
    header = Header() if at == absent else sections.decode_header(payload, at)
    message = Message(_body(payload, found), header=header)
    at = found.delivery_annotations
    if at != absent:
        message.delivery_annotations = sections.decode_delivery_annotations(payload, at)
    at = found.message_annotations
    if at != absent:
        message.annotations = sections.decode_message_annotations(payload, at)
    at = found.properties
    if at != absent:
        message.properties = sections.decode_properties(payload, at)
    at = found.application_properties
    if at != absent:
        message.application_properties = sections.decode_application_properties(payload, at)
    at = found.footer
    if at != absent:
        message.footer = sections.decode_footer(payload, at)
    return message


def _body(payload: bytes, found: sections.Sections) -> object:
    if found.body_kind == spec.DATA:
        parts = sections.decode_data(payload, found)
        return parts[0] if len(parts) == 1 else Data(parts)
    if found.body_kind == spec.AMQP_SEQUENCE:
        return Sequence(sections.decode_sequences(payload, found))
    value = sections.decode_amqp_value(payload, found.body)
    return Value(value) if isinstance(value, bytes) else value
