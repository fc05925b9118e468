"""The network between the nodes of a cluster and etcd, on loopback, which can be cut without rights of root.

Each address leads to a forwarder. Where it is cut, bytes stay in the forwarder, as they stay with the sender of a real
network that loses them: nothing is closed and nothing is refused, and what waited is passed on when the cut is healed.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Final

from tests.cluster.background import Background
from tests.servers import free_port

ETCD: Final = "etcd"
_READ_BYTES: Final = 65_536
# How often a forwarder looks whether anybody listens behind it. It also does when a connection ends.
_LOOK_SECONDS: Final = 0.02


class Network:
    """`pids` gives the process of each node, by which the sender of a connection is found."""

    def __init__(self, background: Background, pids: Callable[[], dict[str, int]]) -> None:
        self._background = background
        self._pids = pids
        # The pairs of a sender and a receiver between which nothing passes.
        self._cuts: frozenset[tuple[str, str]] = frozenset()
        self._healed = asyncio.Event()
        # What finds the sender of each connection that is open.
        self._senders: set[Callable[[], str]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def to_etcd(self, node: str, port: int) -> int:
        """The port at which this node reaches etcd."""
        return self._forward(lambda _: node, ETCD, port)

    def to_node(self, node: str, port: int) -> int:
        """The port at which other nodes reach this one, which listens on `port`."""
        return self._forward(_Sender(self._pids).of, node, port)

    def cut(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Pass nothing any more from the first to the second of each pair."""

        def change() -> None:
            # The sender of a connection cannot be found any more when its process has ended or has closed it.
            for sender in self._senders:
                sender()
            self._cuts = self._cuts.union(pairs)
            self._healed.clear()

        self._background.call(change)

    def heal(self) -> None:
        """Pass everything again."""

        def change() -> None:
            self._cuts = frozenset()
            self._healed.set()

        self._background.call(change)

    async def passable(self, sender: Callable[[], str], receiver: str, *, is_answer: bool = False) -> None:
        """Wait until the network passes on what the sender of a connection sends, or what is answered to it."""
        while self._cuts:
            pair = (receiver, sender()) if is_answer else (sender(), receiver)
            if pair not in self._cuts:
                return
            await self._healed.wait()

    @contextmanager
    def sending(self, sender_of: Callable[[int], str], port: int) -> Iterator[Callable[[], str]]:
        """What finds the sender of a connection from this port, while it is open.

        The system takes milliseconds to find it, so it is asked only when the network is cut.
        """
        sender = cache(partial(sender_of, port))
        self._senders.add(sender)
        try:
            yield sender
        finally:
            self._senders.discard(sender)

    def _forward(self, sender_of: Callable[[int], str], receiver: str, port: int) -> int:
        forwarder = _Forwarder(self, sender_of, receiver, port)

        def start() -> None:
            task = self._background.loop.create_task(forwarder.run())
            self._tasks.add(task)

        self._background.call(start)
        return forwarder.port


class _Forwarder:
    """Listens on `port` as long as somebody listens on the port behind it: a dead process refuses connections."""

    def __init__(self, network: Network, sender_of: Callable[[int], str], receiver: str, behind: int) -> None:
        self.port = free_port()
        self._network = network
        self._sender_of = sender_of
        self._receiver = receiver
        self._behind = behind
        self._server: asyncio.Server | None = None
        self._looking = asyncio.Lock()

    async def run(self) -> None:
        try:
            while True:
                await self._look()
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            if self._server is not None:
                self._server.close()

    async def _look(self) -> None:
        async with self._looking:
            is_there = _is_listened_on(self._behind)
            if not is_there and self._server is not None:
                self._server.close()
                self._server = None
            elif is_there and self._server is None:
                self._server = await asyncio.start_server(self._accepted, "127.0.0.1", self.port, limit=_READ_BYTES)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = writer.get_extra_info("peername")[1]
        with suppress(OSError), self._network.sending(self._sender_of, port) as sender:
            await self._network.passable(sender, self._receiver)
            try:
                other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self._behind, limit=_READ_BYTES)
            except OSError:
                await self._look()
                writer.close()
                return
            await asyncio.gather(
                self._pass_on(reader, other_writer, sender),
                self._pass_on(other_reader, writer, sender, is_answer=True),
            )

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        sender: Callable[[], str],
        *,
        is_answer: bool = False,
    ) -> None:
        """Pass on bytes, and in the end that the connection was closed."""
        try:
            while True:
                try:
                    data = await reader.read(_READ_BYTES)
                except OSError:
                    data = b""
                await self._network.passable(sender, self._receiver, is_answer=is_answer)
                if not data:
                    # If the process has ended, the next connection is refused, as early as without a forwarder.
                    await self._look()
                    return
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()


class _Sender:
    """Finds out which node has opened a connection: all of them come from the same address."""

    def __init__(self, pids: Callable[[], dict[str, int]]) -> None:
        self._pids = pids

    def of(self, port: int) -> str:
        """The node whose end of a connection has this port; empty if it is not there any more."""
        inodes = _inodes(port)
        for node, pid in self._pids().items():
            with suppress(OSError):
                for file in Path(f"/proc/{pid}/fd").iterdir():
                    # A file may be closed meanwhile.
                    with suppress(OSError):
                        if file.readlink().name.removeprefix("socket:[").removesuffix("]") in inodes:
                            return node
        return ""


def _inodes(port: int) -> set[str]:
    """The sockets whose own address has this port."""
    # A line has a number, the own address, the other one, ... and, as the tenth, the inode.
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return {row[9] for row in rows if int(row[1].rpartition(":")[2], 16) == port}


def _is_listened_on(port: int) -> bool:
    """Whether somebody listens on the port, who notices nothing of this question."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
        return False
