"""A node of a cluster in its own process: it follows until it is elected, and is a broker as long as it leads."""

import asyncio
import socket
from dataclasses import replace
from functools import partial
from typing import Final, final

from flintmq.app.collector import collect_everything, collect_rarely, collect_young
from flintmq.app.live_settings import tls_part
from flintmq.app.node import DRAIN_SECONDS, Node, load_ahead
from flintmq.app.runtime_environment import CODECS, connection_max, replicated
from flintmq.base.errors import ConfigurationError
from flintmq.cluster.credentials import credentials_of
from flintmq.cluster.etcd import etcd_of
from flintmq.cluster.machine import RealDirectory, RealMachine
from flintmq.cluster.membership import FOLLOWER_SILENCE_SECONDS, Membership
from flintmq.cluster.participation import Participation, Serving
from flintmq.cluster.relaying import Relaying
from flintmq.cluster.stream_copies import StreamCopies
from flintmq.cluster.term import Term
from flintmq.server import service_manager
from flintmq.server.addresses import addresses
from flintmq.server.certificates import tls_of, watch
from flintmq.server.config import ClusterSettings, Settings
from flintmq.server.relay.front import Front
from flintmq.server.reload import Part, SettingsReload
from flintmq.server.signals import Signals
from flintmq.storage.node import lock_directory

# How long clients have to answer when this node leads no longer: they connect to another one, which waits for that.
# Clients that read nothing between two calls never answer.
PATIENCE_SECONDS: Final = 0.02
# Most nodes follow so long after they have joined.
_LOAD_SECONDS: Final = 3.0


async def serve_clustered(signals: Signals, reloading: SettingsReload) -> int:
    """Take part in the cluster until a signal comes. Raises FlintError if that is not possible."""
    given = reloading.settings.cluster
    directory = RealDirectory(reloading.settings.storage.directory)
    lock = lock_directory(directory.disk, directory.root)
    bound = _bind(given)
    machine = RealMachine(bound, FOLLOWER_SILENCE_SECONDS, credentials_of(given))
    tls = tls_of(reloading.settings.tls, reloading.settings.certificates)
    copies = StreamCopies(directory, CODECS)
    front = Front(await _listen(reloading.settings), tls, connection_max(), copies.answer)
    relaying = Relaying(machine, front, given.name, given.node)
    membership = Membership(
        etcd_of(given),
        machine,
        directory,
        given.name,
        given.node,
        given.address or f"{given.host}:{bound.getsockname()[1]}",
        given.min_in_sync,
    )
    membership.tell_leaders(relaying.relay_to)

    def before_leading() -> None:
        # The storage of the broker has a lock of its own.
        lock.release()
        relaying.relay_to("", 0)

    def after_leading() -> None:
        nonlocal lock
        if not stop.done():
            collect_everything()
        lock = lock_directory(directory.disk, directory.root)

    stop = asyncio.create_task(signals.stop.wait())
    # Clients that this node relays have their TLS here, whichever settings the leader has.
    reloading.add(tls_part(tls))
    watching = [asyncio.create_task(reloading.watch(signals.reload))]
    if tls is not None:
        watching.append(asyncio.create_task(watch(tls)))
    try:
        # Without a coordinator, clients learn that this node cannot do anything for them, and do not wait.
        front.open()
        participation = Participation(membership, stop, partial(_Leader, membership, front, reloading))
        participation.on_follow = front.open
        participation.on_lead = before_leading
        participation.on_resigned = after_leading
        await participation.join()
        watching.append(asyncio.create_task(_load_later(reloading.settings)))
        collect_rarely()
        service_manager.notify(service_manager.READY)
        await participation.run()
    finally:
        service_manager.notify(service_manager.STOPPING)
        copies.close()
        for each in watching:
            each.cancel()
        relaying.relay_to("", 0)
        front.close()
        await membership.close()
        lock.release()
    return 0


async def _load_later(settings: Settings) -> None:
    """Import what a leader needs, once this node has had time to follow.

    Clients come at once to a node that was elected, and importing would take the processor from them. At a start, it
    would take it from the first election.
    """
    await asyncio.sleep(_LOAD_SECONDS)
    await asyncio.get_running_loop().run_in_executor(None, load_ahead, settings)


def _bind(given: ClusterSettings) -> socket.socket:
    """Listen for other nodes. Raises ConfigurationError."""
    if not given.node:
        raise ConfigurationError("cluster.node: name this node")
    try:
        family = socket.AF_INET6 if ":" in given.host else socket.AF_INET
        return socket.create_server((given.host, given.port), family=family)
    except OSError as error:
        raise ConfigurationError(
            f"cluster.host, cluster.port: {given.host}:{given.port} cannot be listened on ({error.strerror})"
        ) from error


async def _listen(settings: Settings) -> dict[str, list[socket.socket]]:
    """Listen for clients. Raises FlintError."""
    return {name: await address.listen() for name, address in addresses(settings).items()}


@final
class _Leader(Serving):
    """The broker of the cluster in one term, with the listening sockets of `front`."""

    def __init__(self, membership: Membership, front: Front, reloading: SettingsReload, term: Term) -> None:
        self._membership = membership
        self._front = front
        self._reloading = reloading
        self._term = term
        self._node: Node | None = None
        self._parts: list[Part] = []

    async def start(self) -> None:
        environment = replace(
            replicated(self._membership.operations, self._term),
            collect_garbage=collect_young,
            listening=self._front.hand_over,
            relayed=self._membership.relay_to,
        )
        self._node = node = Node(self._reloading.settings, environment)
        await node.start()
        collect_rarely()
        for part in node.reloaded:
            self._reloading.add(part)
            self._parts.append(part)

    async def stop(self) -> None:
        for part in self._parts:
            self._reloading.remove(part)
        if self._node is not None:
            # Who is not the leader any more can confirm nothing.
            drain_seconds = DRAIN_SECONDS if self._term.is_handed_over else 0.0
            await self._node.stop(PATIENCE_SECONDS, drain_seconds, self._term.reason)
