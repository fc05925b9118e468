"""What can go wrong for a client of AMQP 1.0 only: links and connections that end with a condition, and the like."""

from flintmq.base.errors import Amqp10Error, AmqpError, AuthenticationFailed, ConnectionLost, EndedByPeer, FlintError
from flintmq.client.errors import LoginRefused
from flintmq.wire.amqp10.states import DeliveryState, Error, Rejected


class Ended(FlintError):
    """`condition` and `text` are the server's words: "amqp:not-found", and what was not found."""

    def __init__(self, condition: str, text: str) -> None:
        super().__init__(condition, text)
        self.condition = condition
        self.text = text

    def __str__(self) -> str:
        return f"{self.condition}: {self.text}" if self.text else self.condition


class LinkDetached(Ended):
    """The sender or receiver takes no more; its connection does."""


class ConnectionEnded(Ended):
    """The connection takes no more, and so do all its links."""


class SendFailed(FlintError):
    """Messages that the server did not accept.

    `refused` has their positions, from 0 for the first message since outcomes were last waited for, and what became of
    each: Released where no queue wanted it, Rejected where one refused it, with its reason.
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
    """The transaction was not committed: nothing of it took effect. `condition` and `text` say why."""

    def __init__(self, condition: str, text: str) -> None:
        super().__init__(condition, text)
        self.condition = condition
        self.text = text

    def __str__(self) -> str:
        return f"{self.condition}: {self.text}" if self.text else self.condition


def described(state: DeliveryState | None) -> str:
    """An outcome in words."""
    if state is None:
        return "settled without an outcome"
    if isinstance(state, Rejected) and state.error is not None:
        return f"rejected, {told(state.error)}"
    return state.type_name


def told(error: Error) -> str:
    return f"{error.condition}: {error.description}" if error.description else error.condition


def link_error(error: FlintError | None) -> FlintError:
    """Why a link ended, as its user is told."""
    if error is None:
        return LinkDetached("detached", "by the server, without a reason")
    if isinstance(error, EndedByPeer):
        return LinkDetached(error.condition, error.text)
    if isinstance(error, (AmqpError, Amqp10Error)):
        return LinkDetached(error.condition, f"the server broke the protocol: {error.text}")
    return error


def connection_error(error: FlintError | None) -> FlintError:
    """Why a connection ended, as its user is told."""
    if error is None:
        return ConnectionEnded("closed", "by this client")
    if isinstance(error, EndedByPeer):
        return ConnectionEnded(error.condition, error.text)
    if isinstance(error, (AmqpError, Amqp10Error)):
        return ConnectionEnded(error.condition, f"the server broke the protocol: {error.text}")
    return error


def login_error(error: FlintError | None, virtual_host: str | None) -> FlintError:
    """Why no connection came about. `virtual_host` is the one that was asked for; None where the login was refused."""
    if isinstance(error, ConnectionLost) and virtual_host is not None:
        # As RabbitMQ and FlintMQ do where the reason is not the password.
        why = f"there is no virtual host '{virtual_host}', the user may not enter it, or has too many connections"
        return ConnectionEnded("closed", f"by the server after the login, without a reason: perhaps {why}")
    if isinstance(error, ConnectionLost):
        return ConnectionLost(f"{error} before the connection was open: does it speak AMQP 1.0?")
    if isinstance(error, AuthenticationFailed):
        return LoginRefused(error.code, error.text)
    return connection_error(error)
