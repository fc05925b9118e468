"""Conversion between exceptions of this side and AMQP 1.0 errors on the wire."""

from typing import Final

from flintmq.base.errors import (
    SCOPE_CONNECTION,
    Amqp10Error,
    AmqpError,
    EndedByPeer,
    InternalError,
)
from flintmq.wire.amqp10.composite import Fields
from flintmq.wire.amqp10.states import Error

# With a description of this size, an error fits the smallest max-frame-size of a peer (amqp-1.0 part 2 §2.8.19).
_DESCRIPTION_MAX_BYTES: Final = 384
# The bytes that a delivery tag in `info` takes, with its key.
_TAG_MAX_BYTES: Final = 64


def to_wire(error: AmqpError | Amqp10Error | None) -> Error | None:
    """Return the error to send for an exception of this side; None for None."""
    if error is None:
        return None
    room = _DESCRIPTION_MAX_BYTES
    info: Fields = {}
    if error.delivery_tag is not None:
        # amqp anonymous terminus 1.0 §2.2.2
        info["delivery-tag"] = error.delivery_tag
        room -= _TAG_MAX_BYTES
    return Error(condition=error.condition, description=error.text.encode()[:room].decode(errors="ignore"), info=info)


def from_wire(error: Error | None) -> EndedByPeer | None:
    """Return an exception for an error of the peer; None if the peer gave no error."""
    if error is None:
        return None
    return EndedByPeer(error.condition, error.description or "", error.info)


def scope_of(error: AmqpError | Amqp10Error, smallest: int) -> int:
    """Return the scope that ends with an error which was raised in a link, session or connection (`smallest`).

    An AmqpError of the broker, which has no notion of sessions and links, ends the smallest scope; an internal error
    ends the connection.
    """
    if isinstance(error, Amqp10Error):
        return max(error.scope, smallest)
    return SCOPE_CONNECTION if isinstance(error, InternalError) else smallest
