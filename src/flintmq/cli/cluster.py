"""The nodes of a cluster, as etcd knows them: these commands work without a node that leads."""

import asyncio
import json
import math
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.cli.api import Missing, Unreachable
from flintmq.cli.commands import command
from flintmq.cli.options import ConfigFile, Json
from flintmq.cli.tables import Column, print_table, printable

if TYPE_CHECKING:
    from flintmq.cluster.coordinator import Coordinator, View
    from flintmq.server.config import ClusterSettings

Node = Annotated[str, typer.Argument(metavar="NODE", help="Name of the node: its cluster.node.")]

# A follower that was away for a moment is in sync within seconds; one that copies a full disk is not within a minute.
_WAIT_SECONDS: Final = 60.0
# A new leader reads the heads of the queues first.
_TRANSFER_SECONDS: Final = 30.0
_RETRY_SECONDS: Final = 0.2
_COLUMNS: Final = (
    Column("node", "name", rank=0),
    Column("address", "address", rank=0),
    Column("version", "version"),
    Column("alive", "is_alive", rank=0),
    Column("leader", "is_leader", rank=0),
    Column("in sync", "is_in_sync", rank=0),
)

T = TypeVar("T")


@command("cluster status")
def show_cluster(config_file: ConfigFile = None, as_json: Json = False) -> None:
    """Show the nodes: who is alive, who leads, and who is in sync, which means that it has all that is confirmed.

    Exit status 1 if no node leads, or too few are in sync.
    """
    settings = _settings(config_file)
    view = _ask(settings, lambda coordinator: coordinator.view())
    in_sync = _in_sync_now(view)
    leader = None if view.leader is None else view.leader.node
    term = None if view.leader is None else view.leader.term
    nodes = [
        {
            "name": each.name,
            "address": each.replication,
            "version": each.version,
            "is_alive": each.id in view.alive,
            "is_leader": each.id == leader,
            "is_in_sync": each.id in in_sync,
        }
        for each in sorted(view.members.values(), key=lambda member: member.name)
    ]
    if as_json:
        typer.echo(json.dumps({"name": settings.name, "term": term, "leader": leader, "nodes": nodes}))
    else:
        leads = "no node leads" if leader is None else f"{leader} leads in term {term}"
        typer.echo(printable(f"cluster {settings.name}: {leads}"))
        print_table(nodes, _COLUMNS)
    if leader is None or len(in_sync) < settings.min_in_sync:
        raise typer.Exit(1)


@command("cluster leave")
def leave(node: Node, config_file: ConfigFile = None) -> None:
    """Remove a node that has ended for good. It joins again if it is started again.

    A node that runs, leads or is in sync is not removed.
    """
    _ask(_settings(config_file), lambda coordinator: _leave(coordinator, node))
    typer.echo(printable(f"{node} is no longer a node of the cluster"))


async def _leave(coordinator: "Coordinator", node: str) -> None:
    while True:
        view = await coordinator.view()
        _check_member(view, node)
        if refusal := _refusal(view, node):
            raise FlintError(f"{node} is not removed: {refusal}")
        if await coordinator.remove_member(node):
            return


def _refusal(view: "View", node: str) -> str:
    """Why a member has to stay; empty if it may be removed."""
    if node in view.alive:
        return "it runs. Stop it first, and try again some seconds later"
    if view.leader is not None and view.leader.node == node:
        return "it leads. If it was stopped, another node leads some seconds later: try again then"
    if node not in view.in_sync:
        return ""
    if view.leader is None:
        others = ", ".join(sorted(view.in_sync))
        return (
            f"it has everything that was confirmed, and no node leads. Start a node of those in sync ({others}) first"
        )
    return (
        "the leader still counts it as in sync. Try again in some seconds. If fewer than cluster.min_in_sync nodes are "
        "left without it, start another one first"
    )


@command("cluster wait-in-sync")
def wait_in_sync(
    node: Node,
    config_file: ConfigFile = None,
    timeout: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="How long to wait; 0 looks once.")
    ] = _WAIT_SECONDS,
) -> None:
    """Wait until a node is in sync and follows the leader, or leads. For rolling upgrades, and for readiness probes.

    Exit status 1 if it is not within the timeout.
    """
    _ask(_settings(config_file), lambda coordinator: _wait(coordinator, node, timeout))
    typer.echo(printable(f"{node} is in sync"))


