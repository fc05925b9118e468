"""The HTTP API on a broker in memory, without sockets: what a test asks, it answers at once."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import structlog
from starlette.routing import BaseRoute
from structlog.typing import EventDict, FilteringBoundLogger

from flintmq.base.errors import StorageFenced
from flintmq.base.histogram import Histogram, LastMinute
from flintmq.broker.access.bearer import Bearer
from flintmq.broker.broker import Broker
from flintmq.broker.ports import PermissionRecord, UserRecord
from flintmq.broker.vhost import VHost
from flintmq.gateway.audit import AuditEvent
from flintmq.management.api.table import ROUTES
from flintmq.management.http.app import application
from flintmq.management.http.routes import Route
from flintmq.management.ports import Socket
from flintmq.management.stats.sampler import Stats
from flintmq.server.attempts import Attempts
from flintmq.server.leadership import ClusterNode, ClusterStatus
from tests.unit.broker.memory import MemoryStorage

BODY_MAX_BYTES = 64 * 1024


@dataclass(frozen=True)
class Listening:
    protocol: str
    host: str
    port: int


@dataclass(frozen=True)
class Kept:
    hash: str
    algorithm: str = "argon2id"
    scram: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ending:
    expires_ms: int
    expires_on: str


@dataclass(frozen=True)
class Alarmed:
    resource: str


def three_nodes(in_sync: str = "ab", min_in_sync: int = 2) -> ClusterStatus:
    """A cluster of this node, which leads, of b, which follows, and of c, which is dead. Others may be in sync."""
    return ClusterStatus(
        "c1",
        7,
        min_in_sync,
        (
            ClusterNode("flintmq@b", "10.0.0.2:5670", "1.2.2", True, False, "b" in in_sync, 300, 0.25),
            ClusterNode("flintmq@c", "10.0.0.3:5670", "1.2.3", False, False, "c" in in_sync, None, None),
            ClusterNode("flintmq@test", "10.0.0.1:5670", "1.2.3", True, True, "a" in in_sync, 0, 0.0),
        ),
    )


class NodeInMemory:
    """Passwords are their own hashes; whatever is changed is durable at once, or never where there is a `failure`."""

    def __init__(self) -> None:
        self.name = "flintmq@test"
        self.version = "1.2.3"
        self.rabbitmq_version = "4.3.0"
        self.storage = MemoryStorage()
        self.broker = Broker(self.storage)
        self.logged: list[dict[str, Any]] = []
        self.log: FilteringBoundLogger = structlog.wrap_logger(
            None, [self._keep], structlog.make_filtering_bound_logger(0)
        )
        self.started_ms = 1_000
        self.listeners: list[Listening] = [Listening("amqp", "127.0.0.1", 5672)]
        self.alarms: list[Alarmed] = []
        self.failure = ""
        self.cluster: ClusterStatus | None = None
        self.shortage = ""
        self.timings = {"tick": Histogram(), "sync": Histogram(), "stall": Histogram()}
        self.last_minute = {name: LastMinute(self.timings[name]) for name in ("tick", "stall")}
        self.sockets: list[Socket] = []
        # By their tokens.
        self.bearers: dict[str, Bearer] = {}
        self.message_max_bytes = 1_000
        self.properties_max_bytes = 500
        self.takes_tokens = True
        self.allows_clear_text = False
        self.attempts = Attempts()
        self.endings: list[Ending] = []
        self.events: list[AuditEvent] = []
        self.now = 1_700_000_000_000

    def _keep(self, _logger: object, _method: str, event: EventDict) -> EventDict:
        self.logged.append(dict(event))
        raise structlog.DropEvent

    def now_ms(self) -> int:
        self.broker.now_ms = self.now
        return self.now

    def socket_of(self, connection: object) -> Socket | None:
        return next((socket for socket in self.sockets if socket.connection is connection), None)

    def audit(self, event: AuditEvent) -> None:
        self.events.append(event)

    async def durable(self) -> None:
        if self.failure:
            raise StorageFenced(self.failure)
        self.storage.commit()
        self.storage.sync()

    async def authenticate(self, user: str, password: str, address: str) -> str:
        known = self.broker.users.get(user)
        if known is None or known.record.password_hash != password:
            return f"wrong password for user '{user}'"
        if user == "guest" and address != "127.0.0.1":
            return "user 'guest' may only log in from this machine"
        return ""

    async def authenticate_token(self, token: str, address: str) -> tuple[str, Bearer | None]:
        bearer = self.bearers.get(token)
        return ("" if bearer else "the token is not valid"), bearer

    async def hash_passwords(self, passwords: Sequence[tuple[UserRecord | None, str]]) -> list[Kept]:
        return [Kept(password) for _, password in passwords]

    async def certificates(self) -> list[Ending]:
        return self.endings

    def salted_hash(self, password: str) -> str:
        return f"salted {password}"

    def trace(self, vhost: VHost, on: bool) -> None:
        vhost.traced = on

    def measures(self) -> dict[str, int]:
        names = ("mem_used", "mem_limit", "disk_free", "disk_free_limit", "fd_used", "fd_total", "sockets_used")
        return dict.fromkeys((*names, "sockets_total", "proc_used"), 1)


class Api:
    """There are the virtual host / and users named after their tags; `admin` is the administrator and may do all."""

    def __init__(
        self,
        routes: Sequence[Route] = ROUTES,
        address: str = "127.0.0.1",
        beside: Sequence[BaseRoute] = (),
        body_max_bytes: int = BODY_MAX_BYTES,
    ) -> None:
        self.node = NodeInMemory()
        self.broker = self.node.broker
        self.broker.add_vhost("/")
        self.user("admin", "administrator", vhosts=("/",))
        for tag in ("monitoring", "policymaker", "management"):
            self.user(tag, tag)
        self.user("nobody")
        self.stats = Stats(self.node)
        self._app = application(self.node, self.stats, routes, body_max_bytes, beside)
        self._address = address

    def user(self, name: str, *tags: str, vhosts: tuple[str, ...] = ()) -> None:
        """A user whose name is the password."""
        self.broker.put_user(UserRecord(name, name, tags))
        for vhost in vhosts:
            self.broker.put_rule(PermissionRecord(vhost, name, ".*", ".*", ".*"))

    @property
    def transport(self) -> httpx.ASGITransport:
        return httpx.ASGITransport(self._app, client=(self._address, 1))

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        by: str | None = "admin",
        headers: dict[str, str] | None = None,
        content: bytes | None = None,
    ) -> httpx.Response:
        """`by` is whose request it is, None for nobody's."""

        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(transport=self.transport, base_url="http://localhost:15672") as client:
                auth = None if by is None else (by, by)
                arguments: dict[str, Any] = {} if body is None else {"json": body}
                if content is not None:
                    arguments["content"] = content
                return await client.request(
                    method, path, auth=auth or httpx.USE_CLIENT_DEFAULT, headers=headers, **arguments
                )

        return asyncio.run(ask())

    def get(self, path: str, *, by: str | None = "admin", headers: dict[str, str] | None = None) -> httpx.Response:
        return self.request("GET", path, by=by, headers=headers)

    def found(self, path: str, *, by: str | None = "admin") -> Any:  # noqa: ANN401 - whatever JSON can say
        """GET a path, which must succeed; return its JSON."""
        response = self.get(path, by=by)
        assert response.status_code == 200, response.text
        return response.json()

    def put(self, path: str, body: object = None, *, by: str = "admin") -> httpx.Response:
        return self.request("PUT", path, body, by=by)

    def post(self, path: str, body: object = None, *, by: str = "admin") -> httpx.Response:
        return self.request("POST", path, body, by=by)

    def delete(self, path: str, *, by: str = "admin") -> httpx.Response:
        return self.request("DELETE", path, by=by)


def refused(response: httpx.Response) -> tuple[int, str, str]:
    """The status, the word and the reason of an error."""
    body = response.json()
    assert set(body) == {"error", "reason"}
    return response.status_code, body["error"], body["reason"]
