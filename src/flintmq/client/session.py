"""A connection of AMQP 0-9-1 without its socket: the engine in the client's role, and its channels."""

from collections import deque
from typing import Final, final

from flintmq.base.errors import AuthenticationFailed, ClosedByPeer, ConnectionLost, FlintError, LocalProtocolError
from flintmq.client.channel import ClientChannel
from flintmq.client.errors import ConnectionClosed, LoginRefused, connection_error
from flintmq.client.waitable import Answer, Request, Waitable
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
    """A connection. `opened` becomes ready when it can be used, and `ended` when it is over.

    `closed` has the reason for its end, and `blocked` the server's reason for not accepting publishes at present.
    """

    def __init__(self, login: Login, tuning: Tuning) -> None:
        self.opened: Waitable = Waitable()
        self.ended: Waitable = Waitable()
        self.closed: FlintError | None = None
        self.blocked: str | None = None
        self._mechanism = login.mechanism
        self._renewals: deque[Request[ConnectionUpdateSecretOk]] = deque()
        self._outbox = Outbox()
        self.output: Output = Output(self._outbox)
        self.engine: Connection = Connection(Role.CLIENT, self, self.output, tuning, login=login)

    @property
    def server_properties(self) -> Table:
        return self.engine.peer_properties

    def check(self) -> None:
        """Raise what ended the connection, if it has ended."""
        if self.closed is not None:
            raise self.closed.with_traceback(None)

    # -- bytes --------------------------------------------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> None:
        self.engine.receive(data, now)
        self.notice_end()

    def lost(self, error: FlintError | None) -> None:
        """Handle the end of the socket."""
        self.engine.lost(error)
        self.notice_end()

    def has_output(self) -> bool:
        return bool(self._outbox.waiting)

    def take_output(self) -> list[bytes | memoryview]:
        """Remove the bytes to send from the output, and return them in order."""
        self._outbox.waiting.clear()
        output = self.output
        output.backlog = 0
        return output.take()

    # -- channels -----------------------------------------------------------------------------------------------

    def open_channel(self) -> tuple[ClientChannel, Request[ChannelOpenOk]]:
        """Return a channel, and the request to wait for before the channel is used."""
        self.check()
        channel = ClientChannel(self.output)
        channel.attach(self.engine.open_channel(channel))
        request = Request(ChannelOpen(), ChannelOpenOk)
        channel.expect(request)
        return channel, request

    # -- passwords ----------------------------------------------------------------------------------------------

    def update_secret(self, password: str, reason: str) -> Request[ConnectionUpdateSecretOk]:
        """Send the server a new password, and return the request to wait for."""
        self.check()
        method = ConnectionUpdateSecret(new_secret=password.encode(), reason=reason)
        self.engine.update_secret(method.new_secret, reason)
        request = Request(method, ConnectionUpdateSecretOk)
        self._renewals.append(request)
        return request

    def on_secret_accepted(self) -> None:
        if self._renewals:
            self._renewals.popleft().answer(Answer(ConnectionUpdateSecretOk()))

    # -- the end ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ask the server to close the connection; `ended` becomes ready when it agrees. No effect on a closed
        connection.
        """
        self.engine.close()
        self.notice_end()

    def notice_end(self) -> None:
        """Make `ended` ready if the engine is closed. Drivers call this after the engine's timer."""
        if self.engine.state is State.CLOSED and not self.ended.is_ready:
            self.ended.ready()

    # -- events of the engine -----------------------------------------------------------------------------------

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
        raise LocalProtocolError("a client accepts no logins")

    def on_challenge(self, challenge: bytes) -> None:
        if self._mechanism != oauthbearer.NAME:
            raise AuthenticationFailed(f"{self._mechanism} has no challenges")
        self.engine.respond(oauthbearer.UNDERSTOOD)

    def on_channel(self, channel: Channel) -> ChannelOwner:
        raise LocalProtocolError("only a client opens its channels")


def _login_error(error: FlintError | None, reason: FlintError) -> FlintError:
    """Return the error for a connection that ended before it was open."""
    if isinstance(error, ClosedByPeer) and error.code == _ACCESS_REFUSED:
        return LoginRefused(error.code, error.text)
    if isinstance(error, ConnectionLost):
        return ConnectionLost(
            f"{error} before the connection was open: does it speak AMQP 0-9-1, and are user and password right?"
        )
    return reason if error is not None else ConnectionClosed(200, "closed by this client before it was open")
