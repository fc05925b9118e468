"""What a node makes of answers that do not come from etcd, but from a proxy or a load balancer before it."""

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from flintmq.cluster.coordinator import CoordinatorError, Member, OutcomeUnknown, View
from flintmq.cluster.etcd import Etcd

HTML = "<html>502 Bad Gateway</html>"
DONE = '{"header": {"revision": "7"}, "succeeded": true}'
REFUSED = '{"code": 7, "message": "etcdserver: permission denied"}'
DEEP = '{"x": ' + "[" * 100_000

# Answers of which nobody knows what happened to the request: status and body.
STRANGE = [
    (502, HTML),
    (503, ""),
    (504, "[]"),
    (502, '{"code": "bad_gateway", "message": "x"}'),
    (502, '{"code": null}'),
    (502, '{"message": "x"}'),
    (502, DEEP),
    (502, REFUSED),
    (503, '{"code": 14, "message": "etcdserver: request timed out"}'),
    (503, '{"error": {"grpc_code": 14, "message": "etcdserver: no leader"}}'),
    (429, '{"code": 8, "message": "etcdserver: too many requests"}'),
    (404, '{"code": "5", "message": "x"}'),
    (403, "{}"),
    (302, ""),
    (200, HTML),
    (200, ""),
    (200, "[]"),
    (200, "{}"),
    (200, DEEP),
    (200, "null"),
    (200, '{"header": 7, "result": 7, "kvs": 7, "ID": [], "succeeded": true}'),
    (200, '{"header": {"revision": "x"}, "result": {"TTL": "x"}, "ID": "x"}'),
    (200, "\ufffd\udcff"),
]

Call = Callable[[Etcd], Awaitable[object]]
CHANGES: list[Call] = [
    lambda etcd: etcd.announce("a", 1),
    lambda etcd: etcd.elect(View(1), "a", 1),
    lambda etcd: etcd.write_in_sync(5, 6, frozenset("ab")),
    lambda etcd: etcd.write_following(5, frozenset("ab")),
    lambda etcd: etcd.doubt("a", None, 1),
    lambda etcd: etcd.wish("a", 1),
    lambda etcd: etcd.resign(5),
    lambda etcd: etcd.put_member(Member("a", "a", "a:1", "1"), True),
]
# A lease that nobody knows of ends by itself, so these may be sent again.
OTHERS: list[Call] = [
    lambda etcd: etcd.grant(3),
    lambda etcd: etcd.renew(1),
    lambda etcd: etcd.view(),
]


