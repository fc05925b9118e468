"""Answers about all there is: how many at a time, and what becomes of who comes then."""

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable

import httpx
import pytest
from starlette.responses import Response

from flintmq.base.limits import HTTP_WHOLE_EACH_MAX, HTTP_WHOLE_MAX
from flintmq.management.api.table import ROUTES
from flintmq.management.http.access import Right
from flintmq.management.http.call import Call, answer
from flintmq.management.http.concurrency import LISTS, METRICS, AnswerLimit
from flintmq.management.http.routes import Route
from tests.unit.management.fake_node import Api

# As many as have all turns, a few each; "late" is somebody else.
USERS = [f"user{number}" for number in range(HTTP_WHOLE_MAX // HTTP_WHOLE_EACH_MAX)]
LATE = "late"


class Crowd:
    """Handlers that wait until `may_go` is set."""

    def __init__(self) -> None:
        self.may_go = asyncio.Event()
        self.count = 0
        self._came = asyncio.Condition()

    async def stay(self) -> None:
        async with self._came:
            self.count += 1
            self._came.notify_all()
        await self.may_go.wait()

    async def has(self, count: int) -> None:
        async with self._came:
            await self._came.wait_for(lambda: self.count >= count)


class Served:
    """Routes whose answers are lists, made when `makers` may go; others that are none, and one that fails."""

    def __init__(self) -> None:
        self.makers = Crowd()
        api = Api(
            (
                Route("GET", "/api/things", self._list, Right.USER, "Lists.", list[str]),
                Route("GET", "/api/faults", self._fail, Right.USER, "Fails.", list[str]),
                Route("GET", "/api/thing", self._one, Right.USER, "One.", str),
                Route("GET", "/api/secrets", self._list, Right.ADMINISTRATOR, "Secrets.", list[str]),
                Route("GET", "/metrics/all", self._list, Right.ANYBODY, "Metrics.", group=METRICS),
            )
        )
        for user in (*USERS, LATE):
            api.user(user, "management")
        self._app = api.transport.app
        self.clients = {user: self._client("127.0.0.1", (user, user)) for user in (*USERS, LATE)}

    def _client(self, address: str, auth: tuple[str, str] | None = None) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self._app, client=(address, 1))
        return httpx.AsyncClient(transport=transport, base_url="http://localhost", auth=auth)

    async def _list(self, _call: Call) -> Response:
        await self.makers.stay()
        return answer(["a"])

    async def _fail(self, _call: Call) -> Response:
        raise ValueError

    async def _one(self, _call: Call) -> Response:
        return answer("a")

    def ask(self, count: int, path: str = "/api/things") -> "list[asyncio.Task[httpx.Response]]":
        """Send requests of all users in turn."""
        return [self.ask_by(USERS[number % len(USERS)], path) for number in range(count)]

    def ask_by(self, user: str, path: str = "/api/things") -> "asyncio.Task[httpx.Response]":
        return asyncio.create_task(self.clients[user].get(path))

    def ask_from(self, address: str) -> "asyncio.Task[httpx.Response]":
        return asyncio.create_task(self._client(address).get("/metrics/all"))

    async def status(self, path: str = "/api/things") -> int:
        return (await self.clients[LATE].get(path)).status_code

    async def ask_and_read(self, user: str, read: Callable[[], Awaitable[None]]) -> None:
        """A list, by a client that takes each piece of it in its own way."""

        async def send(_message: object) -> None:
            await read()

        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": b""}

        login = b"Basic " + b64encode(f"{user}:{user}".encode())
        scope = {"type": "http", "method": "GET", "scheme": "http", "path": "/api/things", "raw_path": b"/api/things"}
        facts = {"query_string": b"", "headers": [(b"authorization", login)], "client": ("127.0.0.1", 1)}
        await self._app({**scope, **facts}, receive, send)


@pytest.fixture
def _short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flintmq.management.http.concurrency.HTTP_WHOLE_WAIT_SECONDS", 0.01)


def test_so_many_at_a_time() -> None:
    """The others wait and are answered; whatever is no list does not wait, nor do metrics wait for lists."""

    async def run() -> None:
        served = Served()
        asked = served.ask(HTTP_WHOLE_MAX + 5)
        await served.makers.has(HTTP_WHOLE_MAX)
        assert await served.status("/api/thing") == 200
        asked += served.ask(1, "/metrics/all")
        await served.makers.has(HTTP_WHOLE_MAX + 1)
        assert served.makers.count == HTTP_WHOLE_MAX + 1
        served.makers.may_go.set()
        assert {(await each).status_code for each in asked} == {200}

    asyncio.run(run())


@pytest.mark.usefixtures("_short_wait")
def test_who_waits_too_long_is_refused() -> None:
    """A request that waits too long gets a 503; once other answers are read, there is room again."""

    async def run() -> None:
        served = Served()
        asked = served.ask(HTTP_WHOLE_MAX)
        await served.makers.has(HTTP_WHOLE_MAX)
        refused = await served.ask_by(LATE)
        assert (refused.status_code, refused.json()["error"]) == (503, "service_unavailable")
        assert refused.json()["reason"].startswith("8 answers about many objects")
        served.makers.may_go.set()
        await asyncio.gather(*asked)
        assert await served.status() == 200

    asyncio.run(run())


@pytest.mark.usefixtures("_short_wait")
def test_nobody_has_all_of_them() -> None:
    """A user that asks for many has a few, and waits for its own; the others do not wait for it."""

    async def run() -> None:
        served = Served()
        greedy = [served.ask_by(USERS[0]) for _ in range(HTTP_WHOLE_MAX)]
        await served.makers.has(HTTP_WHOLE_EACH_MAX)
        refused = await greedy.pop()
        assert refused.status_code == 503
        assert refused.json()["reason"].startswith("2 of your answers about many objects")
        other = served.ask_by(LATE)
        await served.makers.has(HTTP_WHOLE_EACH_MAX + 1)
        served.makers.may_go.set()
        assert (await other).status_code == 200
        assert sorted([(await each).status_code for each in greedy]) == [200, 200] + [503] * 5
        assert (await served.ask_by(USERS[0])).status_code == 200

    asyncio.run(run())


@pytest.mark.usefixtures("_short_wait")
def test_strangers_are_told_apart_by_their_addresses() -> None:
    """Without a login, the limit is per address; an IPv6 network of a client counts as one address."""

    async def run() -> None:
        served = Served()
        asked = [served.ask_from("2001:db8::1"), served.ask_from("2001:db8::2")]
        await served.makers.has(2)
        assert (await served.ask_from("2001:db8::3")).status_code == 503
        asked.append(served.ask_from("127.0.0.1"))
        await served.makers.has(3)
        served.makers.may_go.set()
        assert [(await each).status_code for each in asked] == [200] * 3

    asyncio.run(run())


@pytest.mark.usefixtures("_short_wait")
def test_who_has_not_the_right_takes_no_turn() -> None:
    """A request without permission is refused at once, also at the limit."""

    async def run() -> None:
        served = Served()
        asked = served.ask(HTTP_WHOLE_MAX)
        await served.makers.has(HTTP_WHOLE_MAX)
        assert await served.status("/api/secrets") == 401
        served.makers.may_go.set()
        await asyncio.gather(*asked)

    asyncio.run(run())


def test_an_answer_that_fails_gives_its_turn_back() -> None:
    """However many of them there were."""

    async def run() -> None:
        served = Served()
        served.makers.may_go.set()
        for _ in range(2 * HTTP_WHOLE_MAX):
            assert await served.status("/api/faults") == 500
        assert await served.status() == 200

    asyncio.run(run())


@pytest.mark.usefixtures("_short_wait")
def test_an_answer_has_its_turn_until_it_is_read() -> None:
    """An answer counts until its client has read it, because it takes memory."""

    async def run() -> None:
        served, readers = Served(), Crowd()
        served.makers.may_go.set()
        users = USERS * HTTP_WHOLE_EACH_MAX
        unread = [asyncio.create_task(served.ask_and_read(user, readers.stay)) for user in users]
        await readers.has(HTTP_WHOLE_MAX)
        assert await served.status() == 503
        readers.may_go.set()
        await asyncio.gather(*unread)
        assert await served.status() == 200

    asyncio.run(run())


def test_who_reads_too_slowly_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server ends a connection whose answer breaks off, and the turn is somebody else's."""
    monkeypatch.setattr("flintmq.management.http.app.HTTP_ANSWER_SECONDS", 0.01)

    async def run() -> None:
        served = Served()
        served.makers.may_go.set()
        for _ in range(HTTP_WHOLE_MAX + 1):
            with pytest.raises(TimeoutError):
                await served.ask_and_read(LATE, Crowd().stay)

    asyncio.run(run())


def test_which_answers_these_are() -> None:
    """Lists, definitions, and metrics of each object; not the sums of them, that every scrape asks for."""
    turns = {route.path: route.limit_group for route in ROUTES if route.method == "GET"}
    for path in ("/api/queues", "/api/bindings", "/api/channels", "/api/definitions", "/api/all-configuration"):
        assert turns[path] == LISTS
    assert turns["/metrics/per-object"] == turns["/metrics/detailed"] == METRICS
    for path in ("/metrics", "/api/overview", "/api/queues/{vhost}/{name}", "/api/whoami"):
        assert turns[path] == ""
    assert all(route.limit_group == "" for route in ROUTES if route.method != "GET")


def test_who_has_had_its_answer_is_forgotten() -> None:
    """The limit of a caller is dropped after its last answer, also after a failure: addresses are unlimited."""

    async def run() -> None:
        turns = AnswerLimit()

        async def fail(address: str) -> None:
            async with turns.acquire(f"at {address}"):
                assert len(turns._own) == 1
                raise ValueError(address)

        for address in ("::1", "127.0.0.1"):
            with pytest.raises(ValueError, match=address):
                await fail(address)
        assert not turns._own

    asyncio.run(run())
