"""Errors carry what both protocols call them, and what of a connection ends with them."""

from flintmq.base import errors
from flintmq.base.errors import (
    SCOPE_CONNECTION,
    SCOPE_LINK,
    SCOPE_SESSION,
    Amqp10Error,
    AmqpError,
    DecodeError,
    HandleInUse,
    LinkStolen,
)

# amqp-1.0 part 2 §2.8.15 to §2.8.18, part 4 §4.5.8; the redirects are of brokers that send clients elsewhere.
CONDITIONS = {
    "amqp:internal-error",
    "amqp:not-found",
    "amqp:unauthorized-access",
    "amqp:decode-error",
    "amqp:resource-limit-exceeded",
    "amqp:not-allowed",
    "amqp:invalid-field",
    "amqp:not-implemented",
    "amqp:resource-locked",
    "amqp:precondition-failed",
    "amqp:resource-deleted",
    "amqp:illegal-state",
    "amqp:frame-size-too-small",
    "amqp:connection:forced",
    "amqp:connection:framing-error",
    "amqp:session:window-violation",
    "amqp:session:errant-link",
    "amqp:session:handle-in-use",
    "amqp:session:unattached-handle",
    "amqp:link:detach-forced",
    "amqp:link:transfer-limit-exceeded",
    "amqp:link:message-size-exceeded",
    "amqp:link:stolen",
    "amqp:transaction:unknown-id",
    "amqp:transaction:rollback",
    "amqp:transaction:timeout",
}


def test_every_condition_has_an_error() -> None:
    """And no error has a condition that the specification does not know."""
    there = {
        each.condition
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, (AmqpError, Amqp10Error))
    }
    assert there == CONDITIONS


def test_an_error_ends_what_its_type_says() -> None:
    """Unless who raises it says otherwise: a handle in use ends the session, bytes that are no value the connection."""
    assert LinkStolen("text").scope == SCOPE_LINK
    assert HandleInUse("text").scope == SCOPE_SESSION
    assert DecodeError("text").scope == SCOPE_CONNECTION
    assert DecodeError("text", SCOPE_LINK).scope == SCOPE_LINK
    assert str(DecodeError("text")) == DecodeError("text").text == "text"
