"""Whether a term begins, and which followers must acknowledge when it ends."""

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from flintmq.cluster import wire
from flintmq.cluster.coordinator import Coordinator, CoordinatorError, Doubt, Leader, Member, View
from flintmq.cluster.credentials import Credentials
from flintmq.cluster.leading import Followers, History, _FollowerLink
from flintmq.cluster.machine import RealDirectory, RealMachine
from flintmq.cluster.membership import Membership
from flintmq.cluster.ports import Link
from flintmq.cluster.state import NodeState
from flintmq.cluster.term import Term
from flintmq.cluster.wire import Hello
from flintmq.storage.replication.log import OperationLog

_VIEW = View(1, Leader("a", 1, 1), frozenset({"a"}), 1)


class _SlowCoordinator(Coordinator):
    """It does not say whether it has written which nodes are in sync."""

    def __init__(self) -> None:
        self.was_asked = asyncio.Event()

    async def view(self) -> View:
        return _VIEW

    async def changed(self, revision: int) -> None:
        await asyncio.sleep(60)

    async def write_in_sync(self, term: int, revision: int, nodes: frozenset[str]) -> NoReturn:
        self.was_asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def write_following(self, term: int, nodes: frozenset[str]) -> None:
        pass

    async def resign(self, term: int) -> None:
        pass

    async def grant(self, ttl: int) -> int:
        raise AssertionError

    async def renew(self, lease: int) -> None:
        raise AssertionError

    async def revoke(self, lease: int) -> None:
        raise AssertionError

    async def announce(self, node: str, lease: int) -> None:
        raise AssertionError

    async def elect(self, seen: View, node: str, lease: int) -> int:
        raise AssertionError

    async def doubt(self, node: str, doubt: Doubt | None, lease: int) -> None:
        raise AssertionError

    async def wish(self, heir: str, lease: int) -> None:
        raise AssertionError

    async def put_member(self, member: Member, is_new: bool) -> bool:
        raise AssertionError

    async def remove_member(self, node: str) -> bool:
        raise AssertionError

    async def close(self) -> None:
        raise AssertionError


class _NoLink(Link):
    def send_parts(self, kind: int, parts: Sequence[bytes | memoryview]) -> None:
        pass

    def receive(self) -> tuple[int, memoryview]:
        raise AssertionError

    def close(self) -> None:
        pass


async def _lead(path: Path) -> OperationLog:
    """Lead, and stop while a follower is added; return the log of operations."""
    coordinator = _SlowCoordinator()
    operations = OperationLog()
    operations.begin(1)
    directory = RealDirectory(path)
    machine = RealMachine(socket.socket(), 1.0, Credentials("c"))
    followers = Followers(machine, directory, "c", "a", History(1, 0, 0), operations, lambda: None)
    state = NodeState(directory.disk, path, "c", "a")
    term = Term(coordinator, "c", "a", state, operations, followers, _VIEW, 1, "")
    await term.begin()
    follower = _FollowerLink(followers, Hello(wire.PROTOCOL, "c", "b", "", 1, 1, 0), _NoLink())
    follower.has_caught_up = True
    followers._links["b"] = follower
    term.changed()
    await coordinator.was_asked.wait()
    term.end("")
    await term.resign()
    await asyncio.sleep(0)
    machine.close()
    return operations


async def _lead_after_the_lease(path: Path) -> None:
    machine = RealMachine(socket.socket(), 1.0, Credentials("c"))
    membership = Membership(_SlowCoordinator(), machine, RealDirectory(path), "c", "a", "h:1", 1)
    try:
        await membership.lead(1)
    finally:
        machine.close()


def test_a_node_whose_lease_has_ended_since_it_was_elected_does_not_lead(tmp_path: Path) -> None:
    """Its disk may have stalled before it could begin, and then the lease of its leadership is not renewed."""
    with pytest.raises(CoordinatorError, match="the lease has ended"):
        asyncio.run(_lead_after_the_lease(tmp_path))


def test_a_node_that_may_be_in_sync_is_required_when_the_term_ends(tmp_path: Path) -> None:
    """Nothing is confirmed without a follower that the coordinator may have added."""
    operations = asyncio.run(_lead(tmp_path))

    operations.append(b"operation")
    assert operations.confirmed == 0
