"""Errors on the wire: encoded from exceptions of this side, decoded from errors of the peer."""

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

# With it, an error fits the smallest frame that a peer may ask for (amqp-1.0 part 2 §2.8.19).
_DESCRIPTION_MAX_BYTES: Final = 384
# What the tag of a delivery takes beside that, with its name.
_TAG_MAX_BYTES: Final = 64


def to_wire(error: AmqpError | Amqp10Error | None) -> Error | None:
    """An exception of this side as the error to send; None for None."""
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
    """An error of the peer as an exception; None if the peer gave no error."""
    if error is None:
        return None
    return EndedByPeer(error.condition, error.description or "", error.info)


def scope_of(error: AmqpError | Amqp10Error, smallest: int) -> int:
    """What ends with an error that was raised in something of scope `smallest`.

    A refusal of the broker, which knows no sessions and links, ends the smallest; a fault of ours all there is.
    """
    if isinstance(error, Amqp10Error):
        return max(error.scope, smallest)
    return SCOPE_CONNECTION if isinstance(error, InternalError) else smallest
