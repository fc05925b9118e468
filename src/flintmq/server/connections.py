"""The connection table: all sockets of a node, those with an open connection, and the objects that all share."""

import asyncio
from collections.abc import Callable
from typing import Final, final

from flintmq.broker.counters.dispatch import Dispatch
from flintmq.gateway.amqp091 import service as amqp091
from flintmq.gateway.amqp091.connection import ServerConnection
from flintmq.gateway.amqp10 import service as amqp10
from flintmq.gateway.amqp10.connection import ServerConnection as ServerConnection10
from flintmq.gateway.login import Security
from flintmq.protocol.output import Outbox, Output
from flintmq.protocol.sniff import Protocol
from flintmq.server.certificates import Tls
from flintmq.server.credit import Credit
from flintmq.server.intake import Intake
from flintmq.server.peer import Connection, Peer
from flintmq.server.relay.link import Link
from flintmq.server.schedule import TickSchedule
from flintmq.server.send_timeout import SendTimeout
from flintmq.server.unauthenticated import ReadThrottle

# The garbage collector examines new objects after this many steps of new connections. By itself it would wait for
# 10,000 objects and examine all of them at once, which takes milliseconds.
_STEPS_PER_COLLECTION: Final = 64


@final
class Connections:
    """All sockets of a node, at most `connection_max`.

    `amqp10_peers` gets the names of the peers that speak AMQP 1.0. `collect_garbage` is called regularly while many
    clients connect. `stopwatch` returns seconds from any start, to measure how long work takes.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        schedule: TickSchedule,
        dispatch: Dispatch,
        service_091: amqp091.Service,
        service_10: amqp10.Service,
        send_timeout: SendTimeout,
        tls: Tls | None,
        connection_max: int,
        amqp10_peers: set[str],
        collect_garbage: Callable[[], object],
        stopwatch: Callable[[], float],
    ) -> None:
        self.loop = loop
        self.schedule = schedule
        self.send_timeout = send_timeout
        self.tls = tls
        self.throttle = ReadThrottle(loop)
        self.outbox = Outbox()
        self.intake = Intake()
        self.dispatch = dispatch
        dispatch.clock = stopwatch
        self.stopwatch = stopwatch
        self.credit = Credit(loop, dispatch)
        # Peers that have sent something since the last tick.
        self.read_from: list[Peer] = []
        # Peers of open connections, and all peers, most of which may be unauthenticated.
        self.open: dict[Connection, Peer] = {}
        self._peers: dict[Output, Peer] = {}
        # Set while there is no peer.
        self.empty = asyncio.Event()
        # The links to processes and nodes that own the sockets of clients.
        self.links: list[Link] = []
        # Called with each peer that is removed.
        self.on_removed: Callable[[Peer], None] | None = None
        self._service_091 = service_091
        self._service_10 = service_10
        self._connection_max = connection_max
        self._amqp10_peers = amqp10_peers
        self._collect_garbage = collect_garbage
        self._steps = 0

    def __len__(self) -> int:
        return len(self._peers)

    @property
    def is_full(self) -> bool:
        """Whether another socket would take a file descriptor that the storage needs."""
        return len(self._peers) >= self._connection_max

    @property
    def peers(self) -> list[Peer]:
        return list(self._peers.values())

    def peer_of(self, output: Output) -> Peer | None:
        return self._peers.get(output)

    def add(self, peer: Peer) -> None:
        """Add the peer of an accepted socket."""
        self._peers[peer.output] = peer
        self.empty.clear()
        self._step()

    def remove(self, peer: Peer) -> None:
        """Remove the peer of a closed socket."""
        self._peers.pop(peer.output, None)
        if peer.has_spoken:
            self.closed(peer)
        if self.on_removed is not None:
            self.on_removed(peer)
        self._amqp10_peers.discard(peer.name)
        if not self._peers:
            self.empty.set()

    def begin(self, spoken: Protocol, output: Output, name: str, security: Security) -> Connection:
        """Return the connection of a peer that has begun to send this protocol."""
        self._step()
        if spoken is Protocol.AMQP_10:
            self._amqp10_peers.add(name)
            return ServerConnection10(self._service_10, output, name, security)
        return ServerConnection(self._service_091, output, name, security)

    def opened(self, peer: Peer) -> None:
        """Note that the connection of this peer is open, because its client has logged in."""
        self.open[peer.connection] = peer

    def closed(self, peer: Peer) -> None:
        """Note that the connection of this peer is not open any more, even if its socket still is."""
        self.open.pop(peer.connection, None)

    def _step(self) -> None:
        self._steps += 1
        if self._steps % _STEPS_PER_COLLECTION == 0:
            self._collect_garbage()
