"""The HTTP API over sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from flintmq.base.limits import HTTP_HEAD_MAX_BYTES
from flintmq.broker.ports import UserRecord
from flintmq.management.api.table import ROUTES
from flintmq.management.http import connection_quota, server
from flintmq.management.http.app import application
from flintmq.management.http.server import HttpServer
from flintmq.management.stats.sampler import Stats
from tests.unit.management.fake_node import BODY_MAX_BYTES, NodeInMemory
from tests.unit.management.http.listening import listen

REQUEST = b"GET /api/whoami HTTP/1.1\r\nhost: x\r\nauthorization: Basic YWRtaW46YWRtaW4=\r\n\r\n"


class SlowNode(NodeInMemory):
    """A login takes for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.given_up = asyncio.Event()

    async def authenticate(self, user: str, password: str, address: str) -> str:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.given_up.set()
        return ""


def test_a_login_is_given_up_with_its_connection() -> None:
    """Closing a connection cancels its login check, and leaves no task."""

    async def leave() -> None:
        node = SlowNode()
        server = HttpServer(application(node, Stats(node), ROUTES, BODY_MAX_BYTES))
        port = await listen(server)
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        await asyncio.wait_for(node.asked.wait(), 60)
        writer.transport.abort()
        await asyncio.wait_for(node.given_up.wait(), 60)
        await asyncio.sleep(0)
        await server.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(leave())


def test_closing_ends_what_is_open() -> None:
    """Connections that wait for nothing are closed at once, and those that wait for a login soon."""

    async def close() -> None:
        node = SlowNode()
        server = HttpServer(application(node, Stats(node), ROUTES, BODY_MAX_BYTES))
        port = await listen(server)
        idle, _ = await asyncio.open_connection("127.0.0.1", port)
        busy, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        await asyncio.wait_for(node.asked.wait(), 60)
        await asyncio.wait_for(server.close(), 60)
        assert await asyncio.wait_for(idle.read(), 60) == b""
        await asyncio.wait_for(busy.read(), 60)

    asyncio.run(close())


@asynccontextmanager
async def _served(node: NodeInMemory) -> AsyncIterator[int]:
    server = HttpServer(application(node, Stats(node), ROUTES, BODY_MAX_BYTES))
    yield await listen(server)
    await server.close()


async def _is_closed(reader: asyncio.StreamReader) -> bool:
    """Whether it is, by the time that all there is was read."""
    try:
        async with asyncio.timeout(60):
            await reader.read()
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


CHUNKED = (
    REQUEST.replace(b"GET /api/whoami", b"POST /api/users/bulk-delete")[:-2]
    + b"transfer-encoding: chunked\r\n\r\n0\r\n"
)


@pytest.mark.parametrize(
    "before",
    [REQUEST + b"GET / HTTP/1.1\r\n", REQUEST + b"GET / HTTP/1.1\r\na: ", REQUEST + b"GET /", CHUNKED],
    ids=["headers", "one header", "a path", "trailers"],
)
def test_what_comes_behind_a_request_that_is_not_answered(before: bytes) -> None:
    """While a stranger waits for its login it cannot make us gather another head, or what follows a body."""

    async def pour() -> None:
        node = SlowNode()
        async with _served(node) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(before)
            await asyncio.wait_for(node.asked.wait(), 60)
            poured = b"a" * 1_000 if before.endswith((b"/", b": ")) else b"a: b\r\n" * 200
            for _ in range(2 * HTTP_HEAD_MAX_BYTES // len(poured)):
                writer.write(poured)
                await asyncio.sleep(0.001)
            assert await _is_closed(reader)

    asyncio.run(pour())


def test_a_head_that_comes_in_one_piece() -> None:
    """A head of more than 16 KiB is not looked at, even where a single read of the socket brings all of it."""

    async def ask() -> None:
        node = SlowNode()
        async with _served(node) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(REQUEST[:-2] + b"a: " + b"b" * HTTP_HEAD_MAX_BYTES + b"\r\n\r\n")
            assert await _is_closed(reader)
            assert not node.asked.is_set()

    asyncio.run(ask())


def test_strangers_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many strangers there are, whoever can log in does, and keeps the connection."""
    monkeypatch.setattr(connection_quota, "HTTP_CONNECTIONS_MAX", 4)

    async def come() -> None:
        node = NodeInMemory()
        node.broker.put_user(UserRecord("admin", "admin", ("administrator",)))
        async with _served(node) as port:
            known, to_known = await asyncio.open_connection("127.0.0.1", port)
            to_known.write(REQUEST)
            assert (await known.readline()).startswith(b"HTTP/1.1 200 ")
            await known.readuntil(b"}")
            strangers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(6)]
            for reader, _ in strangers[:3]:
                assert await _is_closed(reader)
            late, to_late = await asyncio.open_connection("127.0.0.1", port)
            to_late.write(REQUEST)
            assert (await late.readline()).startswith(b"HTTP/1.1 200 ")
            to_known.write(REQUEST)
            assert b"HTTP/1.1 200 " in await known.readuntil(b"}")

    asyncio.run(come())


def test_an_answer_that_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that takes nothing of its answer is hung up on, and what was made for it goes."""
    monkeypatch.setattr(server, "HTTP_UNREAD_SECONDS", 0.1)

    async def ignore() -> None:
        gone = asyncio.Event()

        async def endless() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield bytes(1024 * 1024)
                    await asyncio.sleep(0)
            finally:
                gone.set()

        async def large(_request: Request) -> Response:
            return StreamingResponse(endless())

        node = NodeInMemory()
        server = HttpServer(application(node, Stats(node), (), BODY_MAX_BYTES, [Route("/large", large)]))
        reader, writer = await asyncio.open_connection("127.0.0.1", await listen(server))
        writer.write(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n")
        await reader.readline()
        await asyncio.wait_for(gone.wait(), 60)
        writer.close()
        await server.close()

    asyncio.run(ignore())