@asynccontextmanager
async def answering(status: int, body: str, asked: list[str]) -> AsyncIterator[str]:
    """Serve HTTP and give each request this answer. Yields the URL; `asked` gets the paths."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        asked.append(head.split()[1])
        await reader.readexactly(int(head.partition("content-length:")[2].split()[0]))
        data = body.encode(errors="surrogateescape")
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, len(data)) + data)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def ask(call: Call, *urls: str, user: str = "") -> object:
    """Return what a call returns, or the CoordinatorError that it raises."""
    etcd = Etcd(list(urls), "c", user)
    try:
        return await call(etcd)
    except CoordinatorError as error:
        return error
    finally:
        await etcd.close()


@pytest.mark.parametrize(("status", "body"), STRANGE)
def test_a_change_whose_answer_is_strange(status: int, body: str) -> None:
    """It may have been made, so it is sent once, and its outcome is not known."""

    async def run() -> None:
        for call in CHANGES:
            asked: list[str] = []
            async with answering(status, body, asked) as one, answering(200, DONE, asked) as other:
                assert type(await ask(call, one, other)) is OutcomeUnknown
            assert asked == ["/v3/kv/txn"]

    asyncio.run(run())


@pytest.mark.parametrize(("status", "body"), STRANGE)
def test_other_requests_whose_answers_are_strange(status: int, body: str) -> None:
    """The next endpoint is asked, and if there is none, that is an error as every other; above all no lost lease."""

    async def run() -> None:
        for call in OTHERS:
            asked: list[str] = []
            async with answering(status, body, asked) as url:
                assert type(await ask(call, url, url)) is CoordinatorError
            assert len(asked) == 2

    asyncio.run(run())


@pytest.mark.parametrize("key", ["leader", "in_sync", "following", "members/a", "doubts/a", "heir"])
@pytest.mark.parametrize("value", ["", "7", "{}", '["a", 7]', DEEP, "\udcff"])
def test_a_value_that_no_node_has_written(key: str, value: str) -> None:
    """The complaint names the key. What nobody knows may stand beside it."""
    pairs = [
        {"key": b64encode(name).decode(), "value": b64encode(held).decode(), "mod_revision": "5"}
        for name, held in (
            (b"/flintmq/c/\xff", b"\xff"),
            (f"/flintmq/c/{key}".encode(), value.encode(errors="surrogateescape")),
        )
    ]
    body = json.dumps({"header": {"revision": "7"}, "kvs": pairs})

    async def run() -> None:
        async with answering(200, body, []) as url:
            found = await ask(lambda etcd: etcd.view(), url)
        assert type(found) is CoordinatorError
        assert f"no node has written the value of /flintmq/c/{key} in etcd" in str(found)

    asyncio.run(run())


def test_an_endpoint_with_a_proxy_that_has_lost_etcd() -> None:
    """It does not keep a node from the other endpoints."""

    async def run() -> None:
        granted = '{"header": {"revision": "7"}, "ID": "9223372036854775807", "TTL": "3"}'
        async with answering(502, HTML, []) as broken, answering(200, granted, []) as sound:
            assert await ask(lambda etcd: etcd.grant(3), broken, sound) == 2**63 - 1

    asyncio.run(run())


@pytest.mark.parametrize(
    ("status", "body"),
    [(403, REFUSED), (401, '{"code": 16, "error": "x"}'), (400, '{"code": 3}'), (404, '{"code": 5, "details": []}')],
)
def test_a_change_that_etcd_refuses(status: int, body: str) -> None:
    """Nothing was done then, and the caller need not find out."""

    async def run() -> None:
        async with answering(status, body, []) as url:
            error = await ask(lambda etcd: etcd.write_in_sync(5, 6, frozenset("ab")), url)
            assert isinstance(error, CoordinatorError)
            assert not isinstance(error, OutcomeUnknown)

    asyncio.run(run())


@pytest.mark.parametrize(("body", "revision"), [(DONE, 7), ('{"header": {"revision": "7"}}', 0)])
def test_a_change_that_etcd_answers(body: str, revision: int) -> None:
    """Fields with their default value are left out: without `succeeded`, a comparison did not hold."""

    async def run() -> None:
        async with answering(200, body, []) as url:
            assert await ask(lambda etcd: etcd.write_in_sync(5, 6, frozenset("ab")), url) == revision

    asyncio.run(run())


@pytest.mark.parametrize(("status", "body"), [(502, HTML), (200, "[]"), (200, '{"result": null}'), (200, "7")])
def test_a_watch_whose_answer_is_strange(status: int, body: str) -> None:
    """It ends with an error, after which the caller waits before it asks again."""

    async def run() -> None:
        async with answering(status, body, []) as url:
            assert isinstance(await ask(lambda etcd: etcd.changed(1), url), CoordinatorError)

    asyncio.run(run())


@pytest.mark.parametrize(("status", "body"), [(502, HTML), (200, "[]"), (200, "{}"), (200, '{"token": 7}')])
def test_a_login_whose_answer_is_strange(status: int, body: str) -> None:
    """Nothing is asked without a token."""

    async def run() -> None:
        asked: list[str] = []
        async with answering(status, body, asked) as url:
            for call in (*CHANGES, *OTHERS):
                assert isinstance(await ask(call, url, user="somebody"), CoordinatorError)
        assert set(asked) == {"/v3/auth/authenticate"}

    asyncio.run(run())
