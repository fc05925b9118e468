"""Connections between nodes over real sockets: who is let in, by the secret and by certificates, and who is not."""

import asyncio
import logging
import os
import random
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
import trustme

from flintmq.base.errors import ConfigurationError
from flintmq.base.limits import CLUSTER_UNAUTHENTICATED_MAX
from flintmq.cluster.credentials import Credentials, credentials_of
from flintmq.cluster.machine import RealMachine, TcpLink
from flintmq.cluster.ports import Link, LinkError, NobodyListens, Refusal, Silent
from flintmq.cluster.proof import MAGIC, NONCE_BYTES, greeting
from flintmq.cluster.wire import HELLO
from flintmq.server.config import ClusterSettings
from tests.effort import effort
from tests.servers import free_port
from tests.waiting import WAIT_SECONDS, wait_until

SECRET = "a secret of this cluster"
PATIENCE = 30.0
NODE = Credentials("c", SECRET)
DIFFERS = r"cluster\.secret differs between these nodes"


def _send_back(link: Link) -> None:
    """Serves a link: what comes goes back, until it ends."""
    with suppress(LinkError):
        while True:
            kind, body = link.receive()
            link.send_parts(kind, [body])
    link.close()


class Node:
    """A node that listens. `served` are the links that were authenticated."""

    def __init__(
        self, credentials: Credentials, silence: float = PATIENCE, serve: Callable[[Link], None] = _send_back
    ) -> None:
        bound = socket.create_server(("127.0.0.1", 0))
        self.port = bound.getsockname()[1]
        self.served: list[Link] = []
        self._serve = serve
        self._machine = RealMachine(bound, silence, credentials)
        self._machine.serve(self._take)

    def _take(self, link: Link) -> None:
        self.served.append(link)
        self._serve(link)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def plain(self) -> socket.socket:
        """A connection of a stranger."""
        made = socket.create_connection(("127.0.0.1", self.port))
        made.settimeout(WAIT_SECONDS)
        return made

    def close(self) -> None:
        self._machine.close()
        for link in self.served:
            link.close()


@contextmanager
def listening(
    credentials: Credentials = NODE, silence: float = PATIENCE, serve: Callable[[Link], None] = _send_back
) -> Iterator[Node]:
    node = Node(credentials, silence, serve)
    try:
        yield node
    finally:
        node.close()


def connect(node: Node, credentials: Credentials = NODE, silence: float = PATIENCE) -> TcpLink:
    """A connection to the node, not authenticated yet."""
    made = RealMachine(socket.socket(), silence, credentials).connect(node.address, silence)
    assert isinstance(made, TcpLink)
    return made


def refused(node: Node, credentials: Credentials, reason: str) -> None:
    link = connect(node, credentials)
    with pytest.raises(Refusal, match=reason):
        link.authenticate()
    link.close()
    assert not node.served


@pytest.fixture(autouse=True)
def _logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "flintmq")


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def until_closed(connection: socket.socket) -> bytes:
    """What a stranger gets until the node closes the connection."""
    received = b""
    with suppress(ConnectionResetError):
        while data := connection.recv(1 << 16):
            received += data
    return received


def _tls(authority: trustme.CA, directory: Path, node: str, trusts: trustme.CA | None = None) -> Credentials:
    """The credentials of a node with a certificate of this authority."""
    (trusts or authority).cert_pem.write_to_path(directory / f"{node}-ca.pem")
    authority.issue_cert(node).private_key_and_cert_chain_pem.write_to_path(directory / f"{node}.pem")
    return credentials_of(
        ClusterSettings(name="c", secret=SECRET, certificate=directory / f"{node}.pem", ca=directory / f"{node}-ca.pem")
    )


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def nodes(request: pytest.FixtureRequest, authority: trustme.CA, tmp_path: Path) -> tuple[Credentials, Credentials]:
    """The credentials of the node that accepts, and of the one that connects."""
    if request.param == "plain":
        return NODE, NODE
    return _tls(authority, tmp_path, "a"), _tls(authority, tmp_path, "b")


both = pytest.mark.parametrize("nodes", ["plain", "tls"], indirect=True)


# -- nodes of one cluster -------------------------------------------------------------------------------------------


