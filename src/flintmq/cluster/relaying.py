"""A follower's connection to the leader for the clients that it relays, beside the one by which it follows."""

import asyncio
import socket
from typing import Final, final

from flintmq import __version__
from flintmq.base.errors import FlintError
from flintmq.cluster import wire
from flintmq.cluster.following import LEADER_SILENCE_SECONDS
from flintmq.cluster.ports import LinkError, Machine, Refusal
from flintmq.cluster.wire import Hello, Welcome
from flintmq.server import logs
from flintmq.server.relay.front import Front

# The pause before the leader is asked again. It does not accept clients before it has recovered.
RETRY_SECONDS: Final = 0.05

log = logs.get_logger()


@final
class Relaying:
    """Relays the clients of `front` to whichever node leads. `node` is this node of the cluster."""

    def __init__(self, machine: Machine, front: Front, cluster: str, node: str) -> None:
        self._machine = machine
        self._front = front
        self._cluster = cluster
        self._node = node
        self._loop = asyncio.get_running_loop()
        self._leader = ("", 0)
        self._task: asyncio.Task[None] | None = None

    def relay_to(self, address: str, term: int) -> None:
        """Relay clients to the leader of `term`, which other nodes reach at `address`; to nobody if that is empty.

        Clients that are relayed to another leader, or to that of another term, are disconnected.
        """
        if (address, term) == self._leader:
            return
        self._leader = (address, term)
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if address:
            self._task = self._loop.create_task(self._relay(address, term))

    async def _relay(self, address: str, term: int) -> None:
        said = ""
        while True:
            try:
                connection = await self._connect(address, term)
                log.info("relaying clients", leader=address, term=term)
                reason = await self._front.relay(connection)
            except (LinkError, Refusal, OSError) as error:
                reason = str(error)
            if reason != said:
                log.info("not relaying clients", leader=address, term=term, reason=reason)
                said = reason
            await asyncio.sleep(RETRY_SECONDS)

    async def _connect(self, address: str, term: int) -> socket.socket:
        connecting = self._loop.create_task(asyncio.to_thread(self._dial, address, term))
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            # The thread cannot be interrupted.
            connecting.add_done_callback(_close)
            raise

    def _dial(self, address: str, term: int) -> socket.socket:
        """Connect to the leader. Blocks. Raises LinkError, or Refusal."""
        link = self._machine.connect(address, LEADER_SILENCE_SECONDS)
        try:
            link.authenticate()
            link.send(wire.RELAY, Hello(wire.PROTOCOL, self._cluster, self._node, __version__, term, 0, 0))
            kind, body = link.receive()
            if kind == wire.REFUSED:
                raise Refusal(wire.read(body, str))
            welcome: Welcome = wire.read(body, Welcome)
            if kind != wire.WELCOME or welcome.term != term:
                raise LinkError(f"the node at the leader's address leads in term {welcome.term}, not {term}")
            return link.detach()
        except FlintError:
            link.close()
            raise


def _close(connected: "asyncio.Task[socket.socket]") -> None:
    if not connected.cancelled() and connected.exception() is None:
        connected.result().close()
