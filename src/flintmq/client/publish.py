"""What a client publishes, and the bytes it becomes."""

from typing import Final, NamedTuple

from flintmq.wire.amqp091 import spec
from flintmq.wire.amqp091.properties import Properties, encode_properties
from flintmq.wire.amqp091.tables import encode_address

# No properties at all: no flag is set.
NO_PROPERTIES: Final = b"\x00\x00"

# What a body may be given as. Only bytes are sent from where they lie: the others may change before they are sent.
Body = bytes | bytearray | memoryview


class Publish(NamedTuple):
    """A message to be published. Encoded properties (`encode_properties`) may be used for any number of them."""

    exchange: str
    routing_key: str
    body: Body
    properties: bytes | Properties = NO_PROPERTIES
    mandatory: bool = False


# A plain tuple of the same may leave out what has a default.
Publishable = (
    Publish
    | tuple[str, str, Body]
    | tuple[str, str, Body, bytes | Properties]
    | tuple[str, str, Body, bytes | Properties, bool]
)

_METHOD: Final = spec.BASIC_PUBLISH.to_bytes(4, "big") + bytes(2)


def encode_publish(exchange: str, routing_key: str, mandatory: bool) -> bytes:
    """basic.publish. Raises LocalProtocolError when a name is too long."""
    return _METHOD + encode_address(exchange, routing_key) + (b"\x01" if mandatory else b"\x00")


def encoded(properties: bytes | Properties | None) -> bytes:
    """Properties bytes. Raises TypeError and LocalProtocolError: nothing wrong may get as far as the output."""
    if properties is None:
        return NO_PROPERTIES
    if isinstance(properties, Properties):
        return encode_properties(properties)
    if isinstance(properties, bytes):
        return properties
    raise TypeError(f"properties have to be Properties or bytes, not {type(properties).__name__}")


def body_bytes(body: Body) -> bytes:
    """The body as it is sent. Raises TypeError."""
    if isinstance(body, bytes):
        return body
    if isinstance(body, (bytearray, memoryview)):
        return bytes(body)
    raise TypeError(f"a body has to be bytes, not {type(body).__name__}: encode it first")
