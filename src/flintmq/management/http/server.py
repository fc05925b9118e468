"""The HTTP server: uvicorn's protocol on the running event loop, with limits that apply before a login."""

import asyncio
import logging
import socket
import ssl
from typing import Any, Final

from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from flintmq.base.addresses import Network, is_loopback, is_within
from flintmq.base.limits import (
    HTTP_HEAD_MAX_BYTES,
    HTTP_HEAD_SECONDS,
    HTTP_IDLE_SECONDS,
    HTTP_PIPELINED_MAX,
    HTTP_UNAUTHENTICATED_IDLE_SECONDS,
    HTTP_UNREAD_SECONDS,
)
from flintmq.management.http.auth import CONNECTION, LOGINS
from flintmq.management.http.connection_quota import UNAUTHENTICATED, admit, make_room

_CLOSED_SECONDS: Final = 1.0
# Uvicorn's messages about connections are dropped, because unauthenticated clients could fill the log with them.
_QUIET: Final = logging.getLogger("flintmq.http")
_QUIET.addHandler(logging.NullHandler())


class _Connection(HttpToolsProtocol):
    """A connection. The limits for unauthenticated clients apply until the head of a request is complete."""

    def __init__(
        self, config: Config, state: ServerState, loop: asyncio.AbstractEventLoop, proxies: tuple[Network, ...]
    ) -> None:
        # Tasks of requests that are being authenticated.
        self._logins: set[asyncio.Task[Any]] = set()
        # The user that has logged in, as connection_quota.py defines it.
        self.login = UNAUTHENTICATED
        self.is_preferred = False
        self.since = loop.time()
        self._proxies = proxies
        super().__init__(config, state, {LOGINS: self._logins, CONNECTION: self}, loop)
        self.logger = _QUIET
        # The bytes that the parser got since the last head ended, or the last part of a body came: it may store all of
        # them.
        self._kept_bytes = 0
        self._hangup: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._is_refused = False
        # True once the head of a request was complete.
        self._has_begun = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if not make_room(self._others()):
            self._is_refused = True
            transport.abort()
            return
        super().connection_made(transport)
        self._await_head()

    def secured(self) -> None:
        """The client speaks TLS, which ends at the process or node that has accepted it."""
        self.scheme = "https"

    def _others(self) -> "list[_Connection]":
        connections: set[Any] = self.connections
        return [each for each in connections if each is not self and not each.transport.is_closing()]

    def on_login(self, login: str, is_preferred: bool) -> str:
        """Record a login; return why the connection cannot be kept nevertheless, or ""."""
        if login != self.login:
            is_shared = is_loopback(self.address) or is_within(self.address, self._proxies)
            refusal = admit(login, self.address, is_preferred, self._others(), is_shared=is_shared)
            if refusal:
                self.login = UNAUTHENTICATED
                return refusal
        self.login, self.is_preferred = login, is_preferred
        return ""

    @property
    def is_idle(self) -> bool:
        """Whether all requests were answered."""
        # Uvicorn declares that `cycle` is never None, but it is None at first.
        cycle: Any = self.cycle
        return cycle is None or bool(cycle.response_complete and not self.pipeline)

    def evict(self) -> None:
        """Close this connection, because another one needs its place."""
        if self.transport.get_write_buffer_size() > 0:
            # The client does not read its answer and could stay for long.
            self.transport.abort()
        else:
            self.transport.close()

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        self._was_read()
        if not self._is_refused:
            super().connection_lost(exc)
        for task in list(self._logins):
            task.cancel()

    # -- what comes ---------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._is_refused or self.transport.is_closing():
            return
        if self._hangup is None and self._has_begun and self.cycle.response_complete:
            # This is the next request on a kept connection.
            self._await_head()
        self._kept_bytes += len(data)
        super().data_received(data)
        if self._kept_bytes > HTTP_HEAD_MAX_BYTES:
            self.transport.abort()

    def on_message_begin(self) -> None:
        # A pipelined request may begin before the previous one is answered.
        if self._hangup is None:
            self._await_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head_came()
        self._kept_bytes = 0
        if len(self.pipeline) >= HTTP_PIPELINED_MAX or self._head_bytes() > HTTP_HEAD_MAX_BYTES:
            self.transport.abort()
            return
        super().on_headers_complete()
        self._has_begun = True

    def _head_bytes(self) -> int:
        """The size of the head in bytes: one read of the socket may bring much more than the limit."""
        return len(self.url) + sum(len(name) + len(value) for name, value in self.headers)

    def on_body(self, body: bytes) -> None:
        self._kept_bytes = 0
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._kept_bytes = 0
        if not self.transport.is_closing():
            super().on_message_complete()

    def _await_head(self) -> None:
        self._kept_bytes = 0
        self._hangup = self.loop.call_later(HTTP_HEAD_SECONDS, self.transport.abort)

    def _head_came(self) -> None:
        if self._hangup is not None:
            self._hangup.cancel()
            self._hangup = None

    # -- what goes ----------------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._was_read()
        if self.transport.is_closing():
            self._await_reader()

    def on_response_complete(self) -> None:
        self.since = self.loop.time()
        self.timeout_keep_alive = HTTP_IDLE_SECONDS if self.login else HTTP_UNAUTHENTICATED_IDLE_SECONDS
        super().on_response_complete()
        if self.transport.is_closing():
            # The connection is closed when everything is written, which depends on the client.
            self._await_reader()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._await_reader()

    def _await_reader(self) -> None:
        if self._unread is None:
            self._unread = self.loop.call_later(HTTP_UNREAD_SECONDS, self.transport.abort)

    def _was_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


class HttpServer:
    """Serves the application on any number of listeners. `proxies` are addresses that many users share."""

    def __init__(self, app: ASGIApp, proxies: tuple[Network, ...] = ()) -> None:
        self._proxies = proxies
        self._config = Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            # The address of a client comes from its socket; anybody can send a header.
            proxy_headers=False,
        )
        self._config.load()
        self._state = ServerState()
        self._listeners: list[asyncio.Server] = []

    async def listen(self, sockets: list[socket.socket], tls: ssl.SSLContext | None = None) -> None:
        """Accept connections from sockets that are listening. `close` closes them."""
        loop = asyncio.get_running_loop()
        # uvloop accepts a handshake timeout only together with a TLS context.
        timeouts: dict[str, Any] = {} if tls is None else {"ssl_handshake_timeout": HTTP_HEAD_SECONDS}
        for each in sockets:
            listener = await loop.create_server(self.connection, sock=each, ssl=tls, backlog=128, **timeouts)
            self._listeners.append(listener)

    def connection(self) -> _Connection:
        """Return the protocol of a socket that was accepted."""
        return _Connection(self._config, self._state, asyncio.get_running_loop(), self._proxies)

    async def close(self) -> None:
        """Answer pending requests within a second, and close all sockets."""
        for listener in self._listeners:
            listener.close()
        connections: set[Any] = self._state.connections
        for connection in list(connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(self._state.tasks, timeout=_CLOSED_SECONDS)
        for task in list(self._state.tasks):
            task.cancel()
        for connection in list(connections):
            connection.transport.abort()
