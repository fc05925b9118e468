"""A connection of AMQP 1.0 without its socket: the engine in the client's role, and its links."""

from typing import Final, final

from flintmq.base.errors import AuthenticationFailed, FlintError, LocalProtocolError
from flintmq.base.limits import FRAME_MAX_BYTES
from flintmq.client.amqp10.errors import connection_error, login_error
from flintmq.client.amqp10.receiver import ClientReceiver
from flintmq.client.amqp10.sender import ClientSender
from flintmq.client.url import Target
from flintmq.client.waitable import Waitable
from flintmq.protocol.amqp10.connection import Connection, ConnectionOwner, Tuning
from flintmq.protocol.amqp10.receiver import ReceiverLink, ReceiverOwner
from flintmq.protocol.amqp10.sender import SenderLink, SenderOwner
from flintmq.protocol.amqp10.session import Session, SessionOwner
from flintmq.protocol.output import Outbox, Output
from flintmq.protocol.role import Role
from flintmq.protocol.sasl import oauthbearer, plain, scram
from flintmq.wire.amqp10.performatives import Attach, Begin, Open

# The greatest number of links of a connection.
_LINKS_MAX: Final = 1024
# Larger than the largest message that a server can be configured to accept.
_MESSAGE_MAX_BYTES: Final = 1024 * 1024 * 1024


@final
class ClientConnection(ConnectionOwner):
    """A connection. `opened` becomes ready when it can be used, and `ended` when it is over.

    `closed` has the reason for its end. All links are in one session.
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
        """The server's open frame."""
        peer = self.engine.peer
        assert peer is not None
        return peer

    def check(self) -> None:
        """Raise what ended the connection, if it has ended."""
        if self.closed is not None:
            raise self.closed.with_traceback(None)

    # -- bytes --------------------------------------------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> None:
        engine = self.engine
        engine.refresh()
        engine.receive(data, now)
        while engine.is_paused:
            # The engine pauses so that a server can serve other connections; a client has no others.
            engine.refresh()
            engine.receive(b"", now)
        self.notice_end()

    def lost(self, error: FlintError | None) -> None:
        """Handle the end of the socket."""
        self.engine.lost(error)
        self.notice_end()

    def has_output(self) -> bool:
        self.engine.flush()
        return bool(self._outbox.waiting)

    def take_output(self) -> list[bytes | memoryview]:
        """Remove the bytes to send from the output, and return them in order."""
        self._outbox.waiting.clear()
        output = self.output
        taken = output.take()
        if output.backlog_is(0):
            self._outbox.starved.clear()
            self.engine.resume()
        return taken

    # -- links --------------------------------------------------------------------------------------------------

    def attach(self, link: ClientSender | ClientReceiver) -> None:
        """Attach a new link, or a link of a lost connection."""
        self.check()
        assert self._session is not None
        if link not in self._links:
            self._links.append(link)
        link.attach(self._session)

    def forget(self, link: ClientSender | ClientReceiver) -> None:
        """Drop a link that is not used any more."""
        if link in self._links:
            self._links.remove(link)

    # -- the end ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ask the server to close the connection; `ended` becomes ready when it agrees. No effect on a closed
        connection.
        """
        self.engine.close()
        self.notice_end()

    def notice_end(self) -> None:
        """Make `ended` ready if the engine is closed. Drivers call this after the engine's timer."""
        if self.engine.is_closed and not self.ended.is_ready:
            self.ended.ready()

    # -- events of the engine -----------------------------------------------------------------------------------

    def on_sasl_mechanisms(self, mechanisms: list[str]) -> None:
        mechanism = self._mechanism
        if mechanism not in mechanisms:
            raise AuthenticationFailed(f"the server accepts logins by {', '.join(mechanisms)}, not by {mechanism}")
        if self._scram is not None:
            response = self._scram.first()
        elif mechanism == plain.NAME:
            response = plain.response(self._target.user, self._target.password)
        elif self._target.token is not None:
            response = oauthbearer.response(self._target.token)
        else:
            # EXTERNAL and ANONYMOUS: the user is known from the certificate, or not at all.
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
            # The server must prove that it knows the password's keys, or it is not the right server.
            self._scram.check(additional or b"")

    def on_open(self, opening: Open) -> None:
        self._session = self.engine.begin(_Main(self))
        self.opened.ready()

    def on_session(self, session: Session, begin: Begin) -> SessionOwner:
        raise LocalProtocolError("only a client begins its sessions")

    def on_closed(self, error: FlintError | None) -> None:
        reason = connection_error(error)
        if not self.opened.is_ready:
            reason = login_error(error, self._target.virtual_host if self._is_admitted else None)
            self.opened.fail(reason)
        self.closed = reason
        for link in self._links:
            link.lost(reason)

    def session_ended(self, error: FlintError | None) -> None:
        """Close the connection, because without its only session it has no links."""
        reason = connection_error(error)
        for link in self._links:
            link.lost(reason)
        if self.closed is None:
            self.closed = reason
            self.engine.close()


@final
class _Main(SessionOwner):
    """The owner of the session. Only this side attaches links."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    def on_sender(self, link: SenderLink, attach: Attach) -> SenderOwner:
        raise LocalProtocolError("only a client attaches its links")

    def on_receiver(self, link: ReceiverLink, attach: Attach) -> ReceiverOwner:
        raise LocalProtocolError("only a client attaches its links")

    def on_ended(self, error: FlintError | None) -> None:
        self._connection.session_ended(error)
