"""The errors that FlintMQ raises on purpose. This module does not know who raises them, or how they are encoded.

An AMQP error has its protocol code and its scope as class data (amqp-0-9-1 §1.2 "constants"). The code that finds the
fault raises the type, and one place per protocol converts it to a close. Refusals of the broker have a name in both
protocols: `condition` is the one of AMQP 1.0 (amqp-1.0 part 2 §2.8.15 to §2.8.18, part 4 §4.5.8).
"""

from typing import ClassVar, Final


class FlintError(Exception):
    """Base class of all errors that FlintMQ raises on purpose. Its text says what is wrong and what to do."""


class ConfigurationError(FlintError):
    """A setting is unknown, malformed or impossible. The text names the key, and says what to do."""


class StorageError(FlintError):
    """The data directory cannot be used: locked by another broker, unreadable, or its disk failed."""


class StorageFenced(StorageError):
    """A write or a sync has failed, so durability can no longer be promised: no durable work until a restart."""


class LocalProtocolError(FlintError):
    """Our own code asked an engine for something that the protocol does not allow in its present state."""


class AmqpError(FlintError):
    """A fault of the peer, or a refusal, for which the protocol has a reply code.

    `text` is the part after the name: "no queue 'q' in vhost '/'". `reply_text` is the text on the wire, limited to the
    255 bytes of a short string.
    """

    code: ClassVar[int] = 541
    name: ClassVar[str] = "INTERNAL_ERROR"
    condition: ClassVar[str] = "amqp:internal-error"
    closes_connection: ClassVar[bool] = True

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text
        # AMQP 1.0 only: the tag of the delivery at fault, if nothing else identifies it.
        self.delivery_tag: bytes | None = None

    @property
    def reply_text(self) -> str:
        whole = f"{self.name} - {self.text}" if self.text else self.name
        return whole.encode()[:255].decode(errors="ignore")


class ContentTooLarge(AmqpError):
    """The recipient cannot accept this content; the channel stays open."""

    code: ClassVar[int] = 311
    name: ClassVar[str] = "CONTENT_TOO_LARGE"
    condition: ClassVar[str] = "amqp:link:message-size-exceeded"
    closes_connection: ClassVar[bool] = False


class NoConsumers(AmqpError):
    """Sent in basic.return only: no consumer could take an immediate message."""

    code: ClassVar[int] = 313
    name: ClassVar[str] = "NO_CONSUMERS"
    condition: ClassVar[str] = "amqp:precondition-failed"
    closes_connection: ClassVar[bool] = False


class NoRoute(AmqpError):
    """Sent in basic.return only: no queue took a mandatory message."""

    code: ClassVar[int] = 312
    name: ClassVar[str] = "NO_ROUTE"
    condition: ClassVar[str] = "amqp:not-found"
    closes_connection: ClassVar[bool] = False


class ConnectionForced(AmqpError):
    code: ClassVar[int] = 320
    name: ClassVar[str] = "CONNECTION_FORCED"
    condition: ClassVar[str] = "amqp:connection:forced"


class AccessRefused(AmqpError):
    code: ClassVar[int] = 403
    name: ClassVar[str] = "ACCESS_REFUSED"
    condition: ClassVar[str] = "amqp:unauthorized-access"
    closes_connection: ClassVar[bool] = False


class AuthenticationFailed(AmqpError):
    """The credentials are wrong. The code is that of ACCESS_REFUSED, but no channel exists yet that could be closed."""

    code: ClassVar[int] = 403
    name: ClassVar[str] = "ACCESS_REFUSED"
    condition: ClassVar[str] = "amqp:unauthorized-access"


class NotFound(AmqpError):
    code: ClassVar[int] = 404
    name: ClassVar[str] = "NOT_FOUND"
    condition: ClassVar[str] = "amqp:not-found"
    closes_connection: ClassVar[bool] = False


class ResourceLocked(AmqpError):
    code: ClassVar[int] = 405
    name: ClassVar[str] = "RESOURCE_LOCKED"
    condition: ClassVar[str] = "amqp:resource-locked"
    closes_connection: ClassVar[bool] = False


class PreconditionFailed(AmqpError):
    code: ClassVar[int] = 406
    name: ClassVar[str] = "PRECONDITION_FAILED"
    condition: ClassVar[str] = "amqp:precondition-failed"
    closes_connection: ClassVar[bool] = False


class FrameFault(AmqpError):
    code: ClassVar[int] = 501
    name: ClassVar[str] = "FRAME_ERROR"
    condition: ClassVar[str] = "amqp:connection:framing-error"


class SyntaxFault(AmqpError):
    code: ClassVar[int] = 502
    name: ClassVar[str] = "SYNTAX_ERROR"
    condition: ClassVar[str] = "amqp:decode-error"


class CommandInvalid(AmqpError):
    code: ClassVar[int] = 503
    name: ClassVar[str] = "COMMAND_INVALID"
    condition: ClassVar[str] = "amqp:not-allowed"


class ChannelFault(AmqpError):
    code: ClassVar[int] = 504
    name: ClassVar[str] = "CHANNEL_ERROR"
    condition: ClassVar[str] = "amqp:not-allowed"


class UnexpectedFrame(AmqpError):
    code: ClassVar[int] = 505
    name: ClassVar[str] = "UNEXPECTED_FRAME"
    condition: ClassVar[str] = "amqp:illegal-state"


class ResourceError(AmqpError):
    code: ClassVar[int] = 506
    name: ClassVar[str] = "RESOURCE_ERROR"
    condition: ClassVar[str] = "amqp:resource-limit-exceeded"


