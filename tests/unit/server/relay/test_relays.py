"""A broker's links to the nodes that relay clients to it."""

import asyncio
import socket
from types import SimpleNamespace
from typing import cast

from flintmq.base.limits import LINK_READ_FIRST_SECONDS
from flintmq.server.amqp import AmqpServer
from flintmq.server.relay.relays import Relays
from tests.waiting import WAIT_SECONDS


class Broker:
    """What relays need of one."""

    def __init__(self) -> None:
        self.schedule = SimpleNamespace(read_first_seconds=0.0, request=lambda: None)
        self.connections = SimpleNamespace(links=[])
        self.reception = SimpleNamespace(receive=lambda *_: None, is_closed=False)
        self.relays = Relays(cast(AmqpServer, self), lambda node: node == "a")

    def connect(self, node: str) -> socket.socket:
        """Begin the relay of a node, and return its end."""
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        self.relays.serve(ours, node)
        return theirs

    async def until_links(self, count: int) -> None:
        while len(self.connections.links) != count:  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(0.001)


async def has_ended(end: socket.socket) -> bool:
    loop = asyncio.get_running_loop()
    found = await asyncio.wait_for(loop.sock_recv(end, 1), WAIT_SECONDS)
    end.close()
    return found == b""


def test_a_node_has_one_relay() -> None:
    """The one before is closed: the node has lost it. Other nodes have their own."""

    async def relay() -> None:
        broker = Broker()
        before, other = broker.connect("a"), broker.connect("b")
        await broker.until_links(2)
        assert broker.schedule.read_first_seconds == LINK_READ_FIRST_SECONDS
        again = broker.connect("a")
        assert await has_ended(before)
        await broker.until_links(2)
        other.close()
        await broker.until_links(1)
        broker.relays.close()
        assert await has_ended(again)
        await broker.until_links(0)

    asyncio.run(asyncio.wait_for(relay(), WAIT_SECONDS))


def test_a_broker_that_stops_takes_no_relay() -> None:
    """The node asks again, and finds the next leader."""

    async def relay() -> None:
        broker = Broker()
        broker.reception.is_closed = True
        assert await has_ended(broker.connect("a"))
        assert not broker.connections.links

    asyncio.run(relay())
