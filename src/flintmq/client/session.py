"""A connection as a client sees it, without its socket: the engine in the client's role, and its channels."""

from collections import deque
from typing import Final, final

from flintmq.base.errors import AuthenticationFailed, ClosedByPeer, ConnectionLost, FlintError, LocalProtocolError
from flintmq.client.channel import ClientChannel
from flintmq.client.errors import ConnectionClosed, LoginRefused, connection_error
from flintmq.client.waiting import Answer, Request, Waitable
from flintmq.protocol.amqp091.channel import Channel, ChannelOwner
from flintmq.protocol.amqp091.connection import Connection, ConnectionOwner, Login, Tuning
from flintmq.protocol.amqp091.states import State
from flintmq.protocol.output import Outbox, Output
from flintmq.protocol.role import Role
from flintmq.protocol.sasl import oauthbearer
from flintmq.wire.amqp091.methods import ChannelOpen, ChannelOpenOk, ConnectionUpdateSecret, ConnectionUpdateSecretOk
from flintmq.wire.amqp091.tables import Table

_ACCESS_REFUSED: Final = 403


@final
class Session(ConnectionOwner):
    """`opened` gets ready when the connection is usable, `ended` when it is over; `closed` is why it takes no more.

    `blocked` is the server's reason for not taking publishes at present.
    """

    def __init__(self, login: Login, tuning: Tuning) -> None:
        self.opened: Waitable = Waitable()
        self.ended: Waitable = Waitable()
        self.closed: FlintError | None = None
        self.blocked: str | None = None
        self._mechanism = login.mechanism
        self._renewals: deque[Request[None]] = deque()
        self._outbox = Outbox()
        self.output: Output = Output(self._outbox)
        self.engine: Connection = Connection(Role.CLIENT, self, self.output, tuning, login=login)

    @property
    def server_properties(self) -> Table:
        return self.engine.peer_properties

    def check(self) -> None:
        """Raises what ended the connection, if it has."""
        if self.closed is not None:
            raise self.closed.with_traceback(None)

    # -- bytes --------------------------------------------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> None:
        self.engine.receive(data, now)
        self.notice_end()

    def lost(self, error: FlintError | None) -> None:
        """The socket is gone."""
        self.engine.lost(error)
        self.notice_end()

    def has_output(self) -> bool:
        return bool(self._outbox.waiting)

    def take_output(self) -> list[bytes]:
        """What is to be sent, in order."""
        self._outbox.waiting.clear()
        output = self.output
        output.backlog = 0
        return output.take()

    # -- channels -----------------------------------------------------------------------------------------------

    def open_channel(self) -> tuple[ClientChannel, Request[None]]:
        """A channel, and the answer to wait for before it is used."""
        self.check()
        channel = ClientChannel(self.output)
        channel.attach(self.engine.open_channel(channel))
        request = Request[None](ChannelOpen(), (ChannelOpenOk,), _nothing)
        channel.expect(request)
        return channel, request

    # -- passwords ----------------------------------------------------------------------------------------------

    def update_secret(self, password: str, reason: str) -> Request[None]:
        """Tell the server a new password, and the answer to wait for."""
        self.check()
        method = ConnectionUpdateSecret(new_secret=password.encode(), reason=reason)
        self.engine.update_secret(method.new_secret, reason)
        request = Request[None](method, (ConnectionUpdateSecretOk,), _nothing)
        self._renewals.append(request)
        return request

    def on_secret_accepted(self) -> None:
        if self._renewals:
            self._renewals.popleft().answer(Answer(ConnectionUpdateSecretOk()))

    # -- the end ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ask for the end; `ended` gets ready when the server agreed. Harmless on a connection that is closed."""
        self.engine.close()
        self.notice_end()

    def notice_end(self) -> None:
        """To be called behind the engine's timer, too."""
        if self.engine.state is State.CLOSED and not self.ended.is_ready:
            self.ended.ready()

    # -- what the engine says -----------------------------------------------------------------------------------

    def on_open(self, virtual_host: str) -> None:
        self.opened.ready()

    def on_blocked(self, reason: str | None) -> None:
        self.blocked = reason

    def on_closed(self, error: FlintError | None) -> None:
        reason = connection_error(error)
        if not self.opened.is_ready:
            reason = _login_error(error, reason)
            self.opened.fail(reason)
        self.closed = reason
        while self._renewals:
            self._renewals.popleft().fail(reason)

    def on_login(self, mechanism: str, response: bytes, client_properties: Table) -> None:
        raise LocalProtocolError("a client is not logged in to")

    def on_challenge(self, challenge: bytes) -> None:
        if self._mechanism != oauthbearer.NAME:
            raise AuthenticationFailed(f"{self._mechanism} has no challenges")
        self.engine.respond(oauthbearer.UNDERSTOOD)

    def on_channel(self, channel: Channel) -> ChannelOwner:
        raise LocalProtocolError("a client's channels are opened by itself")


def _login_error(error: FlintError | None, reason: FlintError) -> FlintError:
    """Why no connection came about."""
    if isinstance(error, ClosedByPeer) and error.code == _ACCESS_REFUSED:
        return LoginRefused(error.code, error.text)
    if isinstance(error, ConnectionLost):
        return ConnectionLost(
            f"{error} before the connection was open: does it speak AMQP 0-9-1, and are user and password right?"
        )
    return reason if error is not None else ConnectionClosed(200, "closed by this client before it was open")


def _nothing(answer: Answer) -> None:
    """An answer that says no more than that it came."""
