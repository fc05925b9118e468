"""When a node stops leading because of its lease; time passes by itself."""

from dataclasses import dataclass, field
from typing import cast

import pytest

from flintmq.cluster.coordinator import Coordinator, CoordinatorError
from flintmq.cluster.lease import DiskProbe, Lease
from tests.sim.loop import VirtualLoop

HOUR = 3600.0


class Service:
    """Gives leases that last, unless it `is_away`."""

    def __init__(self) -> None:
        self.is_away = False
        self.leases = 0
        self.renewals = 0

    async def grant(self, ttl: int) -> int:
        await self.renew(0)
        self.leases += 1
        return self.leases

    async def renew(self, lease: int) -> None:
        if self.is_away:
            raise CoordinatorError("it is away")
        self.renewals += 1

    async def announce(self, node: str, lease: int) -> None: ...

    async def revoke(self, lease: int) -> None: ...


@dataclass
class Probe:
    """A disk that takes each write, unless something is wrong with it."""

    loop: VirtualLoop
    failure: str = ""
    stalled_at: float = HOUR

    @property
    def count(self) -> int:
        return int(min(self.loop.time(), self.stalled_at) * 2)


@dataclass
class Node:
    """Its lease; `ends` says when it had to stop leading, and why."""

    loop: VirtualLoop = field(default_factory=lambda: VirtualLoop(100.0))
    service: Service = field(default_factory=Service)
    ends: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.probe = Probe(self.loop)
        self.loop.complete(self._start(), 101.0)

    async def _start(self) -> None:
        self.lease = Lease(cast(Coordinator, self.service), "a", cast(DiskProbe, self.probe), self._ended)
        await self.lease.start()

    def _ended(self, reason: str) -> None:
        self.ends.append((self.loop.time(), reason))


@pytest.fixture
def node() -> Node:
    return Node()


def test_a_lease_lasts(node: Node) -> None:
    """As long as nothing happens."""
    node.loop.run(1000.0)
    assert (node.ends, node.lease.id, node.service.leases) == ([], 1, 1)


@pytest.mark.parametrize("begins", [200.0, 200.3, 200.49, 200.9])
@pytest.mark.parametrize("seconds", [0.1, 1.0, 1.75])
def test_a_coordinator_that_restarts(node: Node, begins: float, seconds: float) -> None:
    """Whenever that begins, it costs nothing if it is back soon enough."""
    node.loop.run(begins)
    node.service.is_away = True
    node.loop.run(begins + seconds)
    node.service.is_away = False
    node.loop.run(1000.0)
    assert (node.ends, node.service.leases) == ([], 1)


def test_a_coordinator_that_stays_away(node: Node) -> None:
    """The node stops leading before its lease of 3 s can have ended, and gets another one when the service is back."""
    node.loop.run(200.0)
    node.service.is_away = True
    node.loop.run(300.0)
    ((at, reason),) = node.ends
    assert 201.75 < at <= 202.5
    assert (reason, node.lease.id) == ("it is away", 0)
    node.service.is_away = False
    node.loop.run(301.0)
    assert (len(node.ends), node.lease.id) == (1, 2)


def test_a_disk_that_stalls(node: Node) -> None:
    """Nobody waits for the end of the lease: it is known that this node can confirm nothing."""
    node.loop.run(200.0)
    node.probe.stalled_at = 200.0
    node.loop.run(203.0)
    ((at, reason),) = node.ends
    assert 201.5 <= at <= 202.1
    assert (reason, node.lease.id) == ("the disk takes no writes", 0)
    node.probe.stalled_at = HOUR
    node.loop.run(204.0)
    assert (len(node.ends), node.lease.id) == (1, 2)


def test_a_disk_that_stalls_for_a_moment(node: Node) -> None:
    """A second is not too long for a write."""
    node.loop.run(200.0)
    node.probe.stalled_at = 200.0
    node.loop.run(201.0)
    node.probe.stalled_at = HOUR
    node.loop.run(300.0)
    assert node.ends == []


def test_a_lease_that_is_started_again(node: Node) -> None:
    """A node that could not join tries again: one task renews its lease still, and none does after the end."""

    async def again() -> None:
        await node.lease.start()

    async def end() -> None:
        await node.lease.close()

    node.loop.complete(again(), 102.0)
    node.loop.run(200.0)
    assert node.service.renewals < 250
    node.loop.complete(end(), 201.0)
    renewals = node.service.renewals
    node.loop.run(300.0)
    assert (node.service.renewals, node.service.leases) == (renewals, 1)
