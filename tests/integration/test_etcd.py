"""The coordinator on a real etcd: what a cluster may rely on."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import trustme

from flintmq.base.errors import ConfigurationError
from flintmq.cluster.coordinator import CoordinatorError, LeaseLost, Member, OutcomeUnknown
from flintmq.cluster.etcd import Etcd
from flintmq.cluster.tls import etcd_tls
from tests.etcd import EtcdProcess
from tests.servers import free_port

pytestmark = pytest.mark.skipif(
    not EtcdProcess.is_installed(), reason="etcd (Debian's package etcd-server) is not installed"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdProcess]:
    with EtcdProcess(tmp_path_factory.mktemp("etcd")) as running:
        yield running


@asynccontextmanager
async def opened(
    server: EtcdProcess,
    cluster: str,
    *before: str,
    user: str = "",
    password: str = "",
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Etcd]:
    coordinator = Etcd([*before, server.url], cluster, user, password, tls)
    try:
        yield coordinator
    finally:
        await coordinator.close()


def test_one_of_many_is_elected(server: EtcdProcess) -> None:
    """Of all that campaign with the same view, one wins; its term is the revision at which it did."""

    async def run() -> None:
        async with opened(server, "many") as coordinator:
            leases = [await coordinator.grant(60) for _ in range(10)]
            seen = await coordinator.view()
            assert (seen.leader, seen.in_sync, seen.in_sync_revision) == (None, frozenset(), 0)
            terms = await asyncio.gather(
                *(coordinator.elect(seen, f"node{number}", lease) for number, lease in enumerate(leases))
            )
            (winner,) = [number for number, term in enumerate(terms) if term]
            found = (await coordinator.view()).leader
            assert found is not None
            assert (found.node, found.term, found.lease) == (f"node{winner}", terms[winner], leases[winner])

    asyncio.run(run())


def test_a_leader_that_lives_is_replaced(server: EtcdProcess) -> None:
    """By whoever has seen it; the old one can write nothing any more, and the new one's term is higher."""

    async def run() -> None:
        async with opened(server, "replaced") as coordinator:
            lease = await coordinator.grant(60)
            old = await coordinator.elect(await coordinator.view(), "old", lease)
            first = await coordinator.write_in_sync(old, 0, frozenset({"old", "new"}))
            assert first > old
            new = await coordinator.elect(await coordinator.view(), "new", await coordinator.grant(60))
            assert new > old
            assert await coordinator.write_in_sync(old, first, frozenset({"old"})) == 0
            await coordinator.resign(old)
            seen = await coordinator.view()
            assert seen.leader is not None
            assert (seen.leader.node, seen.in_sync) == ("new", frozenset({"old", "new"}))
            await coordinator.resign(new)
            assert (await coordinator.view()).leader is None

    asyncio.run(run())


def test_nobody_is_elected_after_a_change_of_those_in_sync(server: EtcdProcess) -> None:
    """A candidate that was in sync when it looked, and is not any more, does not win."""

    async def run() -> None:
        async with opened(server, "late") as coordinator:
            lease = await coordinator.grant(60)
            term = await coordinator.elect(await coordinator.view(), "a", lease)
            both = await coordinator.write_in_sync(term, 0, frozenset({"a", "b"}))
            seen = await coordinator.view()
            assert await coordinator.write_in_sync(term, both, frozenset({"a"})) > 0
            await coordinator.revoke(lease)
            other = await coordinator.grant(60)
            assert await coordinator.elect(seen, "b", other) == 0
            assert await coordinator.elect(await coordinator.view(), "a", other) > term

    asyncio.run(run())


def test_a_lease_that_ends_takes_its_keys_along(server: EtcdProcess) -> None:
    """Then the node does not count as alive, leads no more, and cannot be elected on that lease."""

    async def run() -> None:
        async with opened(server, "leases") as coordinator:
            lease = await coordinator.grant(60)
            await coordinator.renew(lease)
            await coordinator.announce("a", lease)
            await coordinator.elect(await coordinator.view(), "a", lease)
            assert (await coordinator.view()).alive == {"a"}
            await coordinator.revoke(lease)
            seen = await coordinator.view()
            assert (seen.leader, seen.alive) == (None, frozenset())
            with pytest.raises(LeaseLost):
                await coordinator.renew(lease)
            with pytest.raises(LeaseLost):
                await coordinator.announce("a", lease)
            with pytest.raises(LeaseLost):
                await coordinator.elect(seen, "a", lease)

    asyncio.run(run())


