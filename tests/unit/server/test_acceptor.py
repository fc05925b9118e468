"""Accepting connections: a few in a turn of the event loop, however many wait."""

import asyncio
import errno
import itertools
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import cast

import pytest
import uvloop

from flintmq.server import acceptor
from flintmq.server.acceptor import ACCEPTED_PER_TURN, Acceptor, listening_sockets
from tests.servers import free_port

CROWD = 100
# Broker processes have the one, programs that a broker is embedded in have any.
LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


class Guest(asyncio.Protocol):
    """Counts those who came; `echo` is what they said."""

    came: list["Guest"]

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.has_left = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.has_left = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.came.append(self)

    def data_received(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)


@pytest.fixture
def came() -> list[Guest]:
    Guest.came = []
    return Guest.came


def run(new_loop: Callable[[], asyncio.AbstractEventLoop], work: Awaitable[None]) -> None:
    async def whole() -> None:
        await asyncio.wait_for(work, 100)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(whole())


async def until(condition: Callable[[], bool]) -> int:
    """Returns how many turns of the loop it took."""
    turns = 0
    while not condition():
        turns += 1
        await asyncio.sleep(0)
    return turns


async def listen(listener: Acceptor, host: str, port: int) -> int:
    """Accept connections on this address, and return the port."""
    sockets = await listening_sockets(asyncio.get_running_loop(), host, port)
    listener.accept_from(sockets)
    number: int = sockets[0].getsockname()[1]
    return number


async def end(listener: Acceptor, came: list[Guest]) -> None:
    """Close the acceptor, and disconnect everybody."""
    listener.close()
    for guest in came:
        assert guest.transport is not None
        guest.transport.abort()
    await asyncio.sleep(0.01)


@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_crowd(new_loop: Callable[[], asyncio.AbstractEventLoop], came: list[Guest]) -> None:
    """Who comes with a crowd comes in by and by, and the loop turns between them."""

    async def crowd() -> None:
        listener = Acceptor(Guest)
        port = await listen(listener, "127.0.0.1", 0)
        with ExitStack() as stack:
            clients = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(CROWD)]
            seen = [0]

            def grown() -> bool:
                seen.append(len(came))
                return len(came) == CROWD

            assert await until(grown) >= CROWD // ACCEPTED_PER_TURN
            assert max(b - a for a, b in itertools.pairwise(seen)) <= ACCEPTED_PER_TURN
            clients[-1].sendall(b"hello")
            assert await asyncio.to_thread(clients[-1].recv, 5) == b"hello"
            transport = came[0].transport
            assert transport is not None
            # What is written goes out at once, however little it is.
            connection = transport.get_extra_info("socket")
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            await end(listener, came)

    run(new_loop, crowd())


@pytest.mark.parametrize("new_loop", LOOPS)
def test_room(new_loop: Callable[[], asyncio.AbstractEventLoop], came: list[Guest]) -> None:
    """No more come in than there is room for, the loop does not spin, and the others come in once there is."""

    async def crowd() -> None:
        allowed = [3]
        asked = [0]

        def room() -> int:
            asked[0] += 1
            return allowed[0] - len(came)

        listener = Acceptor(Guest, room)
        port = await listen(listener, "127.0.0.1", 0)
        with ExitStack() as stack:
            clients = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(CROWD)]
            while allowed[0] < CROWD:
                await until(lambda: len(came) == allowed[0] and not listener._welcomed)
                await asyncio.sleep(0.001)
                before = asked[0]
                await asyncio.sleep(0.001)
                assert len(came) == allowed[0]
                assert asked[0] == before
                allowed[0] = min(allowed[0] * 3, CROWD)
                listener.go_on()
            await until(lambda: len(came) == len(clients))
            await end(listener, came)

    run(new_loop, crowd())


@pytest.mark.parametrize("new_loop", LOOPS)
def test_nobody_comes_in_any_more(new_loop: Callable[[], asyncio.AbstractEventLoop], came: list[Guest]) -> None:
    """Once it is closed, the port is free, and whoever was being let in is let in, or disconnected."""

    async def close() -> None:
        listener = Acceptor(Guest)
        # Nobody else gets it between the two.
        port = await listen(listener, "127.0.0.1", free_port())
        with socket.create_connection(("127.0.0.1", port)) as client:
            await until(lambda: bool(listener._welcomed))
            listener.close()
            await listener.settle()
            for guest in came:
                assert guest.transport is not None
                guest.transport.close()
            client.settimeout(60)
            assert await asyncio.to_thread(client.recv, 1) == b""
        await until(lambda: all(guest.has_left for guest in came))
        again = Acceptor(Guest)
        assert await listen(again, "127.0.0.1", port) == port
        with pytest.raises(OSError, match="in use"):
            await listen(Acceptor(Guest), "127.0.0.1", port)
        again.close()

    run(new_loop, close())


