"""The API's sockets: no user, and no address, keeps others out."""

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from flintmq.base.addresses import Network, networks
from flintmq.base.limits import (
    HTTP_ADDRESS_CONNECTIONS_MAX,
    HTTP_CONNECTIONS_MAX,
    HTTP_RESERVED_CONNECTIONS,
    HTTP_USER_CONNECTIONS_MAX,
)
from flintmq.broker.ports import PermissionRecord, UserRecord
from flintmq.management.api.table import ROUTES
from flintmq.management.http import connection_quota, server
from flintmq.management.http.app import application
from flintmq.management.http.connection_quota import UNAUTHENTICATED, admit, make_room
from flintmq.management.http.server import HttpServer
from flintmq.management.metrics.endpoint import ROUTES as METRICS
from flintmq.management.stats.sampler import Stats
from tests.unit.management.fake_node import BODY_MAX_BYTES, NodeInMemory
from tests.unit.management.http.listening import listen

USUAL = HTTP_CONNECTIONS_MAX - HTTP_RESERVED_CONNECTIONS


class FakeConnection:
    def __init__(
        self, login: str, since: float = 0.0, address: str = "a", *, is_preferred: bool = False, is_idle: bool = True
    ) -> None:
        self.login = login
        self.since = since
        self.address = address
        self.is_preferred = is_preferred
        self.is_idle = is_idle
        self.has_left = False

    def evict(self) -> None:
        self.has_left = True


def left(seats: Sequence[FakeConnection]) -> list[int]:
    return [at for at, seat in enumerate(seats) if seat.has_left]


def test_there_is_room() -> None:
    """No connection is closed below the limit."""
    seats = [FakeConnection(UNAUTHENTICATED) for _ in range(HTTP_CONNECTIONS_MAX - 1)]
    assert make_room(seats)
    assert left(seats) == []


def test_strangers_go_first() -> None:
    """The oldest of the address that has most of them; one whose login is being checked, only if there is no other."""
    seats = [FakeConnection("u", 1.0) for _ in range(HTTP_CONNECTIONS_MAX - 4)]
    strangers = [
        FakeConnection(UNAUTHENTICATED, 2.0, "b"),
        FakeConnection(UNAUTHENTICATED, 4.0),
        FakeConnection(UNAUTHENTICATED, 3.0),
        FakeConnection(UNAUTHENTICATED, 1.0, is_idle=False),
    ]
    for expected in (2, 1, 0, 3):
        assert make_room(
            [*seats, *(seat for seat in strangers if not seat.has_left)][:HTTP_CONNECTIONS_MAX] + seats[:4]
        )
        assert strangers[expected].has_left
    assert left(seats) == []


def test_then_who_is_idle() -> None:
    """The longest idle connection of the user with the most is closed; preferred users come last."""
    seats = [
        *(FakeConnection("many", 5.0, is_idle=at == 7) for at in range(40)),
        *(FakeConnection("few", 1.0) for _ in range(10)),
        *(FakeConnection("admin", 0.0, is_preferred=True) for _ in range(HTTP_CONNECTIONS_MAX - 50)),
    ]
    assert make_room(seats)
    assert left(seats) == [7]
    for seat in seats:
        seat.is_idle = False
    assert not make_room(seats)


def test_a_users_share() -> None:
    """The user's longest idle connection is closed; if none is idle, the new one is refused."""
    seats = [FakeConnection("u", float(at)) for at in range(5, 5 + HTTP_USER_CONNECTIONS_MAX)]
    others = [FakeConnection("v", 0.0)]
    assert admit("u", "b", False, [*seats, *others]) == ""
    assert (left(seats), left(others)) == ([0], [])
    for seat in seats:
        seat.is_idle = False
    assert "user 'u' has" in admit("u", "b", False, [*seats, *others])
    assert "user 'u' has" in admit("u", "b", True, [*seats, *others])
    assert admit("w", "b", False, [*seats, *others]) == ""


def test_an_addresss_share() -> None:
    """The share of an address covers all its users, except those who may use the reserve."""
    seats = [FakeConnection(f"u{at}", is_idle=False) for at in range(HTTP_ADDRESS_CONNECTIONS_MAX)]
    assert admit("u", "a", False, seats).startswith("a has")
    assert admit("u", "b", False, seats) == ""
    assert admit("u", "a", True, seats) == ""
    seats[3].is_idle = True
    assert admit("u", "a", False, seats) == ""
    assert left(seats) == [3]


def test_an_address_that_many_users_share() -> None:
    """A shared address has no share; its users have theirs, and cannot use the reserve."""
    seats = [FakeConnection(f"u{at % 2}", is_idle=False) for at in range(2 * HTTP_USER_CONNECTIONS_MAX)]
    assert admit("v", "a", False, seats, is_shared=True) == ""
    assert "user 'u0' has" in admit("u0", "a", False, seats, is_shared=True)
    others = [FakeConnection(f"w{at}", is_idle=False) for at in range(USUAL - len(seats))]
    assert admit("v", "a", False, seats + others, is_shared=True)
    assert admit("v", "a", True, seats + others, is_shared=True) == ""


