"""The checks of `flintmq doctor` for a node of a cluster: its directory, etcd, and the other nodes."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Final

from flintmq.base.errors import ConfigurationError, StorageError
from flintmq.cli.finding import Finding, Verdict
from flintmq.cluster.coordinator import CoordinatorError, Member, View
from flintmq.cluster.credentials import Credentials, credentials_of
from flintmq.cluster.etcd import REQUEST_SECONDS, Etcd, etcd_of
from flintmq.cluster.machine import RealDirectory, dial
from flintmq.cluster.ports import LinkError, Refusal
from flintmq.cluster.state import NodeState
from flintmq.server.config import ClusterSettings

# Machines with a time service differ by milliseconds. Messages expire by the clock of the node that leads.
_CLOCKS_DIFFER_SECONDS: Final = 1.0
# What etcd's clock may be ahead of the one that it says, which is in whole seconds.
_SECOND: Final = 1.0
_ANSWER_SECONDS: Final = 2.0


def examine_cluster(settings: ClusterSettings, root: Path) -> list[Finding]:
    """Check the settings of a node, its data directory `root`, etcd, and the other nodes."""

    async def examine() -> list[Finding]:
        return [finding async for finding in _look(settings, RealDirectory(root))]

    return asyncio.run(examine())


async def _look(settings: ClusterSettings, directory: RealDirectory) -> AsyncIterator[Finding]:
    finding, seen_term = _node(settings, directory)
    yield finding
    try:
        etcd = etcd_of(settings)
    except ConfigurationError as error:
        yield Finding("etcd", "wrong", str(error))
        return
    try:
        for finding in await _endpoints(etcd, settings.etcd.split()):
            yield finding
        try:
            view = await etcd.view()
        except CoordinatorError as error:
            yield Finding("nodes", "wrong", f"the nodes of the cluster are not known: {error}")
            return
        if seen_term and not view.in_sync_revision:
            text = f"{directory.root} has seen term {seen_term} of this cluster, and etcd has no record of any"
            advice = "correct cluster.etcd or, if etcd has lost its data, see docs/cluster.md for how to begin again"
            yield Finding("etcd", "wrong", f"{text}: {advice}")
        async for finding in _members(settings, view):
            yield finding
    finally:
        await etcd.close()


def _node(settings: ClusterSettings, directory: RealDirectory) -> tuple[Finding, int]:
    """Also the highest term that the directory has seen; 0 if it is new to the cluster."""
    if not settings.node:
        return Finding("cluster", "wrong", "cluster.node: name this node, differently from all others"), 0
    try:
        state = NodeState(directory.disk, directory.root, settings.name, settings.node)
    except (ConfigurationError, StorageError) as error:
        return Finding("cluster", "wrong", str(error)), 0
    return Finding("cluster", "fine", f"this is node {settings.node} of cluster {settings.name}"), state.seen_term


async def _endpoints(etcd: Etcd, endpoints: list[str]) -> list[Finding]:
    found: list[Finding] = []
    silent: list[str] = []
    for endpoint in endpoints:
        asked_at, asked_on = time.time(), time.perf_counter()
        try:
            answer = await etcd.look_at(endpoint)
        except CoordinatorError as error:
            silent.append(f"{endpoint} does not answer ({error}): check cluster.etcd, and that etcd runs")
            continue
        seconds = time.perf_counter() - asked_on
        # A request that takes longer than this is sent to another endpoint.
        is_slow = seconds > REQUEST_SECONDS / 2
        text = f"{endpoint} (etcd {answer.version}) answers in {1000 * seconds:.1f} ms"
        found.append(Finding("etcd", "doubtful", f"{text}: this is slow") if is_slow else Finding("etcd", "fine", text))
        if answer.now:
            ahead = max(asked_at - (answer.now + _SECOND), answer.now - (asked_at + seconds))
            if ahead > _CLOCKS_DIFFER_SECONDS:
                text = f"differs from that of etcd at {endpoint} by more than {int(ahead)} s"
                found.append(Finding("clock", "doubtful", f"{text}: set both by a time service (NTP)"))
    # One endpoint is enough to start with.
    verdict: Verdict = "doubtful" if found else "wrong"
    return found + [Finding("etcd", verdict, text) for text in silent]


async def _members(settings: ClusterSettings, view: View) -> AsyncIterator[Finding]:
    others = [member for member in view.members.values() if member.id != settings.node]
    if not others:
        yield Finding("nodes", "fine", "no other node has joined the cluster yet")
    own = settings.address or f"{settings.host}:{settings.port}"
    try:
        credentials = credentials_of(settings)
    except ConfigurationError as error:
        yield Finding("cluster", "wrong", str(error))
        return
    for member in sorted(others, key=lambda member: member.name):
        if member.replication == own:
            text = f"node {member.name} has the address {own}, too: give each node a cluster.address of its own"
            yield Finding("nodes", "wrong", text)
        else:
            yield await asyncio.to_thread(_reached, member, member.id in view.alive, credentials)


def _reached(member: Member, is_alive: bool, credentials: Credentials) -> Finding:
    """Connect to a node as one that follows it does, and leave it."""
    where = f"node {member.name} at {member.replication}"
    began = time.perf_counter()
    try:
        with closing(dial(member.replication, _ANSWER_SECONDS, credentials)) as link:
            seconds = time.perf_counter() - began
            link.authenticate()
    except Refusal as error:
        return Finding("nodes", "wrong", f"{where} and this one do not accept each other: {error}")
    except LinkError as error:
        if is_alive:
            advice = "it runs, so a firewall or its cluster.address may be wrong"
            return Finding("nodes", "wrong", f"{where} cannot be reached ({error}): {advice}")
        advice = "start it, or remove it with `flintmq cluster leave` if it has gone for good"
        return Finding("nodes", "doubtful", f"{where} does not run: {advice}")
    return Finding("nodes", "fine", f"{where} is reached in {1000 * seconds:.1f} ms")
