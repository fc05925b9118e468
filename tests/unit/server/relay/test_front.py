"""Clients of a node that does not lead: they wait for a leader, are relayed to it, and have to go when it does."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest
import trustme
import uvloop

from flintmq.server.acceptor import listening_sockets
from flintmq.server.certificates import Tls, tls_of
from flintmq.server.config import TlsSettings
from flintmq.server.peer import Peer
from flintmq.server.relay import front
from flintmq.server.relay.client import NOT_FETCHED
from flintmq.server.relay.front import Front
from flintmq.server.relay.link import Link
from flintmq.server.relay.reception import Reception
from flintmq.server.relay.transport import RelayedTransport
from tests.unit.server.relay.pair import Server
from tests.waiting import WAIT_SECONDS

NAMES = ("amqp", "amqp/ssl", "http", "https")


def run(work: Awaitable[None]) -> None:
    async def in_time() -> None:
        await asyncio.wait_for(work, WAIT_SECONDS)

    uvloop.run(in_time())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - what it waits for has no event
        await asyncio.sleep(0.001)


class AmqpServer(Server):
    """What a peer is to the reception."""

    def relayed_by(self, transport: RelayedTransport) -> None:
        self.transport = transport
        transport.widen()


class HttpServer(asyncio.Protocol):
    """A connection of the API, which answers whatever comes by the same."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.received = bytearray()
        self.is_secured = False
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        assert self.transport is not None
        self.received += data
        self.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True

    def secured(self) -> None:
        self.is_secured = True


class Leader:
    """The leader's end of a relay, with all clients that it was told of."""

    def __init__(self) -> None:
        self.amqp: list[AmqpServer] = []
        self.http: list[HttpServer] = []
        self.reception = Reception(cast("Callable[[], Peer]", self._amqp))
        self.reception.http = self._http
        loop = asyncio.get_running_loop()
        self.link = Link(
            loop, lambda: loop.call_soon(self.link.flush), self.reception.receive, lambda *_: None, lambda *_: None
        )

    def _amqp(self) -> AmqpServer:
        self.amqp.append(AmqpServer())
        return self.amqp[-1]

    def _http(self) -> HttpServer:
        self.http.append(HttpServer())
        return self.http[-1]


class Node:
    """A front, and the ports of its listeners."""

    def __init__(self, listening: dict[str, list[socket.socket]], tls: Tls | None, client_max: int) -> None:
        self.front = Front(listening, tls, client_max, lambda _, answer: answer(NOT_FETCHED))
        self.ports = {name: int(sockets[0].getsockname()[1]) for name, sockets in listening.items()}

    async def connect(self, name: str = "amqp") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.ports[name])

    @asynccontextmanager
    async def relayed(self) -> AsyncIterator[Leader]:
        """A leader to which the node relays its clients meanwhile."""
        leader = Leader()
        here, there = socket.socketpair()
        there.setblocking(False)
        link = cast(asyncio.Protocol, leader.link)
        await asyncio.get_running_loop().create_connection(lambda: link, sock=there)
        relaying = asyncio.create_task(self.front.relay(here))
        await until(lambda: self.front._link is not None)
        try:
            yield leader
        finally:
            relaying.cancel()
            with suppress(asyncio.CancelledError):
                await relaying
            leader.link.abort()


@asynccontextmanager
async def node(tls: Tls | None = None, client_max: int = 100) -> AsyncIterator[Node]:
    loop = asyncio.get_running_loop()
    made = Node({name: await listening_sockets(loop, "127.0.0.1", 0) for name in NAMES}, tls, client_max)
    made.front.open()
    yield made
    made.front.close()
    # Aborted transports are closed in the next turns.
    await asyncio.sleep(0.01)


async def is_disconnected(reader: asyncio.StreamReader) -> bool:
    with suppress(ConnectionError):
        assert await reader.read() == b""
    return True


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients wait for a leader as long as it takes."""
    monkeypatch.setattr(front, "PATIENCE_SECONDS", 3600.0)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients do not wait for a leader."""
    monkeypatch.setattr(front, "PATIENCE_SECONDS", 0.001)


