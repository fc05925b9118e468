"""A node that was elected, and followers that come before it leads."""

import asyncio
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import create_autospec

import pytest

from flintmq.cluster.coordinator import Coordinator, Leader, View
from flintmq.cluster.credentials import Credentials
from flintmq.cluster.machine import RealDirectory, RealMachine
from flintmq.cluster.membership import Membership
from flintmq.cluster.ports import Link, LinkError
from tests.waiting import WAIT_SECONDS

_TERM = 7
_LEASE = 9


class Follower(Link):
    """Ends when the leader waits for its first message."""

    def __init__(self) -> None:
        self.is_served = False

    def send_parts(self, kind: int, parts: Sequence[bytes | memoryview]) -> None:
        raise LinkError

    def receive(self) -> tuple[int, memoryview]:
        self.is_served = True
        raise LinkError

    def close(self) -> None:
        pass


async def never(_: int) -> None:
    await asyncio.Event().wait()


def test_a_follower_that_comes_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has heard of the election first: it is served when the node leads, and need not connect again."""
    monkeypatch.setattr("flintmq.cluster.membership._ELECTED_SECONDS", WAIT_SECONDS)

    async def lead() -> None:
        bound = socket.create_server(("127.0.0.1", 0))
        machine = RealMachine(bound, 1.0, Credentials("c"))
        coordinator = create_autospec(Coordinator, instance=True)
        coordinator.view.return_value = View(_TERM, Leader("a", _TERM, _LEASE), frozenset("a"), 1)
        coordinator.changed.side_effect = never
        membership = Membership(coordinator, machine, RealDirectory(tmp_path), "c", "a", "127.0.0.1:1", 1)
        membership._lease.id = _LEASE
        follower = Follower()
        serving = threading.Thread(target=membership._serve, args=(follower,))
        serving.start()
        term = await membership.lead(_TERM)
        await asyncio.to_thread(serving.join)
        assert follower.is_served
        await membership.resign(term)
        machine.close()

    asyncio.run(lead())
