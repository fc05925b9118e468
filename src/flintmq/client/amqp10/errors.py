"""The errors that only the AMQP 1.0 client raises."""

from flintmq.base.errors import Amqp10Error, AmqpError, AuthenticationFailed, ConnectionLost, EndedByPeer, FlintError
from flintmq.client.errors import LoginRefused
from flintmq.wire.amqp10.states import DeliveryState, Error, Rejected


class Ended(FlintError):
    """A link or connection has ended. `condition` ("amqp:not-found", for example) and `text` are from the server."""

    def __init__(self, condition: str, text: str) -> None:
        super().__init__(condition, text)
        self.condition = condition
        self.text = text

    def __str__(self) -> str:
        return f"{self.condition}: {self.text}" if self.text else self.condition


class LinkDetached(Ended):
    """The sender or receiver has ended. Its connection is open."""


class ConnectionEnded(Ended):
    """The connection has ended, and all its links."""


class SendFailed(FlintError):
    """The server did not accept messages.

    `refused` has their positions and outcomes: Released if a message matched no queue, Rejected with a reason if a
    queue refused it. Position 0 is the first message after the last wait for outcomes.
    """

    def __init__(self, refused: list[tuple[int, DeliveryState | None]]) -> None:
        super().__init__(refused)
        self.refused = refused

    def __str__(self) -> str:
        position, state = self.refused[0]
        return (
            f"the server did not accept {len(self.refused)} messages, the first at position {position}: "
            f"{described(state)}"
        )


class TransactionFailed(FlintError):
    """The transaction was not committed, and had no effect. `condition` and `text` are from the server."""

    def __init__(self, condition: str, text: str) -> None:
        super().__init__(condition, text)
        self.condition = condition
        self.text = text

    def __str__(self) -> str:
        return f"{self.condition}: {self.text}" if self.text else self.condition


def described(state: DeliveryState | None) -> str:
    """Return a text for an outcome."""
    if state is None:
        return "settled without an outcome"
    if isinstance(state, Rejected) and state.error is not None:
        return f"rejected, {error_text(state.error)}"
    return state.type_name


def error_text(error: Error) -> str:
    """Return a text for an error of the server."""
    return f"{error.condition}: {error.description}" if error.description else error.condition


def link_error(error: FlintError | None) -> FlintError:
    """Convert the engine's reason for the end of a link to the error that the program gets."""
    if error is None:
        return LinkDetached("detached", "by the server, without a reason")
    if isinstance(error, EndedByPeer):
        return LinkDetached(error.condition, error.text)
    if isinstance(error, (AmqpError, Amqp10Error)):
        return LinkDetached(error.condition, f"the server broke the protocol: {error.text}")
    return error


def connection_error(error: FlintError | None) -> FlintError:
    """Convert the engine's reason for the end of a connection to the error that the program gets."""
    if error is None:
        return ConnectionEnded("closed", "by this client")
    if isinstance(error, EndedByPeer):
        return ConnectionEnded(error.condition, error.text)
    if isinstance(error, (AmqpError, Amqp10Error)):
        return ConnectionEnded(error.condition, f"the server broke the protocol: {error.text}")
    return error


def login_error(error: FlintError | None, virtual_host: str | None) -> FlintError:
    """Return the error for a connection that ended before it was open.

    `virtual_host` is the one that was asked for; None if the login was refused.
    """
    if isinstance(error, ConnectionLost) and virtual_host is not None:
        # RabbitMQ and FlintMQ do this for reasons other than the password.
        why = f"there is no virtual host '{virtual_host}', the user may not enter it, or has too many connections"
        return ConnectionEnded("closed", f"by the server after the login, without a reason: perhaps {why}")
    if isinstance(error, ConnectionLost):
        return ConnectionLost(f"{error} before the connection was open: does it speak AMQP 1.0?")
    if isinstance(error, AuthenticationFailed):
        return LoginRefused(error.code, error.text)
    return connection_error(error)
