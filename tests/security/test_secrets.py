"""Secrets that are planted wherever there is one, and then looked for in all that a broker says."""

import base64
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty

import httpx
import pika
import pytest

from flintmq.wire.amqp091.frames import PROTOCOL_HEADER
from tests.collector import Collector
from tests.hostile.test_strangers import start_ok
from tests.servers import BrokerProcess
from tests.sockets import AmqpSocket
from tests.tokens import Issuer

ADMIN = "planted-of-the-administrator"
CONFIGURED = "planted-in-the-settings"
GIVEN = "planted-by-the-api"
WRONG = "planted-and-wrong"
RENEWED = "planted-by-update-secret"
UNREAD = "planted-where-nobody-reads-it"
GET = {"count": 100, "ackmode": "ack_requeue_false", "encoding": "auto"}
PLANTED = (ADMIN, CONFIGURED, GIVEN, WRONG, RENEWED, UNREAD)


@dataclass
class World:
    """`said` is all that the API answered, and what the firehose copied."""

    broker: BrokerProcess
    audit: Path
    token: str
    said: list[str]
    collector: Collector
    spans: str = ""

    def receive_spans(self) -> None:
        """All that the collector gets until the broker has stopped, as the text that is in it."""
        self.broker.stop()
        requests: list[bytes] = []
        with suppress(Empty):
            while True:
                requests.append(self.collector.requests.get_nowait().SerializeToString())
        self.spans = b"\n".join(requests).decode(errors="replace")

    def ask(self, method: str, path: str, user: str = "admin", password: str = ADMIN, **arguments: object) -> int:
        with httpx.Client(base_url=self.broker.http_url, timeout=60) as client:
            response = client.request(method, path, auth=(user, password), **arguments)  # type: ignore[arg-type]
        self.said.append(f"{response.headers}\n{response.text}")
        return response.status_code

    @property
    def everything(self) -> str:
        log = json.dumps(self.broker.log)
        audit = self.audit.read_text() if self.audit.exists() else ""
        return "\n".join([log, audit, self.spans, *self.said])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("secrets")
    issuer = Issuer()
    keys = issuer.publish(directory / "jwks.json")
    audit = directory / "audit.log"
    collector = Collector()
    config = directory / "flintmq.toml"
    config.write_text(f"""
        [[users]]
        name = "admin"
        password = "{ADMIN}"
        tags = ["administrator"]
        [[users]]
        name = "configured"
        password = "{CONFIGURED}"
        [oauth]
        jwks = "{keys}"
        resource_server_id = "flintmq"
        [log]
        level = "debug"
        audit_file = "{audit}"
        [tracing]
        endpoint = "{collector.endpoint}"
        [[vhosts]]
        name = "/"
    """)
    token = issuer.token("tag:administrator", "read:*/*", "write:*/*", "configure:*/*")
    with BrokerProcess(directory / "data", "--config", str(config)) as broker:
        world = World(broker, audit, token, [], collector)
        broker.wait_for_log("spans are sent")
        # What is copied shows who was connected how, and with which message.
        world.ask("PUT", "/api/vhosts/%2F", json={"tracing": True})
        world.ask("PUT", "/api/queues/%2F/copies", json={"durable": True})
        world.ask("PUT", "/api/queues/%2F/used", json={"durable": True})
        world.ask("POST", "/api/bindings/%2F/e/amq.rabbitmq.trace/q/copies", json={"routing_key": "#"})
        _use(world)
        world.ask("POST", "/api/queues/%2F/copies/get", json=GET)
        world.receive_spans()
        yield world
    collector.close()


def _use(world: World) -> None:
    """Show each of them, in all the ways there are, right and wrong."""
    broker = world.broker
    url = f"amqp://%s:%s@127.0.0.1:{broker.port}/%%2f"
    shown = [("admin", ADMIN), ("configured", CONFIGURED), ("x", world.token), ("admin", WRONG), ("nobody", UNREAD)]
    for user, password in shown:
        with suppress(pika.exceptions.AMQPError):
            connection = pika.BlockingConnection(pika.URLParameters(url % (user, password)))
            channel = connection.channel()
            channel.basic_publish("", "used", user.encode())
            channel.basic_get("used", auto_ack=True)
            connection.update_secret(RENEWED, "renewed")
            connection.close()
    for response in (f"\0{UNREAD}".encode(), f"{UNREAD}\0\0\0\0".encode(), f"\xff{UNREAD}".encode("latin-1")):
        with AmqpSocket(broker.port) as client:
            client.send(PROTOCOL_HEADER, start_ok(b"", response))
    world.ask("PUT", "/api/users/given", json={"password": GIVEN, "tags": ""})
    world.ask("PUT", "/api/users/given", json={"password": GIVEN, "tags": 7, "more": UNREAD})
    world.ask("PUT", "/api/users/given", content=f'{{"password": "{GIVEN}", "tags": '.encode())
    for path in ("whoami", "overview", "users", "users/given", "nodes", "connections", "definitions", "nowhere"):
        world.ask("GET", f"/api/{path}")
        world.ask("GET", f"/api/{path}", "admin", WRONG)
        world.ask("GET", f"/api/{path}", "x", world.token)
        world.ask("GET", f"/api/{path}", "x", f"{world.token}{UNREAD}")
    world.ask("GET", "/metrics")
    with httpx.Client(base_url=broker.http_url, timeout=60) as browser:
        for header in (f"Basic {UNREAD}", f"Bearer {UNREAD}", f"Bearer {world.token}x", UNREAD):
            answer = browser.get("/api/whoami", headers={"authorization": header})
            world.said.append(f"{answer.headers}\n{answer.text}")


@pytest.mark.parametrize("secret", PLANTED)
def test_passwords_are_nowhere(world: World, secret: str) -> None:
    """Not in the log, at its most talkative, nor the audit log, an answer, a metric, a span, or copies of the firehose;
    not in base64 either.
    """
    everything = world.everything
    assert secret not in everything
    for encoded in (base64.b64encode(secret.encode()), secret.encode().hex().encode()):
        assert encoded.decode().rstrip("=") not in everything


def test_tokens_are_nowhere(world: World) -> None:
    """Nor the part of one that makes it good."""
    assert world.token not in world.everything
    assert world.token.rpartition(".")[2] not in world.everything


def test_they_were_used(world: World) -> None:
    """What was looked for was there to be found: users came in by them, and others did not."""
    everything = world.everything
    assert "connection opened" in everything
    assert "wrong password for user 'admin'" in everything
    assert '"anna"' in everything
    assert "given" in everything


def test_what_they_did_was_traced(world: World) -> None:
    """There is a copy and a span of what each of them published and got, which say who it was."""
    copies = world.said[-1]
    for key in ("publish.", "deliver.used"):
        assert copies.count(f'"routing_key":"{key}"') == 3
    for user in ("admin", "configured", "anna"):
        assert f'"user":"{user}"' in copies
        assert user in world.spans
    assert "deliver used" in world.spans