def test_the_reserve() -> None:
    """However many users there are at however many addresses, some sockets are not theirs."""
    seats = [FakeConnection(f"u{at}", address=str(at), is_idle=False) for at in range(USUAL)]
    assert admit("u", "a", False, seats)
    assert admit("u", "a", True, seats) == ""
    preferred = [FakeConnection(f"p{at}", is_preferred=True) for at in range(HTTP_RESERVED_CONNECTIONS)]
    assert admit("u", "a", False, seats[1:] + preferred) == ""


# -- over sockets -------------------------------------------------------------------------------------------------


def request(user: str, path: str = "/api/whoami") -> bytes:
    login = base64.b64encode(f"{user}:{user}".encode()).decode()
    return f"GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Basic {login}\r\n\r\n".encode()


@asynccontextmanager
async def served(proxies: tuple[Network, ...] = ()) -> AsyncIterator[int]:
    node = NodeInMemory()
    node.broker.put_user(UserRecord("admin", "admin", ("administrator",)))
    node.broker.put_user(UserRecord("prometheus", "prometheus", ("monitoring",)))
    node.broker.add_vhost("/")
    for number in range(8):
        node.broker.put_user(UserRecord(f"u{number}", f"u{number}", ("management",)))
        node.broker.put_rule(PermissionRecord("/", f"u{number}", ".*", ".*", ".*"))
    server = HttpServer(application(node, Stats(node), (*ROUTES, *METRICS), BODY_MAX_BYTES), proxies)
    yield await listen(server)
    await server.close()


class Socket:
    """A connection that is kept between requests."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, user: str, path: str = "/api/whoami") -> int:
        """The status."""
        self.writer.write(request(user, path))
        async with asyncio.timeout(60):
            head = await self.reader.readuntil(b"\r\n\r\n")
            _, is_there, rest = head.lower().partition(b"content-length: ")
            if is_there:
                await self.reader.readexactly(int(rest.split(b"\r\n")[0]))
        return int(head.split()[1])

    async def ask_without_end(self, user: str) -> None:
        """A request whose body is asked for, and does not come."""
        assert await self.ask(user) == 200
        head = request(user, "/api/queues/%2F/q/get").replace(b"GET", b"POST")[:-2]
        self.writer.write(head + b"expect: 100-continue\r\ncontent-length: 10\r\n\r\n")
        assert b"100" in await self.reader.readline()


async def opened(port: int, stack: AsyncExitStack) -> Socket:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    stack.callback(writer.close)
    return Socket(reader, writer)


def test_idle_sockets_keep_nobody_out() -> None:
    """As many kept sockets as there are, of one user and then of many: administrators, Prometheus and the user itself
    get in, and who has one and uses it keeps it.
    """

    async def come() -> None:
        async with served() as port, AsyncExitStack() as stack:
            first = await opened(port, stack)
            assert await first.ask("admin") == 200
            for number in range(HTTP_CONNECTIONS_MAX + 10):
                assert await (await opened(port, stack)).ask("u0") == 200, number
            for number in range(HTTP_CONNECTIONS_MAX + 10):
                assert await (await opened(port, stack)).ask(f"u{number % 8}") == 200, number
            assert await (await opened(port, stack)).ask("prometheus", "/metrics") == 200
            assert await (await opened(port, stack)).ask("admin") == 200
            assert await (await opened(port, stack)).ask("u0") == 200
            assert await first.ask("admin") == 200

    asyncio.run(come())


@pytest.mark.parametrize(
    ("address", "proxies", "status"),
    [
        ("127.0.0.1", (), 200),
        ("::ffff:127.0.0.1", (), 200),
        ("10.0.0.7", (), 503),
        ("10.0.0.7", ("10.0.0.0/24",), 200),
    ],
)
def test_users_behind_a_proxy(
    monkeypatch: pytest.MonkeyPatch, address: str, proxies: tuple[str, ...], status: int
) -> None:
    """Two of them with requests that never end keep no other user out where many users have one address."""
    monkeypatch.setattr(connection_quota, "HTTP_ADDRESS_CONNECTIONS_MAX", 4)
    monkeypatch.setattr(connection_quota, "HTTP_USER_CONNECTIONS_MAX", 2)
    monkeypatch.setattr(server._Connection, "address", address)

    async def come() -> None:
        async with served(networks(proxies)) as port, AsyncExitStack() as stack:
            for number in range(4):
                await (await opened(port, stack)).ask_without_end(f"u{number % 2}")
            assert await (await opened(port, stack)).ask("u2") == status

    asyncio.run(come())


def test_busy_sockets_keep_others_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user whose sockets all have a request that never ends gets no more of them; a health check is answered all the
    same, and others are not concerned.
    """
    monkeypatch.setattr(connection_quota, "HTTP_USER_CONNECTIONS_MAX", 4)

    async def come() -> None:
        async with served() as port, AsyncExitStack() as stack:
            for _ in range(4):
                await (await opened(port, stack)).ask_without_end("u0")
            refused = await opened(port, stack)
            assert await refused.ask("u0") == 503
            assert await refused.reader.read() == b""
            assert await (await opened(port, stack)).ask("u0", "/api/health/checks/alarms") == 200
            assert await (await opened(port, stack)).ask("u1") == 200

    asyncio.run(come())
