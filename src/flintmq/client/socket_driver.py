"""The blocking driver: a connection over a plain socket, served by the thread that calls it.

It has no thread of its own. So heartbeats are answered, and everything else is noticed, only during calls.
"""

import select
import socket
import ssl
import time
from contextlib import suppress
from typing import Final, final

from flintmq.base.errors import ConnectionLost, FlintError
from flintmq.client.delivery import Delivery, Inbox
from flintmq.client.driven import Driven
from flintmq.client.errors import ConnectFailed, ConnectTimeout, TimedOut
from flintmq.client.url import Target
from flintmq.client.waitable import REQUEST_SECONDS, Answer, M, Request, Waitable

# Bytes of one read; the parser is fastest on large pieces.
_READ_BYTES: Final = 256 * 1024
# Buffers of one sendmsg; the kernel takes 1,024 at most.
_SEND_BUFFERS: Final = 512
# After this time without a read, a call that only writes also reads, because confirms and heartbeats must not wait.
_LOOK_SECONDS: Final = 0.1

# A non-blocking socket, plain or TLS, raises these when the call has to be repeated later.
_NOT_NOW: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

_READ: Final = select.POLLIN
_READ_AND_WRITE: Final = select.POLLIN | select.POLLOUT


@final
class SocketDriver:
    """Moves the bytes of one connection. Every method may read and write, so that it never waits for a peer that waits
    for this side to read.
    """

    def __init__(self, sock: socket.socket, session: Driven) -> None:
        self.session = session
        self._socket = sock
        self._poll = select.poll()
        self._poll.register(sock, _READ)
        self._unsent: list[bytes | memoryview] = []
        self._looked_at = 0.0

    def wait(self, waitable: Waitable, seconds: float | None) -> bool:
        """Send everything, and read until `waitable` is ready. False after `seconds`; None: there is no limit."""
        stop = None if seconds is None else time.monotonic() + seconds
        self._flush(stop)
        while not waitable.is_ready:
            # Everything that can be waited for fails with its connection.
            assert not self.session.ended.is_ready
            if not self._turn(stop):
                return False
            self._flush(stop)
        return True

    def wait_for_message(self, inbox: Waitable, seconds: float | None) -> bool:
        """Do what `wait` does, but first read what has arrived, so that a batch gets all of it."""
        self.look()
        return self.wait(inbox, seconds)

    def take(self, inbox: Inbox, count: int, seconds: float | None) -> list[Delivery]:
        """Wait for a delivery, and take up to `count`; none after `seconds`. Raises what ended the subscription."""
        # Without this condition a slow consumer without acknowledgements would gather more and more deliveries.
        if len(inbox.deliveries) < count:
            self.look()
        return inbox.take(count) if self.wait(inbox, seconds) else []

    def answer(self, request: Request[M], seconds: float = REQUEST_SECONDS) -> Answer[M]:
        """Wait for the answer to a request, and return it. Raises TimedOut, and what ended the channel before."""
        if not self.wait(request, seconds):
            raise TimedOut(f"the server has not answered {request.method.name} within {seconds:g} s")
        return request.result()

    def send(self, seconds: float) -> None:
        """Send everything. Raises TimedOut if the server does not read it, and what ended the connection."""
        stop = time.monotonic() + seconds
        if not self._flush(stop):
            raise TimedOut(f"the server did not read what was sent within {seconds:g} s")
        if time.monotonic() - self._looked_at > _LOOK_SECONDS:
            self.look()
        self.session.check()

    def send_piece(self, seconds: float) -> None:
        """Send a piece of a batch, and read the confirms that have arrived. Raises what `send` does."""
        self.send(seconds)
        self.look()

    def process(self, seconds: float) -> None:
        """Read what arrives, and answer heartbeats, for `seconds`. Raises what ended the connection."""
        session = self.session
        session.check()
        stop = time.monotonic() + seconds
        self.look()
        session.check()
        while (left := stop - time.monotonic()) > 0:
            self.wait(session.ended, left)
            session.check()

    def look(self) -> None:
        """Read what has arrived, and serve the heartbeat, without waiting."""
        self._turn(0.0)
        self._flush(0.0)

    def close(self) -> None:
        self._socket.close()

    # -- turns --------------------------------------------------------------------------------------------------

    def _flush(self, stop: float | None) -> bool:
        """Send everything until `stop`; False if time is up. A connection that has ended has nothing more to send."""
        session = self.session
        while True:
            # The engine is asked for the next part of a large message when this part is sent: then it is not copied.
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
        """Write once; False if the socket accepts nothing at present."""
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
        """Write to the socket; returns how many bytes it accepted."""
        if isinstance(self._socket, ssl.SSLSocket):
            return self._socket.send(self._unsent[0])
        return self._socket.sendmsg(self._unsent[:_SEND_BUFFERS])

    def _turn(self, stop: float | None, events: int = _READ) -> bool:
        """Wait for the socket, and read what is there. False if time is up; a `stop` in the past reads once, too."""
        session = self.session
        engine = session.engine
        now = time.monotonic()
        due = engine.next_timer()
        until = stop if due is None else due if stop is None else min(stop, due)
        # Milliseconds are rounded up, because to wake before the timer is due would only poll again.
        wait = None if until is None else max(0, int((until - now) * 1000 + 1))
        self._poll.modify(self._socket, events)
        ready = self._poll.poll(wait)
        now = time.monotonic()
        self._looked_at = now
        if ready and ready[0][1] & ~select.POLLOUT:
            self._read(now)
        due = engine.next_timer()
        if due is not None and now >= due:
            # A process that was stopped for a while must read what the server sent before it judges its silence.
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
            # Bytes that TLS has read from the socket already are not seen by poll.
            if not isinstance(self._socket, ssl.SSLSocket) or not self._socket.pending():
                return

    def _read_last(self, error: OSError) -> None:
        """Read what the server sent before it closed the socket: writing has failed, and this may say why."""
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
        """Send the last frame (close-ok) of a connection that has ended, if the socket accepts it."""
        # A peer that has closed its socket does not need the frame.
        with suppress(OSError):
            self._write()
        self._unsent.clear()


def connect(target: Target, session: Driven, seconds: float) -> SocketDriver:
    """Connect and log in within `seconds`.

    Raises ConnectFailed, ConnectTimeout, LoginRefused, ConnectionClosed (an unknown virtual host, for example) or
    ConnectionLost.
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
        raise ConnectFailed(f"no connection to {target.address}: no host can have this name") from error
    except ssl.SSLError as error:
        raise ConnectFailed(f"no TLS with {target.address}: {error}") from error
    except OSError as error:
        raise ConnectFailed(f"no connection to {target.address}: {error.strerror or error}") from error
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    driver = SocketDriver(sock, session)
    try:
        if not driver.wait(session.opened, max(0.0, stop - time.monotonic())):
            raise ConnectTimeout(
                f"{target.address} accepted the socket, but did not open a connection within {seconds:g} s"
            )
        session.check()
    except FlintError:
        driver.close()
        raise
    return driver


def _wrapped(sock: socket.socket, context: ssl.SSLContext, server_name: str) -> socket.socket:
    """Do the TLS handshake, within the socket's timeout."""
    try:
        return context.wrap_socket(sock, server_hostname=server_name)
    except OSError:
        sock.close()
        raise


def _lost(error: OSError) -> ConnectionLost:
    return ConnectionLost(f"the socket failed: {error.strerror or error}")
