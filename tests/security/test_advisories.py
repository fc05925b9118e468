"""One test for each class of attack that brokers were found to be open to; tests/hostile has those on AMQP 0-9-1."""

import ast
import json
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

import httpx
import pika
import pytest

from flintmq.base.addresses import is_loopback, network
from flintmq.broker.access.user import User
from flintmq.broker.ports import UserRecord
from flintmq.server.auth import Authenticator
from flintmq.wire.amqp091.methods import QueueBind, QueueDeclare
from tests.hostile.test_greed import resident_bytes
from tests.servers import BrokerProcess
from tests.sockets import AmqpSocket
from tests.unit.gateway.amqp091.pair import Client, Server
from tests.unit.management.fake_node import Api

GUEST: Final = ("guest", "guest")
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
SOURCES: Final = Path(__file__).parents[2] / "src"
# What one stranger may make a broker take for a moment; anything that is amplified takes a hundred times that.
MEMORY_MAX_BYTES: Final = 64 * 1024 * 1024


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("advisories") / "data") as running:
        yield running
        assert running.stop() == 0


def _sasl_frame(body: bytes) -> bytes:
    """sasl-init (0x41) with these fields."""
    payload = b"\x00\x53\x41" + body
    return struct.pack(">IBBH", len(payload) + 8, 2, 1, 0) + payload


def _list(count: int, fields: bytes) -> bytes:
    return b"\xd0" + struct.pack(">II", len(fields) + 4, count) + fields


def _array(count: int, constructor: bytes, elements: bytes = b"") -> bytes:
    return b"\xf0" + struct.pack(">II", len(constructor) + len(elements) + 4, count) + constructor + elements


STRANGE_SASL: Final = {
    # Empty lists, nulls and booleans take no bytes in an array: four billion of them are twenty bytes.
    "zero-width lists": _sasl_frame(_list(1, _array(0xFFFF_FFFF, b"\x45"))),
    "zero-width nulls": _sasl_frame(_list(1, _array(0x7FFF_FFFF, b"\x40"))),
    "zero-width booleans": _sasl_frame(_list(1, _array(50_000_000, b"\x41"))),
    "arrays of zero-width arrays": _sasl_frame(_list(1, _array(1, b"\xf0", _array(0x00FF_FFFF, b"\x45")[1:]))),
    "nested lists": _sasl_frame(_list(1, b"\xc0\xff\x01" * 120)),
    "nested descriptions": _sasl_frame(_list(1, b"\x00" * 400 + b"\x40")),
    "nested descriptors of an array": _sasl_frame(_list(1, _array(1, b"\x00" * 400 + b"\x40"))),
    "a list of more than there is": _sasl_frame(b"\xd0\xff\xff\xff\xff\xff\xff\xff\xff"),
    "a text longer than the frame": _sasl_frame(_list(1, b"\xb3\x7f\xff\xff\xff")),
    "bytes of a negative length": _sasl_frame(_list(2, b"\xa3\x05PLAIN\xb0\xff\xff\xff\xff")),
    "a frame of four gigabytes": struct.pack(">IBBH", 0xFFFF_FFFF, 2, 1, 0),
    "a frame of no size": struct.pack(">IBBH", 0, 2, 1, 0),
    "a frame that begins behind its end": struct.pack(">IBBH", 16, 255, 1, 0) + bytes(8),
}


@pytest.mark.parametrize("said", STRANGE_SASL.values(), ids=STRANGE_SASL.keys())
def test_what_a_stranger_says_in_amqp_10(broker: BrokerProcess, said: bytes) -> None:
    """No length, count or depth is believed: the connection ends, and next to nothing was taken for it."""
    before = resident_bytes(broker.process.pid)
    with socket.create_connection(("127.0.0.1", broker.port), 30) as stranger:
        stranger.sendall(SASL_HEADER + said)
        while stranger.recv(65_536):
            pass
    assert resident_bytes(broker.process.pid) - before < MEMORY_MAX_BYTES
    with closing(pika.BlockingConnection(pika.URLParameters(broker.url))):
        pass


@pytest.mark.parametrize(
    "pattern",
    [".".join(["#"] * 120), ".".join(["#"] * 3 + ["*"] * 60), ".".join(["#", "a"] * 60), "#.a.#.a.#.a.#.a.#.b"],
    ids=len,
)
def test_hashes_by_the_hundred(pattern: str) -> None:
    """A pattern of many `#` is refused, or is as quick to match as any: a long key decides in no time."""
    server = Server()
    channel = Client(server).channel()
    channel.call(QueueDeclare(queue="q"))
    channel.call(QueueBind(queue="q", exchange="amq.topic", routing_key=pattern))
    if not channel.channel.is_open:
        assert "406" in str(channel.closed) or "PRECONDITION" in str(channel.closed)
        return
    began = time.process_time()
    for number in range(20):
        channel.publish("m", f"{'a.' * 120}{number}", "amq.topic")
    # Backtracking over it takes longer than there is time; nothing else takes a second.
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "address",
    [
        "",
        "localhost",
        "127.0.0.1.example.org",
        "127.1",
        "0x7f.0.0.1",
        "2130706433",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "0.0.0.0",
        "10.127.0.0.1",
        "127.0.0.1, 10.0.0.1",
    ],
)
def test_addresses_that_resemble_this_machines(address: str) -> None:
    """Who everybody knows the password of comes from this machine, and from nowhere that is written like it."""
    checker = Authenticator({"guest": User(UserRecord("guest", ""))}, frozenset({"guest"}))
    assert not is_loopback(address)
    assert "may only log in from this machine" in checker.refusal("guest", address)
    checker.close()