@pytest.mark.usefixtures("patient")
def test_clients_wait_for_a_leader() -> None:
    """Who comes while there is none is served by the next one, with all that was sent meanwhile."""

    async def come() -> None:
        async with node() as made:
            for _ in range(2):
                clients = [await made.connect() for _ in range(20)]
                for _, writer in clients:
                    writer.write(b"AMQP\x00\x00\x09\x01")
                async with made.relayed() as leader:
                    await until(lambda: len(leader.amqp) == 20 and all(each.received for each in leader.amqp))
                    assert {bytes(each.received) for each in leader.amqp} == {b"AMQP\x00\x00\x09\x01"}
                # They go with the leader that has served them, while others wait for the next one.
                assert all([await is_disconnected(reader) for reader, _ in clients])

    run(come())


@pytest.mark.usefixtures("impatient")
def test_without_a_leader_clients_are_disconnected() -> None:
    """Nobody waits for a leader that does not come, and when it comes clients are served."""

    async def come() -> None:
        async with node() as made:
            for name in NAMES:
                assert await is_disconnected((await made.connect(name))[0])
            async with made.relayed() as leader:
                _, writer = await made.connect()
                await until(lambda: bool(leader.amqp))
                writer.close()
                await until(lambda: leader.amqp[0].is_lost)
            assert await is_disconnected((await made.connect())[0])

    run(come())


@pytest.mark.usefixtures("patient")
def test_the_leader_goes() -> None:
    """The end of the connection to it is the end of all clients' connections, and is told."""

    async def go() -> None:
        async with node() as made:
            here, there = socket.socketpair()
            relaying = asyncio.create_task(made.front.relay(here))
            readers = [(await made.connect())[0] for _ in range(3)]
            # It accepts the clients only.
            await asyncio.sleep(0.01)
            there.close()
            assert "link has ended" in await relaying or "reset" in await relaying
            assert all([await is_disconnected(reader) for reader in readers])

    run(go())


@pytest.mark.usefixtures("patient")
def test_this_node_leads() -> None:
    """Clients that have waited come to who takes over the sockets, and to the front again when it is back."""

    async def lead() -> None:
        async with node() as made:
            waiting = await made.connect()
            for _ in range(2):
                sockets = made.front.hand_over("amqp")
                loop = asyncio.get_running_loop()
                connection, _ = await loop.sock_accept(sockets[0])
                connection.close()
                assert await is_disconnected(waiting[0])
                for each in sockets:
                    each.close()
                waiting = await made.connect()
                # Nobody accepts on this address, and on the others the front still does.
                made.front.open()
            async with made.relayed() as leader:
                await until(lambda: len(leader.amqp) == 1)

    run(lead())


def test_no_more_clients_than_files() -> None:
    """One too many is disconnected at once, because the node needs its last files for its data."""

    async def come() -> None:
        async with node(client_max=2) as made, made.relayed() as leader:
            stay = [await made.connect() for _ in range(2)]
            await until(lambda: len(leader.amqp) == 2)
            assert await is_disconnected((await made.connect("http"))[0])
            stay[0][1].close()
            await until(lambda: leader.amqp[0].is_lost)
            await made.connect()
            await until(lambda: len(leader.amqp) == 3)

    run(come())


def test_http(tmp_path: Path) -> None:
    """The API gets its own clients, with their addresses, and is told which of them use TLS."""
    authority = trustme.CA()
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)

    async def come() -> None:
        async with node(tls_of(TlsSettings(certificate=tmp_path / "server.pem"))) as made, made.relayed() as leader:
            for count, (name, tls) in enumerate([("http", None), ("https", trusting)]):
                # The client waits for the end of TLS when it closes.
                secure: Any = (
                    {"ssl": tls, "server_hostname": "localhost", "ssl_shutdown_timeout": 3600.0} if tls else {}
                )
                reader, writer = await asyncio.open_connection("127.0.0.1", made.ports[name], **secure)
                writer.write(b"GET / HTTP/1.1\r\n\r\n")
                assert await reader.readexactly(18) == b"GET / HTTP/1.1\r\n\r\n"
                api = leader.http[count]
                assert api.transport is not None
                assert api.transport.get_extra_info("peername") == writer.get_extra_info("sockname")
                assert api.is_secured == (tls is not None)
                writer.close()
                await until(lambda: leader.http[-1].is_lost)
            assert not leader.amqp
            # What is no TLS is refused.
            reader, writer = await made.connect("https")
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            with suppress(ConnectionError):
                await reader.read()
            writer.close()
            await until(lambda: leader.http[-1].is_lost)
            assert not leader.http[-1].received
            leader.reception.http = None
            assert await is_disconnected((await made.connect("http"))[0])
            leader.reception.is_closed = True
            assert await is_disconnected((await made.connect("amqp"))[0])

    run(come())
