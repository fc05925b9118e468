"""The errors FlintMQ raises on purpose. Nothing here knows who raises them or who turns them into bytes.

An AMQP error carries its protocol code and its scope as class data (amqp-0-9-1 §1.2 "constants"): whoever finds the
fault raises the type, and one place per protocol turns it into a close.
"""

from typing import ClassVar


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
    closes_connection: ClassVar[bool] = True

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    @property
    def reply_text(self) -> str:
        whole = f"{self.name} - {self.text}" if self.text else self.name
        return whole.encode()[:255].decode(errors="ignore")


class ContentTooLarge(AmqpError):
    """Content that its recipient cannot take, on a channel that may go on with other content."""

    code: ClassVar[int] = 311
    name: ClassVar[str] = "CONTENT_TOO_LARGE"
    closes_connection: ClassVar[bool] = False


class NoConsumers(AmqpError):
    """Sent in basic.return only: no consumer could take an immediate message."""

    code: ClassVar[int] = 313
    name: ClassVar[str] = "NO_CONSUMERS"
    closes_connection: ClassVar[bool] = False


class NoRoute(AmqpError):
    """Sent in basic.return only: no queue took a mandatory message."""

    code: ClassVar[int] = 312
    name: ClassVar[str] = "NO_ROUTE"
    closes_connection: ClassVar[bool] = False


class ConnectionForced(AmqpError):
    code: ClassVar[int] = 320
    name: ClassVar[str] = "CONNECTION_FORCED"


class AccessRefused(AmqpError):
    code: ClassVar[int] = 403
    name: ClassVar[str] = "ACCESS_REFUSED"
    closes_connection: ClassVar[bool] = False


class AuthenticationFailed(AmqpError):
    """Bad credentials: the same code as ACCESS_REFUSED, but there is no channel yet to close."""

    code: ClassVar[int] = 403
    name: ClassVar[str] = "ACCESS_REFUSED"


class NotFound(AmqpError):
    code: ClassVar[int] = 404
    name: ClassVar[str] = "NOT_FOUND"
    closes_connection: ClassVar[bool] = False


class ResourceLocked(AmqpError):
    code: ClassVar[int] = 405
    name: ClassVar[str] = "RESOURCE_LOCKED"
    closes_connection: ClassVar[bool] = False


class PreconditionFailed(AmqpError):
    code: ClassVar[int] = 406
    name: ClassVar[str] = "PRECONDITION_FAILED"
    closes_connection: ClassVar[bool] = False


class FrameFault(AmqpError):
    code: ClassVar[int] = 501
    name: ClassVar[str] = "FRAME_ERROR"


class SyntaxFault(AmqpError):
    code: ClassVar[int] = 502
    name: ClassVar[str] = "SYNTAX_ERROR"


class CommandInvalid(AmqpError):
    code: ClassVar[int] = 503
    name: ClassVar[str] = "COMMAND_INVALID"


class ChannelFault(AmqpError):
    code: ClassVar[int] = 504
    name: ClassVar[str] = "CHANNEL_ERROR"


class UnexpectedFrame(AmqpError):
    code: ClassVar[int] = 505
    name: ClassVar[str] = "UNEXPECTED_FRAME"


class ResourceError(AmqpError):
    code: ClassVar[int] = 506
    name: ClassVar[str] = "RESOURCE_ERROR"


class NotAllowed(AmqpError):
    code: ClassVar[int] = 530
    name: ClassVar[str] = "NOT_ALLOWED"


class TypeKept(NotAllowed):
    """An exchange declared anew with another type: 530 says the specification, and that it costs the channel."""

    closes_connection: ClassVar[bool] = False


class NotImplementedHere(AmqpError):
    code: ClassVar[int] = 540
    name: ClassVar[str] = "NOT_IMPLEMENTED"


class InternalError(AmqpError):
    """A fault of ours: the peer is told so, and the log has the rest."""


class ClosedByPeer(FlintError):
    """The peer closed a channel (or the connection); code and text are its words. A code of 200 is no fault."""

    def __init__(self, code: int, text: str, whole_connection: bool) -> None:
        super().__init__(f"{code} {text}")
        self.code = code
        self.text = text
        self.whole_connection = whole_connection


class ConnectionLost(FlintError):
    """The connection ended without a close: the peer is gone, or missed its heartbeats."""