def test_addresses_of_this_machine() -> None:
    """Those that are, however they are written; and who is taken for one address."""
    assert all(is_loopback(address) for address in ("127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"))
    assert network("2001:db8::1") == network("2001:db8::ffff:1") != network("2001:db8:0:1::1")
    assert network("::ffff:10.0.0.1") == "10.0.0.1"


def test_whoever_says_that_it_is_somebody_else(broker: BrokerProcess) -> None:
    """The address is the socket's: a PROXY header is no protocol of ours, and headers of HTTP say nothing of it."""
    with AmqpSocket(broker.port) as stranger:
        stranger.send(b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\nAMQP\x00\x00\x09\x01")
        assert stranger.read(8).startswith(b"AMQP")
    api = Api(address="192.0.2.1")
    api.node.allows_clear_text = True
    api.user("guest", "administrator")
    for header in ("x-forwarded-for", "x-real-ip", "forwarded", "x-client-ip", "true-client-ip"):
        said = {header: "for=127.0.0.1" if header == "forwarded" else "127.0.0.1"}
        assert api.get("/api/whoami", by="guest", headers=said).status_code == 401


MARKUP: Final = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&{{7*7}}${7*7}%s%n"


def test_names_that_are_markup(broker: BrokerProcess) -> None:
    """A name is a text in JSON wherever it is shown, and nothing that is answered may be taken for a page."""
    with closing(pika.BlockingConnection(pika.URLParameters(broker.url))) as connection:
        channel = connection.channel()
        channel.queue_declare(MARKUP, arguments={"x-max-length": 7})
        channel.exchange_declare(MARKUP, "topic")
        channel.queue_bind(MARKUP, MARKUP, MARKUP)
        with httpx.Client(base_url=broker.http_url, auth=GUEST, timeout=60) as client:
            name = quote(MARKUP, safe="")
            for path in (
                "queues",
                "exchanges",
                "bindings",
                f"queues/%2F/{name}",
                f"exchanges/%2F/{name}",
                f"nowhere/{name}",
                f"queues/%2F/{name}x",
            ):
                response = client.get(f"/api/{path}")
                assert response.headers["content-type"].startswith("application/json"), path
                assert response.headers["x-content-type-options"] == "nosniff"
                assert "default-src" in response.headers["content-security-policy"]
                assert "unsafe" not in response.headers["content-security-policy"]
                json.loads(response.text)
            found = client.get(f"/api/queues/%2F/{name}").json()
            assert found["name"] == MARKUP
            assert client.get("/").headers["x-frame-options"].upper() in ("DENY", "SAMEORIGIN")
        channel.queue_delete(MARKUP)
        channel.exchange_delete(MARKUP)


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd",
        "/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/..%2f..%2f..%2fetc%2fpasswd",
        "//etc/passwd",
        "/ui/../../auth.py",
        "/vendor/..%5c..%5capp.py",
        "/%00",
        "/app.js%00.html",
        "/....//....//etc/passwd",
        "/%c0%ae%c0%ae/etc/passwd",
    ],
)
def test_paths_that_lead_elsewhere(broker: BrokerProcess, path: str) -> None:
    """Only files that are served are, by their exact names."""
    with socket.create_connection(("127.0.0.1", broker.http_port), 30) as browser:
        browser.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: browser.recv(65_536), b""))
    status = int(answer.split()[1])
    assert status in (400, 401, 404)
    assert b"root:" not in answer
    assert b"import " not in answer


@pytest.mark.parametrize("origin", ["https://evil.example", "null"])
def test_pages_from_elsewhere(broker: BrokerProcess, origin: str) -> None:
    """They are not let see an answer, nor have anything done with what a browser knows."""
    with httpx.Client(base_url=broker.http_url, auth=GUEST, timeout=60) as client:
        for method in ("GET", "OPTIONS"):
            response = client.request(method, "/api/whoami", headers={"origin": origin})
            assert "access-control-allow-origin" not in response.headers
            assert "access-control-allow-credentials" not in response.headers
        forged = {"origin": origin, "sec-fetch-site": "cross-site", "content-type": "text/plain"}
        response = client.request("PUT", "/api/vhosts/forged", headers=forged, content=b"{}")
        assert 400 <= response.status_code < 500
        assert "forged" not in client.get("/api/vhosts").text


def test_json_that_is_nested_without_end(broker: BrokerProcess) -> None:
    """It is refused like any other that is none."""
    with httpx.Client(base_url=broker.http_url, auth=GUEST, timeout=60) as client:
        for content in (b"[" * 200_000, b'{"a":' * 100_000, b'{"arguments":' + b"[" * 50_000):
            response = client.put("/api/queues/%2F/nested", content=content)
            assert 400 <= response.status_code < 500


# What makes code or objects of bytes, by the names it is called by.
FORBIDDEN: Final = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "jsonpickle"}
CALLS: Final = {"eval", "exec", "compile", "__import__"}


def test_nothing_is_run_that_came_in() -> None:
    """The broker loads nothing that makes code or objects of bytes; Spark's side is a client."""
    found = []
    for file in SOURCES.rglob("flintmq/**/*.py"):
        if "spark" in file.parts:
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found += [f"{file}: {each.name}" for each in node.names if each.name.partition(".")[0] in FORBIDDEN]
            elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in FORBIDDEN:
                found.append(f"{file}: {node.module}")
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
                found.append(f"{file}:{node.lineno}: {node.func.id}")
    assert not found, found
