"""A follower's connection for clients: the leader takes it if it can serve them, and it ends with the leadership."""

import asyncio
import queue
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from flintmq import __version__
from flintmq.cluster import wire
from flintmq.cluster.ports import LinkError, Refusal
from flintmq.cluster.relaying import Relaying
from flintmq.cluster.wire import Hello
from flintmq.server.relay.client import NOT_FETCHED
from flintmq.server.relay.front import Front
from tests.integration.test_replication import LeadingNode, client_machine
from tests.waiting import WAIT_SECONDS, wait_until


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[LeadingNode]:
    """The leader of term 1 of cluster "c"."""
    made = LeadingNode(tmp_path / "leader")
    yield made
    made.close()


class Relayed:
    """What a leader gets: connections, with the names of the nodes at their other ends."""

    def __init__(self, leader: LeadingNode) -> None:
        self._got: queue.Queue[tuple[socket.socket, str]] = queue.Queue()
        leader.followers.relay_to(lambda connection, node: self._got.put((connection, node)))

    async def next(self) -> tuple[socket.socket, str]:
        connection, node = await asyncio.to_thread(self._got.get, True, WAIT_SECONDS)
        connection.setblocking(False)
        return connection, node


async def ended(connection: socket.socket) -> bool:
    """Wait until the other end has closed it, whatever it has sent before."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(WAIT_SECONDS):
        while await loop.sock_recv(connection, 4096):
            pass
    return True


def test_the_connection_to_the_leader(leader: LeadingNode) -> None:
    """There is one as long as there is the leader, another one after it was lost, and none to whoever led before."""

    async def follow() -> None:
        relayed = Relayed(leader)
        relaying = Relaying(client_machine(), Front({}, None, 10, lambda _, answer: answer(NOT_FETCHED)), "c", "b")
        relaying.relay_to(leader.address, 1)
        relaying.relay_to(leader.address, 1)
        first, node = await relayed.next()
        assert node == "b"
        first.close()
        second, _ = await relayed.next()
        relaying.relay_to("", 0)
        assert await ended(second)
        second.close()
        relaying.relay_to(leader.address, 1)
        third, _ = await relayed.next()
        relaying.relay_to(leader.address, 2)
        assert await ended(third)
        third.close()
        relaying.relay_to("", 0)

    asyncio.run(follow())


def test_a_leader_that_recovers(leader: LeadingNode) -> None:
    """A follower that comes before clients may connect waits for that, and need not ask again."""

    async def follow() -> None:
        relaying = Relaying(client_machine(), Front({}, None, 10, lambda _, answer: answer(NOT_FETCHED)), "c", "b")
        dialling = asyncio.create_task(asyncio.to_thread(relaying._dial, leader.address, 1))
        await asyncio.to_thread(wait_until, lambda: leader.followers.seen_term == 1)
        relayed = Relayed(leader)
        connection = await dialling
        other, _ = await relayed.next()
        connection.close()
        other.close()

    asyncio.run(follow())


def test_a_leader_that_silence_would_not_show(leader: LeadingNode) -> None:
    """The system asks whether the other machine is there: clients may have nothing to say for long."""

    async def follow() -> None:
        relayed = Relayed(leader)
        relaying = Relaying(client_machine(), Front({}, None, 10, lambda _, answer: answer(NOT_FETCHED)), "c", "b")
        connection = await asyncio.to_thread(relaying._dial, leader.address, 1)
        other, _ = await relayed.next()
        for each in (connection, other):
            assert each.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert 0 < each.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) <= 5_000
            each.close()

    asyncio.run(follow())


def test_refusals(leader: LeadingNode) -> None:
    """A leader that cannot serve clients says why."""

    async def ask(cluster: str, node: str, term: int) -> None:
        relaying = Relaying(client_machine(), Front({}, None, 10, lambda _, answer: answer(NOT_FETCHED)), cluster, node)
        with pytest.raises((Refusal, LinkError)) as refused:
            await asyncio.to_thread(relaying._dial, leader.address, term)
        raise refused.value

    with pytest.raises(Refusal, match="does not accept clients yet"):
        asyncio.run(ask("c", "b", 1))
    Relayed(leader)
    with pytest.raises(Refusal, match="this is cluster 'c', not 'd'"):
        asyncio.run(ask("d", "b", 1))
    with pytest.raises(Refusal, match=r"cluster\.node"):
        asyncio.run(ask("c", "leader", 1))
    with pytest.raises(Refusal, match="term 2 has begun"):
        asyncio.run(ask("c", "b", 2))
    with pytest.raises(LinkError, match="leads in term 1, not 0"):
        asyncio.run(ask("c", "b", 0))
    link = client_machine().connect(leader.address, WAIT_SECONDS)
    link.authenticate()
    link.send(wire.RELAY, Hello(wire.PROTOCOL + 1, "c", "b", __version__, 1, 0, 0))
    kind, body = link.receive()
    assert (kind, "upgrade all nodes" in wire.read(body, str)) == (wire.REFUSED, True)
    link.close()
