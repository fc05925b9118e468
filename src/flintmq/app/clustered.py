"""A node of a cluster in its own process: it follows until it is elected, and is a broker as long as it leads."""

import asyncio
import socket
from dataclasses import replace
from typing import Final

from flintmq.app.collector import collect_everything, collect_rarely, collect_young
from flintmq.app.live_settings import tls_part
from flintmq.app.node import DRAIN_SECONDS, Node
from flintmq.app.runtime_environment import CODECS, connection_max, replicated
from flintmq.base.errors import ConfigurationError, FlintError, StorageError
from flintmq.cluster.coordinator import CoordinatorError
from flintmq.cluster.credentials import credentials_of
from flintmq.cluster.etcd import etcd_of
from flintmq.cluster.machine import RealDirectory, RealMachine
from flintmq.cluster.membership import FOLLOWER_SILENCE_SECONDS, Membership
from flintmq.cluster.relaying import Relaying
from flintmq.cluster.stream_copies import StreamCopies
from flintmq.cluster.term import NotLeading, Term
from flintmq.server import logs, service_manager
from flintmq.server.addresses import addresses
from flintmq.server.certificates import tls_of, watch
from flintmq.server.config import ClusterSettings, Settings
from flintmq.server.relay.front import Front
from flintmq.server.reload import Part, SettingsReload
from flintmq.server.signals import Signals
from flintmq.storage.node import lock_directory

log = logs.get_logger()

# How long clients have to answer when this node leads no longer: they connect to another one, which waits for that.
_PATIENCE_SECONDS: Final = 0.05
# After a start that failed, another node has time to lead.
_RETRY_SECONDS: Final = 1.0
# A node whose broker does not stop could not follow: its process ends, and is to be started again.
_STOP_SECONDS: Final = 30.0


async def serve_clustered(signals: Signals, reloading: SettingsReload) -> int:
    """Take part in the cluster until a signal comes. Raises FlintError if that is not possible."""
    given = reloading.settings.cluster
    directory = RealDirectory(reloading.settings.storage.directory)
    lock = lock_directory(directory.disk, directory.root)
    bound = _bind(given)
    machine = RealMachine(bound, FOLLOWER_SILENCE_SECONDS, credentials_of(given))
    tls = tls_of(reloading.settings.tls, reloading.settings.certificates)
    copies = StreamCopies(directory, CODECS)
    front = Front(await _listen(reloading.settings), tls, connection_max(), copies.fetch)
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
    stop = asyncio.create_task(signals.stop.wait())
    # Clients that this node relays have their TLS here, whichever settings the leader has.
    reloading.add(tls_part(tls))
    watching = [asyncio.create_task(reloading.watch(signals.reload))]
    if tls is not None:
        watching.append(asyncio.create_task(watch(tls)))
    try:
        # Without a coordinator, clients learn that this node cannot do anything for them, and do not wait.
        front.open()
        starting = asyncio.create_task(membership.start())
        await _first(starting, stop)
        collect_rarely()
        service_manager.notify(service_manager.READY)
        while not stop.done():
            front.open()
            elected = asyncio.create_task(membership.until_elected())
            if await _first(elected, stop):
                # The storage of the broker has a lock of its own.
                lock.release()
                relaying.relay_to("", 0)
                await _lead(elected.result(), membership, front, stop, reloading)
                collect_everything()
                lock = lock_directory(directory.disk, directory.root)
    finally:
        service_manager.notify(service_manager.STOPPING)
        for each in watching:
            each.cancel()
        relaying.relay_to("", 0)
        front.close()
        await membership.close()
        lock.release()
    return 0


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


async def _first(work: "asyncio.Task[object]", stop: "asyncio.Task[bool]") -> bool:
    """Wait for work, unless it is time to stop. Returns whether it was done. Raises what it raises."""
    await asyncio.wait([work, stop], return_when=asyncio.FIRST_COMPLETED)
    if work.done():
        work.result()
        return True
    work.cancel()
    await asyncio.wait([work])
    return False


async def _lead(
    number: int, membership: Membership, front: Front, stop: "asyncio.Task[bool]", reloading: SettingsReload
) -> None:
    """Be the broker of the cluster until the term ends, or it is time to stop."""
    try:
        term = await membership.lead(number)
    except (CoordinatorError, StorageError, OSError) as error:
        log.warning("this node cannot lead", reason=str(error))
        await asyncio.sleep(_RETRY_SECONDS)
        return
    environment = replace(
        replicated(membership.operations, term),
        collect_garbage=collect_young,
        listening=front.hand_over,
        relayed=membership.relay_to,
    )
    stopping = asyncio.create_task(_end_with(term, stop))
    node = Node(reloading.settings, environment)
    parts: list[Part] = []
    try:
        await node.start()
        collect_rarely()
        for part in node.reloaded:
            reloading.add(part)
            parts.append(part)
        await term.until_end()
    except NotLeading as error:
        log.warning("not started", reason=str(error))
    finally:
        stopping.cancel()
        for part in parts:
            reloading.remove(part)
        # Who is not the leader any more can confirm nothing.
        drain_seconds = DRAIN_SECONDS if term.is_handed_over else 0.0
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await node.stop(_PATIENCE_SECONDS, drain_seconds, term.reason)
        except TimeoutError:
            raise FlintError(f"the broker has not stopped within {_STOP_SECONDS:g} s: start it again") from None
        await membership.resign(term)


async def _end_with(term: Term, stop: "asyncio.Task[bool]") -> None:
    await asyncio.wait([stop])
    term.end("shutdown", is_handed_over=True)
