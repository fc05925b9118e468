"""A connection of AMQP 1.0 as a client sees it, without its socket: the engine in the client's role, and its links."""

from typing import Final, final

from flintmq.base.errors import AuthenticationFailed, FlintError, LocalProtocolError
from flintmq.base.limits import FRAME_MAX_BYTES
from flintmq.client.amqp10.errors import connection_error, login_error
from flintmq.client.amqp10.receiver import ClientReceiver
from flintmq.client.amqp10.sender import ClientSender
from flintmq.client.url import Target
from flintmq.client.waiting import Waitable
from flintmq.protocol.amqp10.connection import Connection, ConnectionOwner, Tuning
from flintmq.protocol.amqp10.receiver import ReceiverLink, ReceiverOwner
from flintmq.protocol.amqp10.sender import SenderLink, SenderOwner
from flintmq.protocol.amqp10.session import Session, SessionOwner
from flintmq.protocol.output import Outbox, Output
from flintmq.protocol.role import Role
from flintmq.protocol.sasl import oauthbearer, plain, scram
from flintmq.wire.amqp10.performatives import Attach, Begin, Open

# Links of one connection.
_LINKS_MAX: Final = 1024
# Above the largest message a server can be configured to take.
_MESSAGE_MAX_BYTES: Final = 1024 * 1024 * 1024


@final
class ClientConnection(ConnectionOwner):
    """`opened` gets ready when the connection is usable, `ended` when it is over; `closed` is why it takes no more.

    All links are in one session.
    """

    def __init__(self, target: Target, opening: Open, mechanism: str, nonce: str) -> None:
        self.opened: Waitable = Waitable()
        self.ended: Waitable = Waitable()
        self.closed: FlintError | None = None
        self._target = target
        self._mechanism = mechanism if target.token is None else oauthbearer.NAME
        self._scram: scram.ClientExchange | None = None
        if self._mechanism in scram.NAMES:
            self._scram = scram.ClientExchange(mechanism, target.user, target.password, nonce)
        self._is_admitted = False
        self._links: list[ClientSender | ClientReceiver] = []
        self._session: Session | None = None
        self._outbox = Outbox()
        self.output: Output = Output(self._outbox)
        tuning = Tuning(
            frame_max=FRAME_MAX_BYTES,
            channel_max=0,
            handle_max=_LINKS_MAX - 1,
            idle_timeout_ms=target.heartbeat * 1000,
            message_max=_MESSAGE_MAX_BYTES,
        )
        self.engine: Connection = Connection(Role.CLIENT, self, self.output, tuning, opening, logs_in=True)

    @property
    def server(self) -> Open:
        """What the server says of itself."""
        peer = self.engine.peer
        assert peer is not None
        return peer

    def check(self) -> None:
        """Raises what ended the connection, if it has."""
        if self.closed is not None:
            raise self.closed.with_traceback(None)

    # -- bytes --------------------------------------------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> None:
        engine = self.engine
        engine.refresh()
        engine.receive(data, now)
        while engine.is_paused:
            # A server has other connections to see to meanwhile; here there are none.
            engine.refresh()
            engine.receive(b"", now)
        self.notice_end()

    def lost(self, error: FlintError | None) -> None:
        """The socket is gone."""
        self.engine.lost(error)
        self.notice_end()

    def has_output(self) -> bool:
        self.engine.flush()
        return bool(self._outbox.waiting)

    def take_output(self) -> list[bytes]:
        """What is to be sent, in order."""
        self._outbox.waiting.clear()
        output = self.output
        taken = output.take()
        if output.backlog_is(0):
            self._outbox.starved.clear()
            self.engine.resume()
        return taken

    # -- links --------------------------------------------------------------------------------------------------

    def attach(self, link: ClientSender | ClientReceiver) -> None:
        """Attach a link, or attach one again whose connection was lost."""
        self.check()
        assert self._session is not None
        if link not in self._links:
            self._links.append(link)
        link.attach(self._session)

    def forget(self, link: ClientSender | ClientReceiver) -> None:
        """A link that its user is done with."""
        if link in self._links:
            self._links.remove(link)

    # -- the end ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ask for the end; `ended` gets ready when the server agreed. Harmless on a connection that is closed."""
        self.engine.close()
        self.notice_end()

    def notice_end(self) -> None:
        """To be called behind the engine's timer, too."""
        if self.engine.is_closed and not self.ended.is_ready:
            self.ended.ready()

    # -- what the engine says -----------------------------------------------------------------------------------

    def on_sasl_mechanisms(self, mechanisms: list[str]) -> None:
        mechanism = self._mechanism
        if mechanism not in mechanisms:
            raise AuthenticationFailed(f"the server takes logins by {', '.join(mechanisms)}, not by {mechanism}")
        if self._scram is not None:
            response = self._scram.first()
        elif mechanism == plain.NAME:
            response = plain.response(self._target.user, self._target.password)
        elif self._target.token is not None:
            response = oauthbearer.response(self._target.token)
        else:
            # Who is there is known without it: by a certificate, or not at all.
            response = b""
        self.engine.sasl_init(mechanism, response, self._target.host)

    def on_sasl_challenge(self, challenge: bytes) -> None:
        if self._scram is not None:
            self.engine.sasl_respond(self._scram.answer(challenge))
        elif self._mechanism == oauthbearer.NAME:
            self.engine.sasl_respond(oauthbearer.UNDERSTOOD)
        else:
            raise AuthenticationFailed(f"{self._mechanism} has no challenges")

    def on_sasl_outcome(self, additional: bytes | None) -> None:
        self._is_admitted = True
        if self._scram is not None:
            # A server that does not know the keys of the password is none to trust.
            self._scram.check(additional or b"")

    def on_open(self, opening: Open) -> None:
        self._session = self.engine.begin(_Main(self))
        self.opened.ready()

    def on_session(self, session: Session, begin: Begin) -> SessionOwner:
        raise LocalProtocolError("a client's sessions are begun by itself")

    def on_closed(self, error: FlintError | None) -> None:
        reason = connection_error(error)
        if not self.opened.is_ready:
            reason = login_error(error, self._target.virtual_host if self._is_admitted else None)
            self.opened.fail(reason)
        self.closed = reason
        for link in self._links:
            link.lost(reason)

    def session_ended(self, error: FlintError | None) -> None:
        """Links are in one session: without it the connection is of no use."""
        reason = connection_error(error)
        for link in self._links:
            link.lost(reason)
        if self.closed is None:
            self.closed = reason
            self.engine.close()


@final
class _Main(SessionOwner):
    """The session. Links are attached by this side only."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    def on_sender(self, link: SenderLink, attach: Attach) -> SenderOwner:
        raise LocalProtocolError("a client's links are attached by itself")

    def on_receiver(self, link: ReceiverLink, attach: Attach) -> ReceiverOwner:
        raise LocalProtocolError("a client's links are attached by itself")

    def on_ended(self, error: FlintError | None) -> None:
        self._connection.session_ended(error)