async def _wait(coordinator: "Coordinator", node: str, seconds: float) -> None:
    """Look until the node is in sync. It need not have joined before the end, nor need etcd answer all the time."""
    from flintmq.cluster.coordinator import CoordinatorError

    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while True:
        try:
            view = await coordinator.view()
            lack = _lack(view, node)
            if not lack:
                return
            if loop.time() >= until:
                _check_member(view, node)
                raise FlintError(f"{node} is not in sync after {seconds:g} s: {lack}")
            async with asyncio.timeout_at(until):
                await coordinator.changed(view.revision)
        except TimeoutError:
            continue
        except CoordinatorError:
            if loop.time() >= until:
                raise
            await asyncio.sleep(_RETRY_SECONDS)


def _lack(view: "View", node: str) -> str:
    """What a member lacks to be in sync; empty if it is."""
    if node not in view.alive:
        return "it does not run, or cannot reach etcd"
    if view.leader is None:
        return "no node leads"
    if node not in _in_sync_now(view):
        return f"it does not have everything yet that {view.leader.node} has; its log tells whether it follows"
    return ""


def _in_sync_now(view: "View") -> frozenset[str]:
    """The nodes that have everything that was confirmed, and get what comes.

    The last nodes that were lost stay in sync, because they may have to lead. Without a leader, these are the nodes one
    of which will lead. An older leader does not say who follows.
    """
    if view.leader is None or view.following is None:
        return view.in_sync & view.alive
    return view.in_sync & (view.following | {view.leader.node})


@command("cluster transfer-leadership")
def transfer_leadership(
    node: Node,
    config_file: ConfigFile = None,
    timeout: Annotated[
        float, typer.Option(min=1, max=3600, metavar="SECONDS", help="How long to wait for the new leader.")
    ] = _TRANSFER_SECONDS,
) -> None:
    """Let another node lead, which has to be in sync. Clients are disconnected, and connect again.

    Exit status 1 if it does not lead within the timeout.
    """
    _ask(_settings(config_file), lambda coordinator: _transfer(coordinator, node, timeout))
    typer.echo(printable(f"{node} leads"))


async def _transfer(coordinator: "Coordinator", node: str, seconds: float) -> None:
    from flintmq.cluster.coordinator import CoordinatorError

    view = await coordinator.view()
    _check_member(view, node)
    if view.leader is not None and view.leader.node == node:
        return
    if lack := _lack(view, node):
        raise FlintError(f"{node} cannot lead: {lack}")
    # The wish ends with its lease, so that it does not come true long after everybody has forgotten it.
    lease = await coordinator.grant(math.ceil(seconds))
    try:
        await coordinator.wish(node, lease)
        async with asyncio.timeout(seconds):
            while view.leader is None or view.leader.node != node:
                await coordinator.changed(view.revision)
                view = await coordinator.view()
    except TimeoutError:
        leads = "no node leads" if view.leader is None else f"{view.leader.node} leads"
        raise FlintError(f"{node} does not lead after {seconds:g} s: {leads}; its log may tell why") from None
    finally:
        with suppress(CoordinatorError):
            await coordinator.revoke(lease)


def _check_member(view: "View", node: str) -> None:
    """Raises Missing."""
    if node not in view.members:
        known = ", ".join(sorted(view.members)) or "there is none yet"
        raise Missing(f"{node} is not a node of the cluster: {known}")


def _settings(file: Path | None) -> "ClusterSettings":
    """The settings of the cluster. Raises ConfigurationError if they name none."""
    from flintmq.server import config

    settings = config.load(file, os.environ, {}).cluster
    if not settings.name:
        raise ConfigurationError(
            "these settings have no cluster: use those of a node, with --config or FLINTMQ_CONFIG, or set "
            "FLINTMQ_CLUSTER_NAME and FLINTMQ_CLUSTER_ETCD"
        )
    return settings


def _ask(settings: "ClusterSettings", work: "Callable[[Coordinator], Awaitable[T]]") -> T:
    """Let `work` ask etcd, and return what it returns. Raises Unreachable, and the errors of `work`."""
    from flintmq.cluster.coordinator import CoordinatorError, OutcomeUnknown
    from flintmq.cluster.etcd import etcd_of

    async def ask() -> T:
        coordinator = etcd_of(settings)
        try:
            return await work(coordinator)
        finally:
            await coordinator.close()

    try:
        return asyncio.run(ask())
    except OutcomeUnknown as error:
        raise FlintError(f"{error}: whether it was done, `flintmq cluster status` tells") from error
    except CoordinatorError as error:
        raise Unreachable(str(error)) from error
