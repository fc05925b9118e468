"""A node of a cluster in its own process: it follows until it is elected, and is a broker as long as it leads."""

import asyncio
import gc
import socket
from dataclasses import replace
from functools import partial

from flintmq.app.node import Node
from flintmq.app.runtime_environment import replicated
from flintmq.base.errors import ConfigurationError
from flintmq.cluster.credentials import credentials_of
from flintmq.cluster.etcd import Etcd
from flintmq.cluster.machine import RealDirectory, RealMachine
from flintmq.cluster.membership import SILENCE_SECONDS, Membership
from flintmq.cluster.tls import etcd_tls
from flintmq.server import service_manager
from flintmq.server.config import Settings
from flintmq.server.signals import Signals


async def serve_clustered(settings: Settings, signals: Signals) -> int:
    """Take part in the cluster until a signal comes."""
    given = settings.cluster
    if not given.node:
        raise ConfigurationError("cluster.node: name this node")
    gc.enable()
    bound = socket.create_server((given.host, given.port))
    address = given.address or f"{given.host}:{bound.getsockname()[1]}"
    membership = Membership(
        Etcd(
            given.etcd.split(),
            given.name,
            given.etcd_user,
            given.etcd_password,
            etcd_tls(given.etcd_ca, given.etcd_certificate, given.etcd_key),
        ),
        RealMachine(bound, SILENCE_SECONDS, credentials_of(given)),
        RealDirectory(settings.storage.directory),
        given.name,
        given.node,
        address,
        given.min_in_sync,
    )
    await membership.start()
    stop = asyncio.create_task(signals.stop.wait())
    service_manager.notify(service_manager.READY)
    try:
        while not stop.done():
            await _take_part(settings, membership, stop)
    finally:
        service_manager.notify(service_manager.STOPPING)
        await membership.close()
    return 0


async def _take_part(settings: Settings, membership: Membership, stop: "asyncio.Task[bool]") -> None:
    """Follow until this node is elected, and lead until it is not any more."""
    elected = asyncio.create_task(membership.until_elected())
    await asyncio.wait([elected, stop], return_when=asyncio.FIRST_COMPLETED)
    if not elected.done():
        elected.cancel()
        return
    term = elected.result()
    await membership.lead(term)
    environment = replicated(membership.operations, membership.confirmed)
    node = Node(settings, replace(environment, collect_garbage=partial(gc.collect, 1)))
    deposed = asyncio.create_task(membership.until_deposed())
    try:
        await node.start()
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000, 250, 1_000)
        await asyncio.wait([deposed, stop], return_when=asyncio.FIRST_COMPLETED)
    finally:
        deposed.cancel()
        await node.stop()
        await membership.resign(term)