@both
def test_nodes_of_one_cluster(nodes: tuple[Credentials, Credentials], caplog: pytest.LogCaptureFixture) -> None:
    """They exchange messages of every size, in parts."""
    with listening(nodes[0]) as node:
        link = connect(node, nodes[1])
        link.authenticate()
        for parts in ([], [b""], [b"a", b"", b"bc"], [b"x" * 300_000] * 3, [b"y"] * 3_000):
            link.send_parts(7, list(parts))
            kind, body = link.receive()
            assert (kind, bytes(body)) == (7, b"".join(parts))
        link.close()
    assert warnings_of(caplog) == []


@both
def test_both_directions_at_once(nodes: tuple[Credentials, Credentials]) -> None:
    """One thread sends and another one receives, on both sides, more than the kernel takes at once."""
    count = effort(200)
    received: list[list[int]] = [[], []]
    bodies = [bytes([number % 251]) * (number * 997 % 60_000) for number in range(count)]

    def receive(link: Link, into: list[int]) -> None:
        for number in range(count):
            kind, body = link.receive()
            assert (kind, body) == (number % 200, bodies[number])
            into.append(number)

    def exchange(link: Link, into: list[int]) -> None:
        receiving = threading.Thread(target=receive, args=(link, into))
        receiving.start()
        for number in range(count):
            link.send_parts(number % 200, [bodies[number]])
        receiving.join(WAIT_SECONDS)

    done = threading.Event()

    def serve(link: Link) -> None:
        exchange(link, received[0])
        done.set()

    with listening(nodes[0], serve=serve) as node:
        link = connect(node, nodes[1])
        link.authenticate()
        exchange(link, received[1])
        assert done.wait(WAIT_SECONDS)
        link.close()
    assert received == [list(range(count))] * 2


@both
def test_a_link_that_is_closed_while_it_waits(nodes: tuple[Credentials, Credentials]) -> None:
    """Another thread may close it at any time: who waits for a proof, or for a message, gets LinkError."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        machine = RealMachine(socket.socket(), WAIT_SECONDS, nodes[1])
        link = machine.connect(f"127.0.0.1:{silent.getsockname()[1]}", WAIT_SECONDS)
        threading.Timer(0.1, link.close).start()
        with pytest.raises(LinkError, match="closed"):
            link.authenticate()
    with listening(nodes[0], silence=WAIT_SECONDS) as node:
        link = connect(node, nodes[1], silence=WAIT_SECONDS)
        link.authenticate()
        threading.Timer(0.1, link.close).start()
        with pytest.raises(LinkError):
            link.receive()


@both
def test_silence(nodes: tuple[Credentials, Credentials]) -> None:
    """A node that says nothing is noticed before the proof and after it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        link = RealMachine(socket.socket(), 0.2, nodes[1]).connect(f"127.0.0.1:{silent.getsockname()[1]}", 0.2)
        with pytest.raises(Silent):
            link.authenticate()
        link.close()
    with listening(nodes[0]) as node:
        link = connect(node, nodes[1])
        link.authenticate()
        # The time that the proof has taken does not count.
        limit = link._socket.gettimeout() if isinstance(link._socket, socket.socket) else link._socket._receive_seconds
        assert limit == PATIENCE
        link._socket.settimeout(0.2)
        with pytest.raises(Silent):
            link.receive()
        link.close()


def test_addresses() -> None:
    """In brackets, too; an address that is none, or that nobody listens at, is an error of its own."""
    machine = RealMachine(socket.socket(), PATIENCE, NODE)
    with pytest.raises(NobodyListens):
        machine.connect(f"127.0.0.1:{free_port()}", PATIENCE)
    for address in ("127.0.0.1", "127.0.0.1:x", "a..b:1"):
        with pytest.raises(LinkError, match="cannot be reached"):
            machine.connect(address, PATIENCE)
    with socket.create_server(("127.0.0.1", 0)) as bound:
        machine.connect(f"[127.0.0.1]:{bound.getsockname()[1]}", PATIENCE).close()


# -- other secrets --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accepting", "connecting"),
    [
        (NODE, Credentials("c", SECRET + "!")),
        (NODE, Credentials("c")),
        (Credentials("c"), NODE),
        (NODE, Credentials("d", SECRET)),
    ],
    ids=["wrong", "none", "none here", "other cluster"],
)
def test_another_secret(accepting: Credentials, connecting: Credentials, caplog: pytest.LogCaptureFixture) -> None:
    """The node that connects is told; the other one says so once, however often that is."""
    with listening(accepting) as node:
        for _ in range(3):
            refused(node, connecting, DIFFERS)
        wait_until(lambda: bool(warnings_of(caplog)))
        link = connect(node, accepting)
        link.authenticate()
        link.close()
    (warning,) = warnings_of(caplog)
    assert "node refused" in warning
    assert "127.0.0.1" in warning
    assert "cluster.secret differs" in warning
    assert SECRET not in caplog.text


