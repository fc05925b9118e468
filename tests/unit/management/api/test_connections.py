"""Ownership of connections: an internal user and a token's user of the same name are different."""

from dataclasses import dataclass
from urllib.parse import quote

import httpx
import pytest

from flintmq.broker.access.bearer import Bearer
from flintmq.broker.access.scopes import Scopes
from flintmq.broker.ports import UserRecord
from flintmq.gateway.amqp091.connection import ServerConnection
from flintmq.gateway.gateway import LoginPolicy
from flintmq.gateway.login import MECHANISMS
from flintmq.wire.amqp091.methods import BasicConsume, QueueDeclare
from tests.unit.gateway.amqp091.pair import Client, Server
from tests.unit.management.fake_node import Api

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ1In0.c2lnbmF0dXJl"
RIGHTS = ("configure:*/*", "write:*/*", "read:*/*")
OURS, BY_TOKEN = "ours:1 -> broker:5672", "token:1 -> broker:5672"


@dataclass(eq=False)
class Line:
    """The socket of a connection."""

    connection: ServerConnection
    name: str
    local: str = "broker:5672"
    connected_ms: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0
    is_encrypted: bool = False
    is_slowed: bool = False

    def unsent_bytes(self) -> int:
        return 0


class Both:
    """Two connections of the name "u": one of our user, and one by a token. Both have a tag, and a consumer."""

    def __init__(self, tag: str) -> None:
        server = Server()
        server.gateway.policy = LoginPolicy(MECHANISMS, takes_tokens=True)
        server.broker.put_user(UserRecord("u", "secret", (tag,)))
        server.host.bearers[TOKEN] = Bearer("u", Scopes(RIGHTS), 2**40)
        self.api = Api()
        self.api.node.broker = server.broker
        self.api.node.bearers[TOKEN] = Bearer("u", Scopes((f"tag:{tag}", *RIGHTS)), 2**40)
        self.clients = {OURS: Client(server), BY_TOKEN: Client(server, password=TOKEN)}
        for name, client in self.clients.items():
            self.api.node.sockets.append(Line(client.connection, name.partition(" ")[0]))
            client.channel().call(QueueDeclare(queue=name), BasicConsume(queue=name, consumer_tag=name))

    def ask(self, method: str, path: str, by: str) -> httpx.Response:
        """`by` is whose connection has the one who asks."""
        headers = {"authorization": f"Bearer {TOKEN}" if by == BY_TOKEN else "Basic dTpzZWNyZXQ="}
        return self.api.request(method, path, by=None, headers=headers)

    @property
    def open(self) -> list[str]:
        return [name for name, client in self.clients.items() if not client.connection.is_closed]


@pytest.mark.parametrize(("by", "other"), [(OURS, BY_TOKEN), (BY_TOKEN, OURS)])
def test_a_namesake_sees_nothing(by: str, other: str) -> None:
    """A token's user sees neither the connections, channels and consumers of an internal user of its name, nor its
    limits.
    """
    both = Both("management")
    for path in ("connections", "connections/username/u", "vhosts/%2F/connections"):
        assert [each["name"] for each in both.ask("GET", f"/api/{path}", by).json()] == [by]
    assert [each["name"] for each in both.ask("GET", "/api/channels", by).json()] == [f"{by} (1)"]
    for path in ("consumers", "consumers/%2F"):
        assert [each["consumer_tag"] for each in both.ask("GET", f"/api/{path}", by).json()] == [by]
    for path in (f"connections/{other}", f"connections/{other}/channels", f"channels/{other} (1)"):
        assert both.ask("GET", f"/api/{quote(path)}", by).status_code == 404
    assert both.ask("GET", "/api/user-limits/u", by).status_code == (200 if by == OURS else 401)


@pytest.mark.parametrize(("by", "other"), [(OURS, BY_TOKEN), (BY_TOKEN, OURS)])
@pytest.mark.parametrize(("tag", "status"), [("management", 404), ("monitoring", 401)])
def test_a_namesake_ends_nothing(by: str, other: str, tag: str, status: int) -> None:
    """Not by the connection's name, and by the user's its own only; also where it may look at all of them."""
    both = Both(tag)
    assert both.ask("DELETE", f"/api/connections/{quote(other)}", by).status_code == status
    assert both.open == [OURS, BY_TOKEN]
    assert both.ask("DELETE", "/api/connections/username/u", by).status_code == 204
    assert both.open == [other]


def test_channels_are_counted_whosever_they_are() -> None:
    """Open channels of token users are counted, too."""
    both = Both("monitoring")

    def counted() -> tuple[int, bool]:
        totals = both.ask("GET", "/api/overview", OURS).json()["object_totals"]
        count = totals["channels"]
        return count, f"\nrabbitmq_channels {count}\n" in both.ask("GET", "/metrics", OURS).text

    assert counted() == (2, True)
    both.ask("DELETE", "/api/connections/username/u", BY_TOKEN)
    both.clients[BY_TOKEN].tick()
    assert counted() == (1, True)


@pytest.mark.parametrize("by", [OURS, BY_TOKEN])
def test_an_administrator_ends_all(by: str) -> None:
    """An administrator closes all connections of a name, of internal and token users."""
    both = Both("administrator")
    assert both.ask("DELETE", "/api/connections/username/u", by).status_code == 204
    assert both.open == []


def test_a_user_named_as_what_a_token_owns() -> None:
    """Names of our users may end as those of owners by token do."""
    both = Both("management")
    both.api.node.broker.put_user(UserRecord("u (by token)", "u (by token)", ("management",)))
    assert both.api.found("/api/connections", by="u (by token)") == []
