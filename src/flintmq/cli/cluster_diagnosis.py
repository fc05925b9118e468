"""The checks of `flintmq doctor` for a node of a cluster: does etcd answer, and do the other nodes?"""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Final

from flintmq.base.errors import ConfigurationError
from flintmq.cli.finding import Finding, Verdict
from flintmq.cluster.coordinator import CoordinatorError, Member, View
from flintmq.cluster.etcd import REQUEST_SECONDS, Etcd, etcd_of
from flintmq.server.config import ClusterSettings

# Machines with a time service differ by milliseconds. Messages expire by the clock of the node that leads.
_CLOCKS_DIFFER_SECONDS: Final = 1.0
# What etcd's clock may be ahead of the one that it says, which is in whole seconds.
_SECOND: Final = 1.0
_CONNECT_SECONDS: Final = 2.0


def examine_cluster(settings: ClusterSettings) -> list[Finding]:
    """Check the settings of a node, etcd, and the other nodes."""

    async def examine() -> list[Finding]:
        return [finding async for finding in _look(settings)]

    return asyncio.run(examine())


async def _look(settings: ClusterSettings) -> AsyncIterator[Finding]:
    if settings.node:
        yield Finding("cluster", "fine", f"this is node {settings.node} of cluster {settings.name}")
    else:
        yield Finding("cluster", "wrong", "cluster.node: name this node, differently from all others")
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
        async for finding in _members(settings, view):
            yield finding
    finally:
        await etcd.close()


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
    for member in sorted(others, key=lambda member: member.name):
        if member.replication == own:
            text = f"node {member.name} has the address {own}, too: give each node a cluster.address of its own"
            yield Finding("nodes", "wrong", text)
        else:
            yield await _reached(member, member.id in view.alive)


async def _reached(member: Member, is_alive: bool) -> Finding:
    where = f"node {member.name} at {member.replication}"
    host, _, port = member.replication.rpartition(":")
    began = time.perf_counter()
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except (OSError, ValueError, TimeoutError) as error:
        reason = str(error) or "no answer"
        if is_alive:
            advice = "it runs, so a firewall or its cluster.address may be wrong"
            return Finding("nodes", "wrong", f"{where} cannot be reached ({reason}): {advice}")
        advice = "start it, or remove it with `flintmq cluster leave` if it has gone for good"
        return Finding("nodes", "doubtful", f"{where} does not run: {advice}")
    seconds = time.perf_counter() - began
    writer.close()
    return Finding("nodes", "fine", f"{where} is reached in {1000 * seconds:.1f} ms")