def test_an_impostor_that_accepts() -> None:
    """A listener that lets everybody in, without a proof of its own or with the one it was sent, is found out."""

    def pretend(bound: socket.socket) -> None:
        connection, _ = bound.accept()
        with connection:
            connection.sendall(greeting(bytes(NONCE_BYTES)))
            received = b""
            while len(received) < 72:
                received += connection.recv(72)
            connection.sendall(received[-32:])
            connection.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as bound:
        threading.Thread(target=pretend, args=(bound,), daemon=True).start()
        link = RealMachine(socket.socket(), PATIENCE, NODE).connect(f"127.0.0.1:{bound.getsockname()[1]}", PATIENCE)
        with pytest.raises(Refusal, match=DIFFERS):
            link.authenticate()
        link.close()


def test_a_refusal_in_place_of_the_proof_of_the_node_that_connects() -> None:
    """The bytes that say no are no proof."""
    with listening() as node, node.plain() as stranger:
        stranger.sendall(greeting(bytes(NONCE_BYTES)) + bytes(32))
        assert until_closed(stranger)[40:] == bytes(32)
        assert not node.served


# -- strangers ------------------------------------------------------------------------------------------------------


@both
def test_garbage(nodes: tuple[Credentials, Credentials], caplog: pytest.LogCaptureFixture) -> None:
    """Whatever comes instead of a greeting and a proof, the connection is closed and nothing of it is served."""
    chance = random.Random(1)  # noqa: S311 - a seed makes a case
    hello = (10).to_bytes(4) + bytes([HELLO]) + b"x" * 10
    pieces = [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        hello,
        b"AMQP\x00\x00\x09\x01",
        MAGIC[:-1] + b"\x07" + bytes(NONCE_BYTES),
        greeting(bytes(NONCE_BYTES)) + hello + bytes(100),
        b"\x16\x03\x01\xff\xff" + bytes(100_000),
        *(chance.randbytes(chance.randrange(100, 5_000)) for _ in range(effort(50))),
    ]
    with listening(nodes[0]) as node:
        for piece in pieces:
            with node.plain() as stranger:
                # It may be closed already.
                with suppress(OSError):
                    stranger.sendall(piece)
                    stranger.shutdown(socket.SHUT_WR)
                # A greeting and a refusal, or an alert, but no more.
                assert len(until_closed(stranger)) <= 40 + 32
        link = connect(node, nodes[1])
        link.authenticate()
        wait_until(lambda: len(node.served) == 1)
        link.close()
    # All came from one address.
    assert len(warnings_of(caplog)) == 1


@both
def test_strangers_that_send_little_or_nothing(nodes: tuple[Credentials, Credentials]) -> None:
    """The time until the proof is bounded as a whole: a byte now and then does not lengthen it."""
    with listening(nodes[0], silence=0.5) as node:
        with node.plain() as stranger:
            until_closed(stranger)
        with node.plain() as stranger:
            sent = 0
            with suppress(ConnectionError):
                for byte in (
                    greeting(bytes(NONCE_BYTES)) + bytes(31) if nodes[0].tls is None else b"\x16\x03\x01\x10" * 20
                ):
                    stranger.sendall(bytes([byte]))
                    sent += 1
                    time.sleep(0.1)
            assert sent < 60
        assert not node.served


def test_strangers_that_leave(caplog: pytest.LogCaptureFixture) -> None:
    """A connection that is closed at once, as health checks do, is not worth a line."""
    with listening() as node:
        for _ in range(5):
            node.plain().close()
        link = connect(node)
        link.authenticate()
        link.close()
    assert warnings_of(caplog) == []


