"""Messages that a client publishes, and their encoding."""

from typing import Final, NamedTuple

from flintmq.wire.amqp091 import methods
from flintmq.wire.amqp091.properties import Properties, encode_properties
from flintmq.wire.amqp091.tables import encode_address

# The encoding of properties of which none is set: no flag is set.
NO_PROPERTIES: Final = b"\x00\x00"

# The types of a body. Only bytes are sent without a copy, because the others could change before they are sent.
Body = bytes | bytearray | memoryview


class Publish(NamedTuple):
    """A message to publish. The same encoded properties (`encode_properties`) can be used for any number of messages.

    Attributes:
        exchange: The name of the exchange; "" is the default exchange.
        routing_key: The routing key.
        body: The content.
        properties: `Properties`, or the bytes that `encode_properties` makes of them.
        mandatory: Whether the server returns the message if it matches no queue.
    """

    exchange: str
    routing_key: str
    body: Body
    properties: bytes | Properties = NO_PROPERTIES
    mandatory: bool = False


# A plain tuple has the same fields, and may leave out those with a default.
Publishable = (
    Publish
    | tuple[str, str, Body]
    | tuple[str, str, Body, bytes | Properties]
    | tuple[str, str, Body, bytes | Properties, bool]
)

_METHOD: Final = methods.BASIC_PUBLISH.to_bytes(4, "big") + bytes(2)


def encode_publish(exchange: str, routing_key: str, mandatory: bool) -> bytes:
    """Encode basic.publish. Raises LocalProtocolError if a name is too long."""
    return _METHOD + encode_address(exchange, routing_key) + (b"\x01" if mandatory else b"\x00")


def encoded(properties: bytes | Properties | None) -> bytes:
    """Return encoded properties. Raises TypeError or LocalProtocolError, before anything is written to the output."""
    if properties is None:
        return NO_PROPERTIES
    if isinstance(properties, Properties):
        return encode_properties(properties)
    if isinstance(properties, bytes):
        return properties
    raise TypeError(f"properties must be Properties or bytes, not {type(properties).__name__}")


def body_bytes(body: Body) -> bytes:
    """Return the body as bytes. Raises TypeError for a body of another type."""
    if isinstance(body, bytes):
        return body
    if isinstance(body, (bytearray, memoryview)):
        return bytes(body)
    raise TypeError(f"a body must be bytes, not {type(body).__name__}: encode it first")
