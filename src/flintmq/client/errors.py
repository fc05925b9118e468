"""The errors that a client raises. ConnectionLost and LocalProtocolError are in `flintmq.base.errors`."""

from flintmq.base.errors import AmqpError, ClosedByPeer, ConfigurationError, FlintError
from flintmq.base.plurals import counted
from flintmq.client.delivery import Returned


class InvalidUrl(ConfigurationError):
    """An AMQP URL cannot be understood, or its TLS files cannot be used. The text never contains the password."""


class ConnectFailed(FlintError):
    """The server cannot be reached: its address is unknown, nothing listens there, or TLS failed."""


class ConnectTimeout(ConnectFailed):
    """The connection was not open in time."""


class TimedOut(FlintError):
    """The server did not answer, confirm, or read in time. The channel can still be used."""


class Closed(FlintError):
    """A channel or connection was closed. `code` and `text` are from the server; 200 if this side closed it."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        return f"{self.code} {self.text}"


class ChannelClosed(Closed):
    """The channel is closed. Its connection is open."""


class ConnectionClosed(Closed):
    """The connection is closed, and all its channels."""


class LoginRefused(ConnectionClosed):
    """Wrong user name, password or token."""


class ConsumerCancelled(FlintError):
    """The server ended a subscription, because its queue was deleted."""


class PublishFailed(FlintError):
    """The server refused messages, or could not route them.

    Attributes:
        nacked: The positions of the refused messages, from 0 for the first publish after the last wait for confirms.
        returned: The mandatory messages that matched no queue.
    """

    def __init__(self, nacked: list[int], returned: list[Returned]) -> None:
        super().__init__(nacked, returned)
        self.nacked = nacked
        self.returned = returned

    def __str__(self) -> str:
        what = []
        if self.nacked:
            what.append(
                f"the server refused {counted(len(self.nacked), 'message')}, the first at position {self.nacked[0]}"
            )
        if self.returned:
            first = self.returned[0]
            what.append(
                f"the server returned {counted(len(self.returned), 'message')}, the first for exchange "
                f"'{first.exchange}' and routing key '{first.routing_key}': {first.reply_code} {first.reply_text}"
            )
        return "; ".join(what)


def channel_error(error: FlintError | None) -> FlintError:
    """Convert the engine's reason for the end of a channel to the error that the program gets."""
    if error is None:
        return ChannelClosed(200, "closed by this client")
    if isinstance(error, ClosedByPeer):
        kind = ConnectionClosed if error.whole_connection else ChannelClosed
        return kind(error.code, error.text)
    if isinstance(error, AmqpError) and not error.closes_connection:
        return ChannelClosed(error.code, f"the server broke the protocol: {error.reply_text}")
    return connection_error(error)


def connection_error(error: FlintError | None) -> FlintError:
    """Convert the engine's reason for the end of a connection to the error that the program gets."""
    if error is None:
        return ConnectionClosed(200, "closed by this client")
    if isinstance(error, ClosedByPeer):
        return ConnectionClosed(error.code, error.text)
    if isinstance(error, AmqpError):
        return ConnectionClosed(error.code, f"the server broke the protocol: {error.reply_text}")
    return error