@both
def test_many_strangers(nodes: tuple[Credentials, Credentials], caplog: pytest.LogCaptureFixture) -> None:
    """They use a bounded number of threads, and do not keep a node out: the oldest of them goes."""

    def threads() -> int:
        return sum(thread.name == "flintmq-follower" for thread in threading.enumerate())

    with listening(nodes[0], silence=3_600) as node, ExitStack() as kept:
        before = threads()
        strangers = [kept.enter_context(node.plain()) for _ in range(3 * CLUSTER_UNAUTHENTICATED_MAX)]
        link = connect(node, nodes[1])
        link.authenticate()
        link.send_parts(1, [b"x"])
        assert link.receive()[0] == 1
        # Threads that have just left are counted for a moment.
        wait_until(lambda: threads() - before <= CLUSTER_UNAUTHENTICATED_MAX + 1)
        for stranger in strangers[: 2 * CLUSTER_UNAUTHENTICATED_MAX + 1]:
            until_closed(stranger)
        strangers[-1].setblocking(False)
        with suppress(BlockingIOError):
            assert strangers[-1].recv(100)
        link.close()
        node.close()
        # Nobody of them is waited for when the node ends.
        wait_until(lambda: threads() <= before)
    assert warnings_of(caplog) == []


# -- certificates ---------------------------------------------------------------------------------------------------


def test_a_secret_of_another_cluster_inside_tls(authority: trustme.CA, tmp_path: Path) -> None:
    """A certificate does not replace the secret."""
    tls = _tls(authority, tmp_path, "a").tls
    with listening(Credentials("c", SECRET, tls)) as node:
        refused(node, Credentials("c", SECRET + "!", tls), DIFFERS)


