"""Users of the HTTP API who take what others need: its sockets, and memory for what they declare and publish."""

import base64
import json
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import httpx
import pika
import pytest

from flintmq.base.limits import ARGUMENTS_MAX_BYTES, HTTP_CONNECTIONS_MAX, HTTP_USER_CONNECTIONS_MAX
from tests.servers import BrokerProcess
from tests.waiting import WAIT_SECONDS

GUEST = ("guest", "guest")
GREEDY = ("greedy", "greedy")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """With a user who may manage, and do anything in the virtual host."""
    with BrokerProcess(tmp_path_factory.mktemp("greed") / "data") as running:
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        user = {"password": GREEDY[1], "tags": "management", "permissions": {"/": everything}}
        httpx.put(f"{running.http_url}/api/users/greedy", auth=GUEST, json=user, timeout=60).raise_for_status()
        yield running


def _asked(broker: BrokerProcess, path: str) -> socket.socket:
    """A socket by which the greedy user has asked for something, and was answered; it is kept."""
    login = base64.b64encode(":".join(GREEDY).encode()).decode()
    kept = socket.create_connection(("127.0.0.1", broker.http_port), timeout=60)
    kept.sendall(f"GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Basic {login}\r\n\r\n".encode())
    answer = b""
    while not answer.endswith(b"}"):
        part = kept.recv(65_536)
        assert part, answer
        answer += part
    assert answer.startswith(b"HTTP/1.1 200 ")
    return kept


def _is_closed(kept: socket.socket) -> bool:
    """Whether the server has closed it; nothing else comes there any more."""
    return bool(select.select([kept], [], [], 0)[0])


def test_sockets_that_are_kept(broker: BrokerProcess) -> None:
    """More than there are, all of one user: administrators and Prometheus get in as if nothing were, and of the user's
    own the idlest go.
    """
    with ExitStack() as stack:
        kept = [stack.enter_context(closing(_asked(broker, "/api/whoami"))) for _ in range(HTTP_CONNECTIONS_MAX + 20)]
        for path in ("/api/overview", "/metrics", "/api/health/checks/alarms"):
            assert httpx.get(f"{broker.http_url}{path}", auth=GUEST, timeout=60).status_code == 200
        gone = len(kept) - HTTP_USER_CONNECTIONS_MAX
        deadline = time.monotonic() + WAIT_SECONDS
        while sum(map(_is_closed, kept)) < gone:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_arguments(broker: BrokerProcess) -> None:
    """No queue and no binding has more of them than a frame of AMQP holds, over HTTP as over AMQP."""
    large = {"x-large": "x" * (19 * 1024 * 1024)}
    for method, path, body in (
        ("PUT", "/api/queues/%2F/large", {"durable": True, "arguments": large}),
        ("POST", "/api/bindings/%2F/e/amq.topic/e/amq.fanout", {"arguments": large}),
        ("POST", "/api/bindings/%2F/e/amq.topic/e/amq.fanout", {"arguments": {"x": "x" * ARGUMENTS_MAX_BYTES}}),
    ):
        refused = httpx.request(method, f"{broker.http_url}{path}", auth=GREEDY, json=body, timeout=60)
        assert (refused.status_code, "larger than the limit of" in refused.json()["reason"]) == (400, True)


@pytest.mark.parametrize("persistent", [False, True])
def test_messages_that_nobody_could_be_sent(broker: BrokerProcess, persistent: bool) -> None:
    """They are refused at once, whatever of them is too long, and consumers go on."""
    with closing(pika.BlockingConnection(pika.URLParameters(broker.url))) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queue, "amq.fanout")
        mode = {"delivery_mode": 2 if persistent else 1}
        for changed in (
            {"routing_key": "k" * 256},
            {"routing_key": "k" * 40_000},
            {"properties": {**mode, "headers": {"h" * 256: 1}}},
            {"properties": {**mode, "headers": {"h": "x" * 300_000}}},
            {"properties": {**mode, "message_id": "m" * 256}},
        ):
            message = {"routing_key": "", "payload": "", "payload_encoding": "string", "properties": mode, **changed}
            refused = httpx.post(
                f"{broker.http_url}/api/exchanges/%2F/amq.fanout/publish",
                auth=GREEDY,
                content=json.dumps(message),
                timeout=60,
            )
            assert refused.status_code == 400, refused.text
        channel.basic_publish("amq.fanout", "", b"behind")
        for method, _, body in channel.consume(queue, auto_ack=True, inactivity_timeout=60):
            assert method is not None
            assert body == b"behind"
            break
