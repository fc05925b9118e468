"""The broker's links to nodes that relay clients to it: nodes of its cluster that do not lead."""

import asyncio
import socket
from collections.abc import Callable
from typing import cast, final

from flintmq.base.limits import LINK_READ_FIRST_SECONDS
from flintmq.server import logs
from flintmq.server.amqp import AmqpServer
from flintmq.server.relay.link import Link
from flintmq.server.relay.notes import ANSWERS_FETCHES

log = logs.get_logger()


@final
class Relays:
    """Serves the clients that other nodes relay to `server`.

    `has_confirmed` tells whether a node has everything that is confirmed, so that fetches can be delegated to it.
    """

    def __init__(self, server: AmqpServer, has_confirmed: Callable[[str], bool]) -> None:
        self._server = server
        self._has_confirmed = has_confirmed
        self._loop = asyncio.get_running_loop()
        self._links: dict[str, Link] = {}
        self._connecting: set[asyncio.Task[None]] = set()

    def serve(self, connection: socket.socket, node: str) -> None:
        """Serve the clients of a node over this connection until it ends. May be called from any thread."""
        self._loop.call_soon_threadsafe(self._begin, connection, node)

    def _begin(self, connection: socket.socket, node: str) -> None:
        if self._server.reception.is_closed:
            connection.close()
            return
        connecting = self._loop.create_task(self._connect(connection, node))
        self._connecting.add(connecting)
        connecting.add_done_callback(self._connecting.discard)

    async def _connect(self, connection: socket.socket, node: str) -> None:
        server = self._server
        links = server.connections.links

        def on_lost(lost: Link, reason: str) -> None:
            links.remove(lost)
            if self._links.get(node) is lost:
                del self._links[node]
                log.info("relay ended", node=node, reason=reason)

        def on_note(to: Link, note: bytes) -> None:
            if note == ANSWERS_FETCHES:
                to.answers_fetches = lambda: self._has_confirmed(node)

        link = Link(self._loop, server.schedule.request, server.reception.receive, on_note, on_lost)
        before, self._links[node] = self._links.get(node), link
        if before is not None:
            # The node has lost it, and this end does not know.
            before.abort()
        links.append(link)
        # As with I/O workers: the machine may have stood still, and the other process has to read first.
        server.schedule.read_first_seconds = LINK_READ_FIRST_SECONDS
        log.info("relay begins", node=node)
        connection.setblocking(False)
        await self._loop.create_connection(lambda: cast(asyncio.Protocol, link), sock=connection)

    def close(self) -> None:
        """Close all connections, once everything that was sent is on its way."""
        for link in list(self._links.values()):
            link.close()