def test_a_certificate_of_another_authority(
    authority: trustme.CA, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of either side: both say which certificate is not accepted, and why."""
    other = trustme.CA()
    ours = _tls(authority, tmp_path, "ours")
    with listening(ours) as node:
        refused(node, _tls(other, tmp_path, "theirs", trusts=authority), r"does not accept the certificate of this one")
        wait_until(lambda: bool(warnings_of(caplog)))
        assert "the certificate of the other node is not accepted" in warnings_of(caplog)[0]
    caplog.clear()
    with listening(ours) as node:
        refused(
            node, _tls(authority, tmp_path, "others", trusts=other), r"the certificate of the other node is not acc"
        )
        wait_until(lambda: bool(warnings_of(caplog)))
        assert "does not accept the certificate of this one" in warnings_of(caplog)[0]


def test_tls_on_one_side_only(authority: trustme.CA, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Both sides say so at once."""
    tls = _tls(authority, tmp_path, "a")
    for accepting, connecting, here, there in (
        (NODE, tls, "this node uses TLS, the other one does not", "the other node uses TLS, this one does not"),
        (tls, NODE, "the other node uses TLS, this one does not", "this node uses TLS, the other one does not"),
    ):
        caplog.clear()
        with listening(accepting) as node:
            refused(node, connecting, here)
            wait_until(lambda: bool(warnings_of(caplog)))
            assert there in warnings_of(caplog)[0]


def test_a_reason_arrives(authority: trustme.CA, tmp_path: Path) -> None:
    """A node that is refused can still send, and reads why: its connection is not reset before."""
    context = ssl.create_default_context()
    context.check_hostname = False
    authority.configure_trust(context)
    trustme.CA().issue_cert("b").configure_cert(context)
    with listening(_tls(authority, tmp_path, "a")) as node, context.wrap_socket(node.plain()) as refused_one:
        # By now, the node has seen the certificate and sent its alert.
        assert select.select([refused_one], [], [], WAIT_SECONDS)[0]
        time.sleep(0.1)
        refused_one.sendall(greeting(bytes(NONCE_BYTES)))
        with pytest.raises(ssl.SSLError, match="UNKNOWN_CA"):
            refused_one.recv(1)


@pytest.mark.parametrize("maximum", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_strangers_with_tls(authority: trustme.CA, tmp_path: Path, maximum: ssl.TLSVersion) -> None:
    """Without a certificate they get no byte; TLS 1.2 is too old, even with one."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.maximum_version = maximum
    authority.configure_trust(context)
    if maximum is ssl.TLSVersion.TLSv1_2:
        authority.issue_cert("b").configure_cert(context)
    with listening(_tls(authority, tmp_path, "a")) as node, node.plain() as connection:

        def read() -> bytes:
            with context.wrap_socket(connection) as stranger:
                return stranger.recv(1)

        with pytest.raises(ssl.SSLError):
            read()
        assert not node.served


def _serial(link: TcpLink) -> str:
    """The number of the certificate of the other node."""
    certificate = link._socket._tls.getpeercert()  # type: ignore[union-attr]
    assert certificate is not None
    return str(certificate["serialNumber"])


def test_certificates_that_are_renewed(authority: trustme.CA, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The next connection uses the new files; if these cannot be used, the old ones stay, and one line says so."""
    ours, theirs = _tls(authority, tmp_path, "a"), _tls(authority, tmp_path, "b")
    with listening(ours) as node:
        seen = []
        for content in (None, authority.issue_cert("a").private_key_and_cert_chain_pem.bytes(), b"nothing"):
            if content is not None:
                (tmp_path / "new").write_bytes(content)
                (tmp_path / "new").rename(tmp_path / "a.pem")
            for _ in range(2):
                link = connect(node, theirs)
                link.authenticate()
                seen.append(_serial(link))
                link.close()
    assert seen[0] == seen[1] != seen[2]
    assert seen[2:] == [seen[2]] * 4
    (warning,) = warnings_of(caplog)
    assert "certificates of the node stay as they were" in warning
    assert "cluster.certificate" in warning


@pytest.mark.parametrize("name", ["certificate", "key", "ca"])
def test_files_that_cannot_be_used(authority: trustme.CA, tmp_path: Path, name: str) -> None:
    """An error at the start names the setting and the file."""
    _tls(authority, tmp_path, "a")
    (tmp_path / "broken.pem").write_text("nothing")
    files = {"certificate": tmp_path / "a.pem", "key": None, "ca": tmp_path / "a-ca.pem"}
    for file in (tmp_path / "broken.pem", tmp_path / "missing.pem"):
        with pytest.raises(ConfigurationError, match=rf"cluster\.{name} {file}"):
            credentials_of(ClusterSettings(name="c", secret=SECRET, **{**files, name: file}))  # type: ignore[arg-type]


# -- a connection for an event loop ---------------------------------------------------------------------------------


@both
def test_a_detached_connection(nodes: tuple[Credentials, Credentials]) -> None:
    """It goes on behind the last message, over an event loop on both sides; what ends one side ends the other one."""
    given: list[socket.socket] = []
    arrived = threading.Event()

    def serve(link: Link) -> None:
        assert isinstance(link, TcpLink)
        assert link.receive()[0] == 1
        given.append(link.detach())
        # As whoever serves a link does at its end.
        link.close()
        arrived.set()

    async def send_back(connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while data := await loop.sock_recv(connection, 1 << 16):
            await loop.sock_sendall(connection, data)
        connection.close()

    async def run(ours: socket.socket, theirs: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        serving = loop.create_task(send_back(theirs))
        for size in (1, 100_000, 3_000_000):
            sent = os.urandom(size)
            sending = loop.create_task(loop.sock_sendall(ours, sent))
            received = b""
            while len(received) < size:
                received += await loop.sock_recv(ours, 1 << 20)
            await sending
            assert received == sent
        ours.close()
        async with asyncio.timeout(WAIT_SECONDS):
            await serving

    def pumps() -> int:
        return sum(thread.name.startswith("flintmq-tls") for thread in threading.enumerate())

    with listening(nodes[0], serve=serve) as node:
        link = connect(node, nodes[1])
        link.authenticate()
        link.send_parts(1, [])
        ours = link.detach()
        assert arrived.wait(WAIT_SECONDS)
        assert ours.gettimeout() == given[0].gettimeout() == 0
        # Silence is the business of whoever has it now.
        assert isinstance(link._socket, socket.socket) or link._socket._receive_seconds is None
        assert pumps() == (0 if nodes[0].tls is None else 4)
        asyncio.run(run(ours, given[0]))
        wait_until(lambda: pumps() == 0)


def test_a_detached_connection_ends_with_the_network(authority: trustme.CA, tmp_path: Path) -> None:
    """If the other node goes, the event loop reads the end, and no thread stays, even if it takes nothing."""
    detached: list[socket.socket] = []
    links: list[TcpLink] = []

    def serve(link: Link) -> None:
        assert isinstance(link, TcpLink)
        links.append(link)

    def pumps() -> int:
        return sum(thread.name.startswith("flintmq-tls") for thread in threading.enumerate())

    with listening(_tls(authority, tmp_path, "a"), serve=serve) as node:
        link = connect(node, _tls(authority, tmp_path, "b"))
        link.authenticate()
        detached.append(link.detach())
        wait_until(lambda: bool(links))
        with suppress(BlockingIOError):
            while True:
                detached[0].send(bytes(1 << 16))
        links[0].close()
        wait_until(lambda: pumps() == 0)
        detached[0].setblocking(True)
        with suppress(ConnectionResetError):
            assert detached[0].recv(1) == b""
        detached[0].close()