def test_changes_are_told(server: EtcdProcess) -> None:
    """A wait ends with the next change, also with one before it began."""

    async def run() -> None:
        async with opened(server, "watched") as coordinator:
            seen = await coordinator.view()
            waiting = asyncio.create_task(coordinator.changed(seen.revision))
            done, _ = await asyncio.wait([waiting], timeout=0.2)
            assert not done
            await coordinator.elect(seen, "a", await coordinator.grant(60))
            await asyncio.wait_for(waiting, 5.0)
            await asyncio.wait_for(coordinator.changed(seen.revision), 5.0)

    asyncio.run(run())


def test_members(server: EtcdProcess) -> None:
    """An id belongs to one member. A member that leads or is in sync cannot be removed."""

    async def run() -> None:
        async with opened(server, "members") as coordinator:
            a = Member("a", "flintmq@one", "one:5680", "0.1.0")
            b = Member("b", "flintmq@two", "two:5680", "0.1.0")
            assert await coordinator.put_member(a, True)
            assert not await coordinator.put_member(a, True)
            assert await coordinator.put_member(b, True)
            assert (await coordinator.view()).members == {"a": a, "b": b}
            term = await coordinator.elect(await coordinator.view(), "a", await coordinator.grant(60))
            both = await coordinator.write_in_sync(term, 0, frozenset({"a", "b"}))
            assert not await coordinator.remove_member("a")
            assert not await coordinator.remove_member("b")
            await coordinator.write_in_sync(term, both, frozenset({"a"}))
            assert await coordinator.remove_member("b")
            assert set((await coordinator.view()).members) == {"a"}

    asyncio.run(run())


def test_members_of_a_newer_version(server: EtcdProcess) -> None:
    """What a newer node writes of itself beside what is known here is left out: older nodes go on."""

    async def run() -> None:
        async with opened(server, "newer") as coordinator:
            newer = {"name": "a", "replication": "a:5670", "version": "9", "region": "north", "weight": 3}
            await coordinator._transact([], [coordinator._put("members/a", newer)])
            await coordinator._transact([], [coordinator._put("regions/north", ["a"])])
            assert (await coordinator.view()).members == {"a": Member("a", "a", "a:5670", "9")}

    asyncio.run(run())


def test_who_follows(server: EtcdProcess) -> None:
    """It is written by the leader only, and means nothing when that one leads no longer."""

    async def run() -> None:
        async with opened(server, "follows") as coordinator:
            old = await coordinator.elect(await coordinator.view(), "a", await coordinator.grant(60))
            await coordinator.write_following(old, frozenset({"a", "b"}))
            assert (await coordinator.view()).following == {"a", "b"}
            await coordinator.resign(old)
            assert (await coordinator.view()).following is None
            new = await coordinator.elect(await coordinator.view(), "b", await coordinator.grant(60))
            assert (await coordinator.view()).following is None
            await coordinator.write_following(old, frozenset({"a", "b"}))
            assert (await coordinator.view()).following is None
            await coordinator.write_following(new, frozenset({"b"}))
            assert (await coordinator.view()).following == {"b"}

    asyncio.run(run())


def test_clusters_do_not_see_each_other(server: EtcdProcess) -> None:
    """Also if the name of one is the beginning of the other's."""

    async def run() -> None:
        async with opened(server, "name") as one, opened(server, "name2") as other:
            await other.put_member(Member("x", "x", "x:1", "1"), True)
            assert (await one.view()).members == {}

    asyncio.run(run())


