"""The errors FlintMQ raises on purpose. Nothing here knows who raises them or who turns them into bytes.

An AMQP error carries its protocol code and its scope as class data (amqp-0-9-1 §1.2 "constants"): whoever finds the
fault raises the type, and one place per protocol turns it into a close. What the broker refuses has a name in either
protocol: its `condition` is what AMQP 1.0 calls it (amqp-1.0 part 2 §2.8.15 to §2.8.18, part 4 §4.5.8).
"""

from typing import ClassVar, Final


class FlintError(Exception):
    """Base of every error FlintMQ raises on purpose; its text says what was wrong and what to do."""


class ConfigurationError(FlintError):
    """A setting is unknown, malformed or impossible; the text names the key and the way out."""


class StorageError(FlintError):
    """The data directory cannot be used: locked by another broker, unreadable, or its disk failed."""


class StorageFenced(StorageError):
    """A write or a sync failed, so nothing can be promised any more: no durable work until a restart."""


class LocalProtocolError(FlintError):
    """Our own side asked an engine for something the protocol does not allow in its present state."""


class AmqpError(FlintError):
    """A fault of the peer, or a refusal, that the protocol has a reply code for.

    `text` is the part after the name: "no queue 'q' in vhost '/'". `reply_text` is what goes over the wire, cut to
    the 255 bytes of a short string.
    """

    code: ClassVar[int] = 541
    name: ClassVar[str] = "INTERNAL_ERROR"
    condition: ClassVar[str] = "amqp:internal-error"
    closes_connection: ClassVar[bool] = True

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text
        # Of AMQP 1.0: the delivery at fault, where nothing else says which one it was.
        self.delivery_tag: bytes | None = None

    @property
    def reply_text(self) -> str:
        whole = f"{self.name} - {self.text}" if self.text else self.name
        return whole.encode()[:255].decode(errors="ignore")


class ContentTooLarge(AmqpError):
    """Content that its recipient cannot take, on a channel that may go on with other content."""

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
    """Bad credentials: the same code as ACCESS_REFUSED, but there is no channel yet to close."""

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


class TypeKept(NotAllowed):
    """An exchange declared anew with another type: 530 says the specification, and that it costs the channel."""

    closes_connection: ClassVar[bool] = False


class NotImplementedHere(AmqpError):
    code: ClassVar[int] = 540
    name: ClassVar[str] = "NOT_IMPLEMENTED"
    condition: ClassVar[str] = "amqp:not-implemented"


class InternalError(AmqpError):
    """A fault of ours: the peer is told so, and the log has the rest."""


# What an error of AMQP 1.0 ends: the smallest thing that cannot go on.
SCOPE_LINK: Final = 0
SCOPE_SESSION: Final = 1
SCOPE_CONNECTION: Final = 2


class Amqp10Error(FlintError):
    """A fault of the peer, or a refusal, that only AMQP 1.0 has a condition for.

    `scope` is what ends with it: the class's own, unless who raises it knows better.
    """

    condition: ClassVar[str] = "amqp:internal-error"
    usual_scope: ClassVar[int] = SCOPE_CONNECTION

    def __init__(self, text: str, scope: int | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.scope: int = self.usual_scope if scope is None else scope
        # The delivery at fault, where nothing else says which one it was.
        self.delivery_tag: bytes | None = None


class DecodeError(Amqp10Error):
    """Bytes that are no value, or not the value that has to stand there."""

    condition: ClassVar[str] = "amqp:decode-error"


class FramingError(Amqp10Error):
    """Bytes that are no frame, or a frame that has no business where it came."""

    condition: ClassVar[str] = "amqp:connection:framing-error"


class FrameSizeTooSmall(Amqp10Error):
    condition: ClassVar[str] = "amqp:frame-size-too-small"


class InvalidField(Amqp10Error):
    """A field that is well-formed and cannot be what it says."""

    condition: ClassVar[str] = "amqp:invalid-field"
    usual_scope: ClassVar[int] = SCOPE_SESSION


class IllegalState(Amqp10Error):
    """Something that the protocol does not allow at this point."""

    condition: ClassVar[str] = "amqp:illegal-state"


class ResourceLimitExceeded(Amqp10Error):
    condition: ClassVar[str] = "amqp:resource-limit-exceeded"


class ResourceDeleted(Amqp10Error):
    """What a link was attached to is no more."""

    condition: ClassVar[str] = "amqp:resource-deleted"
    usual_scope: ClassVar[int] = SCOPE_LINK


class WindowViolation(Amqp10Error):
    condition: ClassVar[str] = "amqp:session:window-violation"
    usual_scope: ClassVar[int] = SCOPE_SESSION


class ErrantLink(Amqp10Error):
    """A link that goes on after it was told of an error."""

    condition: ClassVar[str] = "amqp:session:errant-link"
    usual_scope: ClassVar[int] = SCOPE_SESSION


class HandleInUse(Amqp10Error):
    condition: ClassVar[str] = "amqp:session:handle-in-use"
    usual_scope: ClassVar[int] = SCOPE_SESSION


class UnattachedHandle(Amqp10Error):
    condition: ClassVar[str] = "amqp:session:unattached-handle"
    usual_scope: ClassVar[int] = SCOPE_SESSION


class DetachForced(Amqp10Error):
    condition: ClassVar[str] = "amqp:link:detach-forced"
    usual_scope: ClassVar[int] = SCOPE_LINK


class TransferLimitExceeded(Amqp10Error):
    """More transfers than there was credit."""

    condition: ClassVar[str] = "amqp:link:transfer-limit-exceeded"
    usual_scope: ClassVar[int] = SCOPE_LINK


class MessageSizeExceeded(Amqp10Error):
    condition: ClassVar[str] = "amqp:link:message-size-exceeded"
    usual_scope: ClassVar[int] = SCOPE_LINK


class LinkStolen(Amqp10Error):
    """Another attach took the link over."""

    condition: ClassVar[str] = "amqp:link:stolen"
    usual_scope: ClassVar[int] = SCOPE_LINK


class UnknownTransaction(Amqp10Error):
    condition: ClassVar[str] = "amqp:transaction:unknown-id"
    usual_scope: ClassVar[int] = SCOPE_LINK


class TransactionRollback(Amqp10Error):
    condition: ClassVar[str] = "amqp:transaction:rollback"
    usual_scope: ClassVar[int] = SCOPE_LINK


class TransactionTimeout(Amqp10Error):
    condition: ClassVar[str] = "amqp:transaction:timeout"
    usual_scope: ClassVar[int] = SCOPE_LINK


class ClosedByPeer(FlintError):
    """The peer closed a channel (or the connection); code and text are its words. A code of 200 is no fault."""

    def __init__(self, code: int, text: str, whole_connection: bool) -> None:
        super().__init__(f"{code} {text}")
        self.code = code
        self.text = text
        self.whole_connection = whole_connection


class EndedByPeer(FlintError):
    """The peer ended a link, a session or the connection with an error of AMQP 1.0; these are its words."""

    def __init__(self, condition: str, text: str, info: dict[str, object]) -> None:
        super().__init__(f"{condition} {text}" if text else condition)
        self.condition = condition
        self.text = text
        self.info = info


class ConnectionLost(FlintError):
    """The connection ended without a close: the peer is gone, or missed its heartbeats."""
