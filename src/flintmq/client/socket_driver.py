"""A session over a plain socket, driven by whoever calls: no thread, so the connection lives while a call is made."""

import select
import socket
import ssl
import time
from contextlib import suppress
from typing import Final, TypeVar, final

from flintmq.base.errors import ConnectionLost, FlintError
from flintmq.client.driven import Driven
from flintmq.client.errors import ConnectFailed, ConnectTimeout, TimedOut
from flintmq.client.url import Target
from flintmq.client.waiting import REQUEST_SECONDS, Request, Waitable

T = TypeVar("T")

# One read; the parser is quickest on large pieces.
_READ_BYTES: Final = 256 * 1024
# Buffers of one sendmsg; the kernel takes 1,024 at most.
_SEND_BUFFERS: Final = 512
# How often calls that only write look for what came in.
_LOOK_SECONDS: Final = 0.1

# What a socket raises that has to be asked again.
_NOT_NOW: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

_READ: Final = select.POLLIN
_READ_AND_WRITE: Final = select.POLLIN | select.POLLOUT


@final
class SocketDriver:
    """The socket of a session. Every method may read and write: nothing may wait for a peer that waits for us."""

    def __init__(self, sock: socket.socket, session: Driven) -> None:
        self.session = session
        self._socket = sock
        self._poll = select.poll()
        self._poll.register(sock, _READ)
        self._unsent: list[bytes | memoryview] = []
        self._looked_at = 0.0

    def wait(self, waitable: Waitable, seconds: float | None) -> bool:
        """Send everything, and read until this is ready; False when time is up (None: there is no limit)."""
        stop = None if seconds is None else time.monotonic() + seconds
        self._send(stop)
        while not waitable.is_ready:
            # Whatever can be waited for fails with its connection.
            assert not self.session.ended.is_ready
            if not self._turn(stop):
                return False
            self._send(stop)
        return True

    def answer(self, request: Request[T], seconds: float = REQUEST_SECONDS) -> T:
        """Wait for it. Raises TimedOut, and what ended the channel before it came."""
        if not self.wait(request, seconds):
            raise TimedOut(f"the server has not answered {request.method.name} within {seconds:g} s")
        return request.result()

    def flush(self, seconds: float) -> None:
        """Send everything. Raises TimedOut when the server does not take it, and what ended the connection."""
        stop = time.monotonic() + seconds
        if not self._send(stop):
            raise TimedOut(f"the server did not take what was sent within {seconds:g} s")
        if time.monotonic() - self._looked_at > _LOOK_SECONDS:
            self.look()
        self.session.check()

    def look(self) -> None:
        """Take in what has come already, and see to the heartbeat."""
        self._turn(0.0)
        self._send(0.0)

    def close(self) -> None:
        self._socket.close()

    # -- turns --------------------------------------------------------------------------------------------------

    def _send(self, stop: float | None) -> bool:
        """False when time is up; a connection that is over has nothing more to send."""
        session = self.session
        while True:
            # More is asked for when this has gone: what is left of a large message stays where it is till then.
            if not self._unsent and session.has_output():
                self._unsent += session.take_output()
            if not self._unsent:
                return True
            if session.ended.is_ready:
                self._send_last()
                return True
            if not self._send_once() and not self._turn(stop, _READ_AND_WRITE):
                return False

    def _send_once(self) -> bool:
        """False when the socket takes nothing at present."""
        unsent = self._unsent
        try:
            sent = self._write()
        except _NOT_NOW:
            return False
        except OSError as error:
            self._read_last(error)
            return True
        self.session.engine.sent(time.monotonic())
        done = 0
        while done < len(unsent) and sent >= len(unsent[done]):
            sent -= len(unsent[done])
            done += 1
        del unsent[:done]
        if sent:
            unsent[0] = memoryview(unsent[0])[sent:]
        return True

    def _write(self) -> int:
        """How many bytes the socket took."""
        if isinstance(self._socket, ssl.SSLSocket):
            return self._socket.send(self._unsent[0])
        return self._socket.sendmsg(self._unsent[:_SEND_BUFFERS])

    def _turn(self, stop: float | None, events: int = _READ) -> bool:
        """Wait for the socket, and read what is there. False when time is up; a `stop` in the past still looks."""
        session = self.session
        engine = session.engine
        now = time.monotonic()
        due = engine.next_timer()
        until = stop if due is None else due if stop is None else min(stop, due)
        # Rounded up, so as not to wake before anything is due.
        wait = None if until is None else max(0, int((until - now) * 1000 + 1))
        self._poll.modify(self._socket, events)
        ready = self._poll.poll(wait)
        now = time.monotonic()
        self._looked_at = now
        if ready and ready[0][1] & ~select.POLLOUT:
            self._read(now)
        due = engine.next_timer()
        if due is not None and now >= due:
            # A process that stood still was woken by the time, and has not looked what came meanwhile.
            waiting = self._poll.poll(0)
            if waiting and waiting[0][1] & ~select.POLLOUT:
                self._read(now)
            engine.handle_timer(now)
            session.notice_end()
        return bool(ready) or session.ended.is_ready or stop is None or now < stop

    def _read(self, now: float) -> None:
        while True:
            try:
                data = self._socket.recv(_READ_BYTES)
            except _NOT_NOW:
                return
            except OSError as error:
                self.session.lost(_lost(error))
                return
            if not data:
                self.session.lost(None)
                return
            self.session.receive(data, now)
            # What TLS has read already, no poll tells of.
            if not isinstance(self._socket, ssl.SSLSocket) or not self._socket.pending():
                return

    def _read_last(self, error: OSError) -> None:
        """Sending failed; the server may have said why before it hung up."""
        while not self.session.ended.is_ready:
            try:
                data = self._socket.recv(_READ_BYTES)
            except OSError:
                data = b""
            if not data:
                self.session.lost(_lost(error))
                return
            self.session.receive(data, time.monotonic())

    def _send_last(self) -> None:
        """The connection is over; a last word (close-ok) goes out if the socket takes it."""
        # Where the peer has hung up already, it needs none.
        with suppress(OSError):
            self._write()
        self._unsent.clear()


