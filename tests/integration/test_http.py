"""The HTTP API of a broker that runs: over sockets, beside AMQP, and what strangers may take of it."""

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pika
import pytest
import trustme

import flintmq.client as fc
from flintmq.base.limits import HTTP_HEAD_MAX_BYTES, HTTP_HEAD_SECONDS
from tests.servers import BrokerProcess

GUEST = ("guest", "guest")


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def broker(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("http")
    authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
        directory / "server.pem"
    )
    settings: dict[str, Any] = {"FLINTMQ_TLS_CERTIFICATE": str(directory / "server.pem"), "FLINTMQ_TLS_PORT": "0"}
    with BrokerProcess(directory / "data", **settings) as running:
        yield running
        assert running.stop() == 0


def _socket(broker: BrokerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", broker.http_port), timeout=HTTP_HEAD_SECONDS + 60)


def test_the_api_answers(broker: BrokerProcess) -> None:
    """A user logs in, and sees what the broker listens on."""
    with httpx.Client(base_url=broker.http_url, auth=GUEST, timeout=60) as client:
        assert client.get("/api/whoami").json()["name"] == "guest"
        listeners = client.get("/api/overview").json()["listeners"]
        assert client.get("/api/whoami", auth=("guest", "wrong")).status_code == 401
    ports = {each["protocol"]: each["port"] for each in listeners}
    assert set(ports) == {"amqp", "amqp/ssl", "http", "https"}
    assert (ports["amqp"], ports["http"]) == (broker.port, broker.http_port)


def test_consumers(broker: BrokerProcess) -> None:
    """Which of several on a single-active-consumer queue it is, how long it may hold a message, and only to its own
    user or those who monitor.
    """
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    arguments = {"x-single-active-consumer": True, "x-consumer-timeout": 60_000}
    with httpx.Client(base_url=broker.http_url, auth=GUEST, timeout=60) as client:
        user = {"password": "other", "tags": "management", "permissions": {"/": everything}}
        assert client.put("/api/users/other", json=user).status_code == 201
        with closing(pika.BlockingConnection(pika.URLParameters(broker.url))) as connection:
            channel = connection.channel()
            channel.queue_declare("http-single", durable=True, arguments=arguments)
            channel.queue_declare("http-plain", durable=True)
            for queue, tag in (("http-single", "1"), ("http-single", "2"), ("http-plain", "3")):
                channel.basic_consume(queue, lambda *_: None, consumer_tag=tag)
            told = {each["consumer_tag"]: each for each in client.get("/api/consumers/%2F").json()}
            assert [told[tag]["activity_status"] for tag in "123"] == ["single_active", "waiting", "up"]
            assert [told[tag]["active"] for tag in "123"] == [True, False, True]
            assert [told[tag]["consumer_timeout"] for tag in "123"] == [60_000, 60_000, 0]
            for path in ("/api/consumers", "/api/consumers/%2F"):
                assert client.get(path, auth=("other", "other")).json() == []
        for queue in ("http-single", "http-plain"):
            client.delete(f"/api/queues/%2F/{queue}")


def test_who_may_end_a_connection(broker: BrokerProcess) -> None:
    """Its user and administrators; who monitors sees it, and others are not told of it."""
    with httpx.Client(base_url=broker.http_url, auth=GUEST, timeout=60) as client:
        for tag in ("monitoring", "management"):
            client.put(f"/api/users/{tag}", json={"password": tag, "tags": tag}).raise_for_status()
        permissions = {"configure": "", "write": "", "read": ""}
        client.put("/api/permissions/%2F/management", json=permissions).raise_for_status()
        with fc.connect(broker.url):
            (connection,) = client.get("/api/connections").json()
            path = f"/api/connections/{quote(connection['name'])}"
            assert client.get(path, auth=("monitoring", "monitoring")).json()["user"] == "guest"
            for where in (path, "/api/connections/username/guest"):
                refused = client.delete(where, auth=("monitoring", "monitoring"))
                assert (refused.status_code, refused.json()["error"]) == (401, "not_authorised")
            assert client.delete(path, auth=("management", "management")).status_code == 404
            assert (
                client.delete("/api/connections/username/guest", auth=("management", "management")).status_code == 401
            )
            assert client.get(path).status_code == 200
        own = broker.url.replace("guest:guest", "management:management")
        mine = pika.BlockingConnection(pika.URLParameters(own))
        (connection,) = client.get("/api/connections/username/management").json()
        path = f"/api/connections/{quote(connection['name'])}"
        assert client.delete(path, auth=("management", "management")).status_code == 204
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
            mine.process_data_events(60)
        for tag in ("monitoring", "management"):
            client.delete(f"/api/users/{tag}")


def test_a_stream_that_is_read_by_ranges(broker: BrokerProcess) -> None:
    """Its bytes are those of its files, after a restart as well, and ranges that were read are told of."""
    with fc.connect(broker.url) as connection, connection.channel(confirms=True) as channel:
        channel.declare_queue("http-stream", arguments={"x-queue-type": "stream"})
        channel.publish_batch([("", "http-stream", b"x" * 1000) for _ in range(50)])
        channel.stream_fetch("http-stream", 10, 30)
    with httpx.Client(base_url=broker.http_url, auth=GUEST, timeout=60) as client:
        stream = client.get("/api/streams/%2F/http-stream").json()
    (file,) = broker.data.glob("streams/*/*.stream")
    assert stream["message_bytes"] == file.stat().st_size > 50_000
    assert (stream["segments"], stream["consumers"], stream["fetched_offset"]) == (1, 0, 30)
    assert stream["message_stats"]["deliver_get"] == 20
    broker.restart()
    with httpx.Client(base_url=broker.http_url, auth=GUEST, timeout=60) as client:
        stream = client.get("/api/streams/%2F/http-stream").json()
    assert stream["message_bytes"] == file.stat().st_size
    assert stream["fetched_offset"] is None


def test_tls(broker: BrokerProcess, authority: trustme.CA) -> None:
    """The same certificate, and browsers are told to stay with it."""
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    url = broker.wait_for_log("listening", matches=lambda line: "https" in line)["https"]
    response = httpx.get(f"{url}/api/whoami", auth=GUEST, verify=trusting, timeout=60)
    assert response.json()["name"] == "guest"
    assert "strict-transport-security" in response.headers


@pytest.mark.parametrize("head", [b"GET /" + b"a" * 500_000, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 100_000])
def test_a_head_without_end(broker: BrokerProcess, head: bytes) -> None:
    """A stranger cannot make us gather headers."""
    assert len(head) > HTTP_HEAD_MAX_BYTES
    with closing(_socket(broker)) as stranger:
        try:
            stranger.sendall(head)
            ended = stranger.recv(1) == b""
        except ConnectionError:
            ended = True
    assert ended


def test_a_head_that_drips(broker: BrokerProcess) -> None:
    """Nor hold a socket: a request has to begin within the seconds that a handshake of AMQP has."""
    began = time.monotonic()
    with closing(_socket(broker)) as stranger, closing(_socket(broker)) as silent:
        stranger.sendall(b"GET /api/whoami HTTP/1.1\r\nhost:")
        assert _ends(stranger)
        assert _ends(silent)
    assert HTTP_HEAD_SECONDS - 1 < time.monotonic() - began < HTTP_HEAD_SECONDS + 60


def _ends(stranger: socket.socket) -> bool:
    try:
        return stranger.recv(1) == b""
    except ConnectionError:
        return True


def test_a_refused_login_ends_the_connection(broker: BrokerProcess) -> None:
    """Who has not logged in keeps no socket, and sends no body."""
    with closing(_socket(broker)) as stranger:
        stranger.sendall(b"GET /api/overview HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000000\r\n\r\n")
        received = b""
        while part := stranger.recv(65_536):
            received += part
    assert received.startswith(b"HTTP/1.1 401 ")


def test_a_taken_port_is_named(broker: BrokerProcess, tmp_path: Path) -> None:
    """A broker whose API cannot listen does not start, says which setting it is about, and has read no journal."""
    second = BrokerProcess(tmp_path / "data")
    second.start()
    second.stop()
    second = BrokerProcess(tmp_path / "data", FLINTMQ_MANAGEMENT_PORT=str(broker.http_port))
    second.launch()
    assert second.ended() == 1
    assert any("management.port" in each["event"] for each in second.log)
    assert not any(each["event"] == "recovered" for each in second.log)


def test_it_can_be_left_out(tmp_path: Path) -> None:
    """No port is opened where it is not enabled."""
    with BrokerProcess(tmp_path / "data", FLINTMQ_MANAGEMENT_ENABLED="false") as quiet:
        assert quiet.stop() == 0
        assert not any("http" in line for line in quiet.log)


def test_strangers_write_nothing_into_the_log(broker: BrokerProcess) -> None:
    """What is no HTTP is closed without a word: the log is for what happens to the broker."""
    with closing(_socket(broker)) as stranger:
        stranger.sendall(b"what is this?\r\n\r\n")
        assert stranger.recv(65_536).startswith(b"HTTP/1.1 400 ")
    httpx.get(f"{broker.http_url}/api/whoami", auth=GUEST, timeout=60)
    assert not any("Invalid HTTP" in str(line) or "Traceback" in str(line) for line in broker.log)


def test_logins_are_counted(broker: BrokerProcess) -> None:
    """Those of both protocols and of the API, right and wrong ones."""
    with httpx.Client(base_url=broker.http_url, auth=GUEST, timeout=60) as client:
        node = client.get("/api/overview").json()["node"]
        path = f"/api/auth/attempts/{node}"
        client.delete(path)
        for password in ("guest", "wrong"):
            credentials = pika.PlainCredentials("guest", password)
            parameters = pika.ConnectionParameters("127.0.0.1", broker.port, credentials=credentials)
            with suppress(pika.exceptions.AMQPError), closing(pika.BlockingConnection(parameters)):
                pass
        told = {each["protocol"]: each for each in client.get(path).json()}
    assert (told["amqp091"]["auth_attempts_succeeded"], told["amqp091"]["auth_attempts_failed"]) == (1, 1)
    assert told["amqp10"]["auth_attempts"] == 0
    assert told["http"]["auth_attempts_succeeded"] >= 1
