"""What can go wrong for a client, by type; a connection that ended without a word is base's ConnectionLost."""

from flintmq.base.counting import counted
from flintmq.base.errors import AmqpError, ClosedByPeer, ConfigurationError, FlintError
from flintmq.client.delivery import Returned


class InvalidUrl(ConfigurationError):
    """An AMQP URL that cannot be understood; the text never repeats its password."""


class ConnectFailed(FlintError):
    """No connection came about: the address is unknown, or nobody listens there."""


class ConnectTimeout(ConnectFailed):
    """No connection came about in time."""


class TimedOut(FlintError):
    """The server did not answer, confirm, or take our bytes in time. The channel may be used on."""


class Closed(FlintError):
    """`code` and `text` are the server's words; 200 when our own side closed."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        return f"{self.code} {self.text}"


class ChannelClosed(Closed):
    """The channel takes no more; its connection does."""


class ConnectionClosed(Closed):
    """The connection takes no more, and so do all its channels."""


class LoginRefused(ConnectionClosed):
    """The server does not know the user, or the password or token is wrong."""


class ConsumerCancelled(FlintError):
    """The server ended a subscription: its queue was deleted."""


class PublishFailed(FlintError):
    """Messages that the server did not take, or took and could not route.

    `nacked` has their positions, from 0 for the first publish since confirms were last waited for. `returned` has the
    mandatory messages that no queue wanted, as `Returned`.
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
    """Why a channel ended, as its user is told."""
    if error is None:
        return ChannelClosed(200, "closed by this client")
    if isinstance(error, ClosedByPeer):
        kind = ConnectionClosed if error.whole_connection else ChannelClosed
        return kind(error.code, error.text)
    if isinstance(error, AmqpError) and not error.closes_connection:
        return ChannelClosed(error.code, f"the server broke the protocol: {error.reply_text}")
    return connection_error(error)


def connection_error(error: FlintError | None) -> FlintError:
    """Why a connection ended, as its user is told."""
    if error is None:
        return ConnectionClosed(200, "closed by this client")
    if isinstance(error, ClosedByPeer):
        return ConnectionClosed(error.code, error.text)
    if isinstance(error, AmqpError):
        return ConnectionClosed(error.code, f"the server broke the protocol: {error.reply_text}")
    return error