def test_the_next_endpoint_is_asked(server: EtcdProcess) -> None:
    """One that refuses, and one that does not answer, do not keep a node from the others."""

    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            before = [f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{silent.getsockname()[1]}"]
            async with opened(server, "endpoints", *before) as coordinator:
                await coordinator.view()
                lease = await coordinator.grant(60)
                assert await coordinator.elect(await coordinator.view(), "a", lease) > 0

    asyncio.run(run())


def test_an_etcd_that_is_not_there(tmp_path: Path) -> None:
    """It says so, and what to do; once etcd is back, with all it had, the same client goes on."""

    async def run() -> None:
        with EtcdProcess(tmp_path) as server:
            async with opened(server, "gone") as coordinator:
                lease = await coordinator.grant(60)
                term = await coordinator.elect(await coordinator.view(), "a", lease)
                server.stop()
                with pytest.raises(CoordinatorError, match=r"check cluster\.etcd"):
                    await coordinator.view()
                server.start()
                leader = (await coordinator.view()).leader
                assert leader is not None
                assert (leader.node, leader.term) == ("a", term)
                await coordinator.renew(lease)

    asyncio.run(run())


def test_what_is_no_etcd(server: EtcdProcess) -> None:
    """An answer of something else is an error that says so."""

    async def run() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as strange:
            port = strange.sockets[0].getsockname()[1]
            coordinator = Etcd([f"http://127.0.0.1:{port}"], "strange")
            with pytest.raises(CoordinatorError, match="is not etcd"):
                await coordinator.view()
            await coordinator.close()

    asyncio.run(run())


def test_a_user_of_etcd(tmp_path: Path) -> None:
    """Who logs in can do all that a node does, with rights for its own keys only; others are told what to check."""

    async def run() -> None:
        with EtcdProcess(tmp_path) as server:
            server.require_login("flintmq", "right", "/flintmq/users/")
            async with opened(server, "users", user="flintmq", password="right") as coordinator:
                lease = await coordinator.grant(60)
                await coordinator.announce("a", lease)
                term = await coordinator.elect(await coordinator.view(), "a", lease)
                assert await coordinator.write_in_sync(term, 0, frozenset({"a"})) > term
                await coordinator.changed(term)
                await coordinator.renew(lease)
                # As after some minutes, or a restart of etcd.
                coordinator._token = "a token that has ended"
                await coordinator.resign(term)
                await coordinator.revoke(lease)
                assert (await coordinator.view()).alive == frozenset()
            for cluster, user, password in (
                ("users", "flintmq", "wrong"),
                ("users", "nobody", "right"),
                ("users", "", ""),
                ("others", "flintmq", "right"),
            ):
                async with opened(server, cluster, user=user, password=password) as coordinator:
                    for call in (coordinator.view(), coordinator.put_member(Member("a", "a", "a:1", "1"), True)):
                        with pytest.raises(CoordinatorError, match=r"check cluster\.etcd_user") as caught:
                            await call
                        assert type(caught.value) is CoordinatorError

    asyncio.run(run())


def test_a_user_where_etcd_knows_none(server: EtcdProcess) -> None:
    """If etcd has no logins, a node that has a user is told so."""

    async def run() -> None:
        async with opened(server, "nobody", user="flintmq", password="right") as coordinator:
            with pytest.raises(CoordinatorError, match=r"remove cluster\.etcd_user"):
                await coordinator.view()

    asyncio.run(run())


def test_etcd_by_tls(tmp_path: Path) -> None:
    """By its authority and with a certificate, a node reaches it; without one of the two, the reason is told."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "etcd.pem")

    async def run() -> None:
        files = tmp_path / "etcd.pem", tmp_path / "ca.pem"
        with EtcdProcess(tmp_path / "data", *files, asks_for_certificates=True) as server:
            tls = etcd_tls(tmp_path / "ca.pem", tmp_path / "etcd.pem", None)
            async with opened(server, "tls", tls=tls) as coordinator:
                assert (await coordinator.view()).members == {}
            for wrong, reason in (
                (None, "CERTIFICATE_VERIFY_FAILED"),
                (etcd_tls(tmp_path / "other.pem", tmp_path / "etcd.pem", None), "CERTIFICATE_VERIFY_FAILED"),
                (etcd_tls(tmp_path / "ca.pem", None, None), "etcd"),
            ):
                async with opened(server, "tls", tls=wrong) as coordinator:
                    with pytest.raises(CoordinatorError, match=reason):
                        await coordinator.view()

    asyncio.run(run())


def test_tls_that_fails_with_the_answer(server: EtcdProcess) -> None:
    """An alert can come when a request was sent already: it is told as every other failure is."""

    async def run() -> None:
        def refuse(_: httpx.Request) -> httpx.Response:
            raise ssl.SSLError(1, "bad certificate")

        async with opened(server, "alert") as coordinator:
            await coordinator._client.aclose()
            coordinator._client = httpx.AsyncClient(transport=httpx.MockTransport(refuse))
            for call in (coordinator.view(), coordinator.changed(1), coordinator.look_at(server.url)):
                with pytest.raises(CoordinatorError, match="bad certificate"):
                    await call
            with pytest.raises(OutcomeUnknown, match="bad certificate"):
                await coordinator.put_member(Member("a", "a", "a:1", "1"), True)

    asyncio.run(run())


@pytest.mark.parametrize("name", ["etcd_ca", "etcd_certificate", "etcd_key"])
def test_files_for_etcd_that_cannot_be_used(tmp_path: Path, name: str) -> None:
    """An error at the start names the setting and the file."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("a").private_key_and_cert_chain_pem.write_to_path(tmp_path / "a.pem")
    (tmp_path / "broken.pem").write_text("nothing")
    right = {"etcd_ca": tmp_path / "ca.pem", "etcd_certificate": tmp_path / "a.pem", "etcd_key": None}
    assert etcd_tls(*right.values()) is not None
    with pytest.raises(ConfigurationError, match=rf"cluster\.{name} {tmp_path / 'broken.pem'}"):
        etcd_tls(*{**right, name: tmp_path / "broken.pem"}.values())
