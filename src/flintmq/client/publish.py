"""What a client publishes, and the bytes it becomes."""

from typing import Final, NamedTuple

from flintmq.wire.amqp091 import spec
from flintmq.wire.amqp091.properties import Properties, encode_properties
from flintmq.wire.amqp091.tables import encode_address

# No properties at all: no flag is set.
NO_PROPERTIES: Final = b"\x00\x00"


class Publish(NamedTuple):
    """A message to be published. Encoded properties (`encode_properties`) may be used for any number of them."""

    exchange: str
    routing_key: str
    body: bytes
    properties: bytes | Properties = NO_PROPERTIES
    mandatory: bool = False


# A plain tuple of the same may leave out what has a default.
Publishable = (
    Publish
    | tuple[str, str, bytes]
    | tuple[str, str, bytes, bytes | Properties]
    | tuple[str, str, bytes, bytes | Properties, bool]
)

_METHOD: Final = spec.BASIC_PUBLISH.to_bytes(4, "big") + bytes(2)


def encode_publish(exchange: str, routing_key: str, mandatory: bool) -> bytes:
    """basic.publish. Raises LocalProtocolError when a name is too long."""
    return _METHOD + encode_address(exchange, routing_key) + (b"\x01" if mandatory else b"\x00")


def encoded(properties: bytes | Properties | None) -> bytes:
    if properties is None:
        return NO_PROPERTIES
    if isinstance(properties, Properties):
        return encode_properties(properties)
    return properties