class NotAllowed(AmqpError):
    code: ClassVar[int] = 530
    name: ClassVar[str] = "NOT_ALLOWED"
    condition: ClassVar[str] = "amqp:not-allowed"


class ExchangeTypeConflict(NotAllowed):
    """An exchange was declared again with another type. The specification requires code 530 and closes only the
    channel.
    """

    closes_connection: ClassVar[bool] = False


class NotImplementedHere(AmqpError):
    code: ClassVar[int] = 540
    name: ClassVar[str] = "NOT_IMPLEMENTED"
    condition: ClassVar[str] = "amqp:not-implemented"


class InternalError(AmqpError):
    """An internal error of the broker: the peer gets only the code; the log has the details."""


# The scope of an AMQP 1.0 error: the smallest endpoint that must be ended.
SCOPE_LINK: Final = 0
SCOPE_SESSION: Final = 1
SCOPE_CONNECTION: Final = 2


class Amqp10Error(FlintError):
    """A fault of the peer, or a refusal, for which only AMQP 1.0 has a condition.

    `scope` is the endpoint that the error ends; by default that of the class.
    """

    condition: ClassVar[str] = "amqp:internal-error"
    default_scope: ClassVar[int] = SCOPE_CONNECTION

    def __init__(self, text: str, scope: int | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.scope: int = self.default_scope if scope is None else scope
        # The tag of the delivery at fault, if nothing else identifies it.
        self.delivery_tag: bytes | None = None


class DecodeError(Amqp10Error):
    """Bytes that are not a value, or not the value that is required there."""

    condition: ClassVar[str] = "amqp:decode-error"


class FramingError(Amqp10Error):
    """Bytes that are not a frame, or a frame that is not allowed there."""

    condition: ClassVar[str] = "amqp:connection:framing-error"


class FrameSizeTooSmall(Amqp10Error):
    condition: ClassVar[str] = "amqp:frame-size-too-small"


class InvalidField(Amqp10Error):
    """A field that is well-formed, but has an impossible value."""

    condition: ClassVar[str] = "amqp:invalid-field"
    default_scope: ClassVar[int] = SCOPE_SESSION


class IllegalState(Amqp10Error):
    """Something that the protocol does not allow in the present state."""

    condition: ClassVar[str] = "amqp:illegal-state"


class ResourceLimitExceeded(Amqp10Error):
    condition: ClassVar[str] = "amqp:resource-limit-exceeded"


class ResourceDeleted(Amqp10Error):
    """The node that a link was attached to was deleted."""

    condition: ClassVar[str] = "amqp:resource-deleted"
    default_scope: ClassVar[int] = SCOPE_LINK


class WindowViolation(Amqp10Error):
    condition: ClassVar[str] = "amqp:session:window-violation"
    default_scope: ClassVar[int] = SCOPE_SESSION


class ErrantLink(Amqp10Error):
    """A link is used after it was ended with an error."""

    condition: ClassVar[str] = "amqp:session:errant-link"
    default_scope: ClassVar[int] = SCOPE_SESSION


class HandleInUse(Amqp10Error):
    condition: ClassVar[str] = "amqp:session:handle-in-use"
    default_scope: ClassVar[int] = SCOPE_SESSION


class UnattachedHandle(Amqp10Error):
    condition: ClassVar[str] = "amqp:session:unattached-handle"
    default_scope: ClassVar[int] = SCOPE_SESSION


class DetachForced(Amqp10Error):
    condition: ClassVar[str] = "amqp:link:detach-forced"
    default_scope: ClassVar[int] = SCOPE_LINK


class TransferLimitExceeded(Amqp10Error):
    """The peer sent more transfers than its credit allows."""

    condition: ClassVar[str] = "amqp:link:transfer-limit-exceeded"
    default_scope: ClassVar[int] = SCOPE_LINK


class MessageSizeExceeded(Amqp10Error):
    condition: ClassVar[str] = "amqp:link:message-size-exceeded"
    default_scope: ClassVar[int] = SCOPE_LINK


class LinkStolen(Amqp10Error):
    """Another connection has attached the link."""

    condition: ClassVar[str] = "amqp:link:stolen"
    default_scope: ClassVar[int] = SCOPE_LINK


class UnknownTransaction(Amqp10Error):
    condition: ClassVar[str] = "amqp:transaction:unknown-id"
    default_scope: ClassVar[int] = SCOPE_LINK


class TransactionRollback(Amqp10Error):
    condition: ClassVar[str] = "amqp:transaction:rollback"
    default_scope: ClassVar[int] = SCOPE_LINK


class TransactionTimeout(Amqp10Error):
    condition: ClassVar[str] = "amqp:transaction:timeout"
    default_scope: ClassVar[int] = SCOPE_LINK


class ClosedByPeer(FlintError):
    """The peer closed a channel or the connection; `code` and `text` are the peer's. Code 200 is not an error."""

    def __init__(self, code: int, text: str, whole_connection: bool) -> None:
        super().__init__(f"{code} {text}")
        self.code = code
        self.text = text
        self.whole_connection = whole_connection


class EndedByPeer(FlintError):
    """The peer ended a link, a session or the connection with an AMQP 1.0 error; the fields are the peer's."""

    def __init__(self, condition: str, text: str, info: dict[str, object]) -> None:
        super().__init__(f"{condition} {text}" if text else condition)
        self.condition = condition
        self.text = text
        self.info = info


class ConnectionLost(FlintError):
    """The connection ended without a close: the peer is gone, or its heartbeats were missing."""
