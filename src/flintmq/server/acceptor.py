"""The acceptor: listening sockets, from which only a few connections are accepted in a turn of the event loop.

Event loops by themselves accept all connections that wait, up to a thousand. A thousand new clients would then delay
all others by a tenth of a second and more.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Final, Protocol, cast, final

from flintmq.server import logs

# Accepting this many takes a quarter of a millisecond, with the objects of each connection.
ACCEPTED_PER_TURN: Final = 4
# The number of connections that wait in the kernel meanwhile.
_BACKLOG: Final = 1024
# The wait after the process or the machine has run out of a resource that a connection needs.
_RETRY_SECONDS: Final = 1.0

log = logs.get_logger()


class StreamProtocol(Protocol):
    """The methods of `asyncio.Protocol`: event loops call them by name and do not ask for the class."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...

    def data_received(self, data: bytes) -> None: ...

    def eof_received(self) -> bool | None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


@final
class Acceptor:
    """All listening sockets of one host name and port.

    `protocol` creates the protocol of an accepted socket. `room` returns how many more of them there may be at present;
    call `go_on` when they may be more.
    """

    def __init__(self, protocol: Callable[[], StreamProtocol], room: Callable[[], int] | None = None) -> None:
        self._protocol = cast(Callable[[], asyncio.Protocol], protocol)
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        self._room = room
        # Sockets from which none is accepted before there is room.
        self._waiting: list[socket.socket] = []
        self._welcomed: set[asyncio.Task[Any]] = set()

    def accept_from(self, sockets: list[socket.socket]) -> None:
        """Accept connections from sockets that are listening. `close` closes them."""
        self._sockets = sockets
        for each in sockets:
            self._await(each)

    def close(self) -> None:
        """Accept no more connections. `settle` waits for those that were accepted just now."""
        for each in self._sockets:
            self._loop.remove_reader(each.fileno())
            each.close()
        self._sockets = []

    async def settle(self) -> None:
        """Return when all accepted connections have their protocol.

        They must not be cancelled: uvloop would close the socket of a protocol that is never told of it.
        """
        while self._welcomed:
            await asyncio.wait(self._welcomed)

    def _await(self, listening: socket.socket) -> None:
        # The socket may have been closed meanwhile.
        if listening in self._sockets:
            self._loop.add_reader(listening.fileno(), self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        """Accept waiting connections; the loop calls again in its next turn as long as there are any."""
        for _ in range(ACCEPTED_PER_TURN):
            if self._room is not None and self._room() <= len(self._welcomed):
                self._loop.remove_reader(listening.fileno())
                self._waiting.append(listening)
                return
            try:
                connection, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.warning("no connection can be accepted", reason=error.strerror or str(error))
                self._loop.remove_reader(listening.fileno())
                self._loop.call_later(_RETRY_SECONDS, self._await, listening)
                return
            connection.setblocking(False)
            welcome = self._loop.create_task(self._welcome(connection))
            self._welcomed.add(welcome)
            welcome.add_done_callback(self._has_welcomed)

    def _has_welcomed(self, welcome: asyncio.Task[None]) -> None:
        self._welcomed.discard(welcome)
        self.go_on()

    def go_on(self) -> None:
        """Accept connections again if there was no room."""
        if self._waiting:
            waiting = self._waiting
            self._waiting = []
            for each in waiting:
                self._await(each)

    async def _welcome(self, connection: socket.socket) -> None:
        if not self._sockets:
            connection.close()
            return
        try:
            await self._loop.connect_accepted_socket(self._protocol, connection)
        except OSError as error:
            # The client has closed the connection already.
            log.debug("connection lost", reason=str(error))
            connection.close()


async def listening_sockets(loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen on all addresses of a host name. Raises OSError, with none left open."""
    found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    missing: OSError | None = None
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            try:
                made = socket.socket(family, kind, protocol)
            except OSError as error:
                # A name can have an IPv6 address although the system has no IPv6.
                log.info("address left out", address=address[0], reason=error.strerror or str(error))
                missing = error
                continue
            _listen(made, address)
            sockets.append(made)
        if missing is not None and not sockets:
            raise missing
    except OSError:
        for each in sockets:
            each.close()
        raise
    return sockets


def _listen(made: socket.socket, address: Any) -> None:  # noqa: ANN401 - as the system's
    """Return a listening socket. Raises OSError, with no socket left open, if that is not possible."""
    try:
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if made.family == socket.AF_INET6:
            # IPv4 addresses have sockets of their own.
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
        made.listen(_BACKLOG)
    except OSError:
        made.close()
        raise
