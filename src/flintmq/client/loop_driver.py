"""The asyncio driver: a connection over a transport of an event loop, shared by any number of tasks."""

import asyncio
import ssl
from collections.abc import Awaitable
from typing import Final, cast, final

from flintmq.base.errors import ConnectionLost, FlintError
from flintmq.base.limits import READ_FIRST_SECONDS
from flintmq.client.delivery import Delivery, Inbox
from flintmq.client.driven import PIECE_BYTES, Driven
from flintmq.client.errors import ConnectFailed, ConnectTimeout, TimedOut
from flintmq.client.url import Target
from flintmq.client.waitable import REQUEST_SECONDS, Answer, M, Request, Waitable

# The socket is not read while more bytes of deliveries than this are not taken, unless a task waits for something.
_HELD_HIGH_BYTES: Final = 16 * 1024 * 1024
_HELD_LOW_BYTES: Final = 4 * 1024 * 1024


@final
class LoopDriver(asyncio.Protocol):
    """Moves the bytes of one connection, and wakes the tasks that wait for them."""

    def __init__(self, session: Driven, loop: asyncio.AbstractEventLoop) -> None:
        self.session = session
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._is_flush_due = False
        self._room = Waitable()
        self._room.ready()
        self._inboxes: list[Inbox] = []
        self._waiting = 0
        self._is_reading = True
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self, waitable: Waitable, seconds: float | None) -> bool:
        """Send everything, and wait until `waitable` is ready. False after `seconds`; None: there is no limit."""
        self.flush()
        if waitable.is_ready:
            return True
        # Everything that can be waited for fails with its connection.
        assert not self.session.ended.is_ready
        future = self._loop.create_future()

        def wake() -> None:
            if not future.done():
                future.set_result(None)

        waitable.when_ready(wake)
        self._waiting += 1
        self._control_reading()
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            return waitable.is_ready
        finally:
            waitable.forget(wake)
            self._waiting -= 1
        return True

    def wait_for_message(self, inbox: Waitable, seconds: float | None) -> Awaitable[bool]:
        """Do what `wait` does: the loop reads messages as they arrive."""
        return self.wait(inbox, seconds)

    async def take(self, inbox: Inbox, count: int, seconds: float | None) -> list[Delivery]:
        """Wait for a delivery, and take up to `count`; none after `seconds`. Raises what ended the subscription."""
        if not await self.wait(inbox, seconds):
            return []
        deliveries = inbox.take(count)
        if not self._is_reading:
            self._control_reading()
        return deliveries

    async def answer(self, request: Request[M], seconds: float = REQUEST_SECONDS) -> Answer[M]:
        """Wait for the answer to a request, and return it. Raises TimedOut, and what ended the channel before."""
        if not await self.wait(request, seconds):
            raise TimedOut(f"the server has not answered {request.method.name} within {seconds:g} s")
        return request.result()

    async def send(self, seconds: float) -> None:
        """Send what was written, together with what other tasks write in this turn of the loop, and wait while the
        transport is full. Raises TimedOut if the server does not read it, and what ended the connection.
        """
        if self.session.output.backlog >= PIECE_BYTES:
            self.flush()
            # A task that only publishes never waits while the kernel accepts everything: other tasks need their turn.
            await asyncio.sleep(0)
        elif not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush_now)
        if not self._room.is_ready and not await self.wait(self._room, seconds):
            raise TimedOut(f"the server did not read what was sent within {seconds:g} s")
        self.session.check()

    async def send_piece(self, seconds: float) -> None:
        """Send a piece of a batch. Raises what `send` does, and TimedOut if no time is left for the next piece."""
        await self.send(seconds)
        if seconds <= 0:
            raise TimedOut("the time for the batch is over")

    async def process(self, seconds: float) -> None:
        """Wait for `seconds`, while the loop reads and answers heartbeats. Raises what ended the connection."""
        session = self.session
        session.check()
        await self.wait(session.ended, seconds)
        session.check()

    def flush(self) -> None:
        """Give the transport the written bytes, while it has room."""
        transport = self._transport
        session = self.session
        if transport is None:
            return
        # The engine keeps the rest of a large message until the transport has room, so that it is not copied.
        while self._room.is_ready and not transport.is_closing() and session.has_output():
            transport.writelines(session.take_output())
            session.engine.sent(self._loop.time())

    def _flush_now(self) -> None:
        self._is_flush_due = False
        self.flush()

    def close(self) -> None:
        if self._transport is not None:
            if self.session.ended.is_ready:
                self._transport.close()
            else:
                self._transport.abort()

    # -- deliveries that wait to be taken -----------------------------------------------------------------------

    def watch(self, inbox: Inbox) -> None:
        """Count the deliveries in this inbox, and stop reading while there are too many."""
        self._inboxes.append(inbox)

    def unwatch(self, inbox: Inbox) -> None:
        self._inboxes.remove(inbox)
        self._control_reading()

    def _control_reading(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        held = sum(inbox.held_bytes for inbox in self._inboxes)
        if self._is_reading:
            if held > _HELD_HIGH_BYTES and self._waiting == 0:
                self._is_reading = False
                transport.pause_reading()
        elif held < _HELD_LOW_BYTES or self._waiting > 0:
            self._is_reading = True
            transport.resume_reading()

    # -- asyncio ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A transport of uvloop has the methods of asyncio.Transport, but not its base class.
        self._transport = cast(asyncio.Transport, transport)
        self.flush()

    def data_received(self, data: bytes) -> None:
        session = self.session
        session.receive(data, self._loop.time())
        self.flush()
        if session.ended.is_ready:
            self.close()
        elif self._inboxes:
            self._control_reading()
        if self._timer is None and session.opened.is_ready:
            self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        self.session.lost(ConnectionLost(f"the socket failed: {exc}") if exc else None)
        self._room.ready()
        if self._timer is not None:
            self._timer.cancel()

    def pause_writing(self) -> None:
        self._room.is_ready = False

    def resume_writing(self) -> None:
        self._room.ready()
        self.flush()

    # -- time ---------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        due = self.session.engine.next_timer()
        if due is not None:
            self._timer = self._loop.call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        """Read before the server's silence is judged: after a pause of the process, the loop runs timers before it
        reads what arrived meanwhile.
        """
        self._timer = self._loop.call_later(READ_FIRST_SECONDS, self._judge, self._loop.time())

    def _judge(self, now: float) -> None:
        session = self.session
        if not self._is_reading:
            # The server seems silent because this side does not read: it is not gone.
            session.receive(b"", now)
        session.engine.handle_timer(now)
        session.notice_end()
        self.flush()
        if session.ended.is_ready:
            if self._transport is not None:
                self._transport.abort()
        else:
            self._arm()


async def connect(target: Target, session: Driven, seconds: float) -> LoopDriver:
    """Connect and log in within `seconds`.

    Raises ConnectFailed, ConnectTimeout, LoginRefused, ConnectionClosed (an unknown virtual host, for example) or
    ConnectionLost.
    """
    loop = asyncio.get_running_loop()
    driver = LoopDriver(session, loop)
    stop = loop.time() + seconds
    tls = target.tls
    try:
        async with asyncio.timeout(seconds):
            if tls is None:
                await loop.create_connection(lambda: driver, target.host, target.port)
            else:
                name = tls.server_name or target.host
                context = tls.context()
                await loop.create_connection(
                    lambda: driver, target.host, target.port, ssl=context, server_hostname=name
                )
    except TimeoutError:
        raise ConnectTimeout(f"no connection to {target.address} within {seconds:g} s") from None
    except UnicodeError as error:
        raise ConnectFailed(f"no connection to {target.address}: no host can have this name") from error
    except ssl.SSLError as error:
        raise ConnectFailed(f"no TLS with {target.address}: {error}") from error
    except OSError as error:
        raise ConnectFailed(f"no connection to {target.address}: {error.strerror or error}") from error
    try:
        if not await driver.wait(session.opened, stop - loop.time()):
            raise ConnectTimeout(
                f"{target.address} accepted the socket, but did not open a connection within {seconds:g} s"
            )
        session.check()
    except (FlintError, asyncio.CancelledError):
        driver.close()
        raise
    return driver
