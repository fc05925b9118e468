"""The front of a node of a cluster: its listening sockets, and the clients that it relays while another node leads.

The sockets stay open as long as the process. So clients that come while the cluster elects a leader wait in the kernel,
and are served by whichever node leads next: by this node, which accepts from the same sockets, or through it. Without a
leader for long, clients are disconnected as they come, because they may know a node that can do more.
"""

import asyncio
import socket
from collections.abc import Mapping
from functools import partial
from typing import Final, cast, final

from flintmq.server.acceptor import ACCEPTED_PER_TURN, Acceptor, StreamProtocol
from flintmq.server.certificates import Tls
from flintmq.server.relay.client import Clients, Fetch
from flintmq.server.relay.frames import NOTE
from flintmq.server.relay.link import Link, refuse
from flintmq.server.relay.notes import ANSWERS_FETCHES

# Most elections are over by then. A client that waits longer could as well try the next address that it has.
PATIENCE_SECONDS: Final = 1.0


@final
class Front:
    """The front of a node. `listening` has its sockets by the names of their addresses, as in `server/addresses.py`.

    `tls` is that of clients, which ends here. At most `client_max` clients are relayed at a time. `fetch` answers
    fetches of streams that the leader delegates.
    """

    def __init__(
        self,
        listening: Mapping[str, list[socket.socket]],
        tls: Tls | None,
        client_max: int,
        fetch: Fetch,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listening = listening
        self._tls = tls
        self._client_max = client_max
        self._fetch = fetch
        self._acceptors: dict[str, Acceptor] = {}
        # The link to the leader, and what clients on it share; None without a leader.
        self._link: Link | None = None
        self._clients: Clients | None = None
        self._waits = False
        self._patience: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """Accept clients on all addresses, also on those that were handed over, whose user has closed its sockets."""
        self._wait()
        for name in self._listening:
            if name not in self._acceptors:
                self._acceptors[name] = acceptor = Acceptor(partial(self._client, name), self._room)
                acceptor.accept_from(self._copies(name))

    def hand_over(self, name: str) -> list[socket.socket]:
        """Return sockets that listen on this address, and accept no more clients on it."""
        acceptor = self._acceptors.pop(name, None)
        if acceptor is not None:
            acceptor.close()
        return self._copies(name)

    def _copies(self, name: str) -> list[socket.socket]:
        return [each.dup() for each in self._listening[name]]

    def close(self) -> None:
        """Accept no more clients."""
        self._stop_waiting()
        for acceptor in self._acceptors.values():
            acceptor.close()
        self._acceptors.clear()
        for sockets in self._listening.values():
            for each in sockets:
                each.close()

    # -- relaying -----------------------------------------------------------------------------------------------

    async def relay(self, connection: socket.socket) -> str:
        """Relay clients over this connection to the leader until it ends, and return why it did.

        All clients are disconnected then, and also when this is cancelled. Raises OSError if the connection is broken.
        """
        lost = self._loop.create_future()

        def on_lost(_link: Link, reason: str) -> None:
            if not lost.done():
                lost.set_result(reason)

        def wake() -> None:
            self._loop.call_soon(link.flush)

        link = Link(self._loop, wake, refuse, lambda *_: None, on_lost)
        link.on_room = self._go_on
        connection.setblocking(False)
        connecting = self._loop.create_task(
            self._loop.create_connection(lambda: cast(asyncio.Protocol, link), sock=connection)
        )
        clients = Clients(self._loop, link, lambda: self._tls, self._fetch)
        try:
            # Event loops and the socket would both close the descriptor if this was cancelled.
            await asyncio.shield(connecting)
            self._stop_waiting()
            link.send(NOTE, 0, ANSWERS_FETCHES)
            self._link, self._clients = link, clients
            self._go_on()
            reason: str = await lost
            return reason
        finally:
            connecting.add_done_callback(lambda _: link.abort())
            clients.throttle.close()
            if self._link is link:
                self._link = self._clients = None
                self._wait()

    def _go_on(self) -> None:
        for acceptor in self._acceptors.values():
            acceptor.go_on()

    # -- accepting ----------------------------------------------------------------------------------------------

    def _room(self) -> int:
        if self._link is not None:
            return self._link.room()
        return 0 if self._waits else ACCEPTED_PER_TURN

    def _client(self, name: str) -> StreamProtocol:
        clients = self._clients
        if clients is None or len(clients.link) >= self._client_max:
            return _Refused()
        return clients.of(name)()

    def _wait(self) -> None:
        """Let clients wait for a leader, but not for long."""
        self._stop_waiting()
        self._waits = True
        self._patience = self._loop.call_later(PATIENCE_SECONDS, self._wait_no_longer)

    def _wait_no_longer(self) -> None:
        self._waits = False
        self._go_on()

    def _stop_waiting(self) -> None:
        self._waits = False
        if self._patience is not None:
            self._patience.cancel()


class _Refused(asyncio.Protocol):
    """A client that cannot be relayed now."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).abort()