def connect(target: Target, session: Driven, seconds: float) -> SocketDriver:
    """Connect, and shake hands. Raises ConnectFailed, ConnectTimeout, LoginRefused, ConnectionClosed (an unknown
    virtual host, say) or ConnectionLost.
    """
    stop = time.monotonic() + seconds
    context = target.tls.context() if target.tls else None
    try:
        sock = socket.create_connection((target.host, target.port), seconds)
        if context is not None and target.tls is not None:
            sock = _wrapped(sock, context, target.tls.server_name or target.host)
    except TimeoutError:
        raise ConnectTimeout(f"no connection to {target.address} within {seconds:g} s") from None
    except UnicodeError as error:
        raise ConnectFailed(f"no connection to {target.address}: no host can be called so") from error
    except ssl.SSLError as error:
        raise ConnectFailed(f"no TLS with {target.address}: {error}") from error
    except OSError as error:
        raise ConnectFailed(f"no connection to {target.address}: {error.strerror or error}") from error
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    driver = SocketDriver(sock, session)
    try:
        if not driver.wait(session.opened, max(0.0, stop - time.monotonic())):
            raise ConnectTimeout(f"{target.address} accepted, but did not open a connection within {seconds:g} s")
        session.check()
    except FlintError:
        driver.close()
        raise
    return driver


def _wrapped(sock: socket.socket, context: ssl.SSLContext, server_name: str) -> socket.socket:
    """Shake hands for TLS, within the socket's timeout."""
    try:
        return context.wrap_socket(sock, server_hostname=server_name)
    except OSError:
        sock.close()
        raise


def _lost(error: OSError) -> ConnectionLost:
    return ConnectionLost(f"the socket failed: {error.strerror or error}")