@pytest.mark.parametrize("new_loop", LOOPS)
def test_everybody_who_came_in_leaves(new_loop: Callable[[], asyncio.AbstractEventLoop], came: list[Guest]) -> None:
    """Whenever the acceptor is closed, each protocol that was told of a connection is told of its end, too."""

    async def close(turns: int) -> None:
        came.clear()
        listener = Acceptor(Guest)
        port = await listen(listener, "127.0.0.1", 0)
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(CROWD)]
        await until(lambda: bool(listener._welcomed))
        for _ in range(turns):
            await asyncio.sleep(0)
        listener.close()
        await listener.settle()
        for guest in came:
            assert guest.transport is not None
            guest.transport.abort()
        for _ in range(10):
            await asyncio.sleep(0)
        assert all(guest.has_left for guest in came)
        for client in clients:
            client.close()

    async def close_at_any_time() -> None:
        for turns in range(10):
            await close(turns)

    run(new_loop, close_at_any_time())


def test_no_more_files(monkeypatch: pytest.MonkeyPatch, came: list[Guest]) -> None:
    """Where a connection cannot be accepted the loop does not spin; they come in later."""
    monkeypatch.setattr(acceptor, "_RETRY_SECONDS", 0.01)
    refusals = [0]

    class Poor(socket.socket):
        def accept(self) -> tuple[socket.socket, object]:
            if refusals[0] < 3:
                refusals[0] += 1
                raise OSError(errno.EMFILE, "too many open files")
            return super().accept()

    monkeypatch.setattr(socket, "socket", Poor)

    async def come() -> None:
        listener = Acceptor(Guest)
        port = await listen(listener, "127.0.0.1", 0)
        monkeypatch.undo()
        with socket.create_connection(("127.0.0.1", port)):
            assert await until(lambda: bool(came)) > 3
            assert refusals == [3]
            listener.close()
            assert came[0].transport is not None
            came[0].transport.abort()
            await asyncio.sleep(0.01)

    run(uvloop.new_event_loop, come())


def test_all_addresses_of_a_name(came: list[Guest]) -> None:
    """A name may have addresses of several kinds."""

    async def come() -> None:
        listener = Acceptor(Guest)
        # One port only where there is one socket only.
        await listen(listener, "", 0)
        for each in listener._sockets:
            host = "::1" if each.family == socket.AF_INET6 else "127.0.0.1"
            before = len(came)
            with socket.create_connection((host, each.getsockname()[1])):
                await until(lambda expected=before + 1: len(came) == expected)  # type: ignore[misc]
        listener.close()
        for guest in came:
            assert guest.transport is not None
            guest.transport.abort()
        await asyncio.sleep(0.01)

    run(uvloop.new_event_loop, come())
    assert came


class NoSix(socket.socket):
    """As a system without IPv6 makes them."""

    missing = (socket.AF_INET6,)

    def __init__(self, family: int = -1, kind: int = -1, protocol: int = -1, fileno: int | None = None) -> None:
        if family in self.missing:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        super().__init__(family, kind, protocol, fileno)


def test_a_system_without_a_kind_of_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a name's addresses those are listened on that there can be, and where there is none that is an error."""

    async def addresses(*_: object, **__: object) -> list[tuple[int, int, int, str, tuple[object, ...]]]:
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 0, 0, 0)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0)),
        ]

    async def work() -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", addresses)
        monkeypatch.setattr(socket, "socket", NoSix)
        listener = Acceptor(Guest)
        await listen(listener, "localhost", 0)
        assert [each.family for each in listener._sockets] == [socket.AF_INET]
        listener.close()
        monkeypatch.setattr(NoSix, "missing", (socket.AF_INET6, socket.AF_INET))
        with pytest.raises(OSError, match="Address family not supported"):
            await listen(Acceptor(Guest), "localhost", 0)
        monkeypatch.undo()

    run(asyncio.new_event_loop, work())
