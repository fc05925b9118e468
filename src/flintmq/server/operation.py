"""The node as management sees it: the state of the server beside the broker. Ports of management define the methods."""

import asyncio
import resource
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, cast, final

from structlog.typing import FilteringBoundLogger

from flintmq.base.histogram import Histogram
from flintmq.broker.access.bearer import Bearer
from flintmq.broker.broker import Broker
from flintmq.broker.ports import UserRecord
from flintmq.broker.vhost import VHost
from flintmq.gateway.audit import AuditEvent
from flintmq.server import logs
from flintmq.server.alarms import Alarms
from flintmq.server.amqp import AmqpServer
from flintmq.server.attempts import HTTP, Attempts
from flintmq.server.auth import Authenticator, salted_hash_unless_known
from flintmq.server.certificates import Expiry, Tls, expiries
from flintmq.server.leadership import ClusterStatus, Leadership
from flintmq.server.peer import Connection, Peer

_DESCRIPTORS: Final = Path("/proc/self/fd")
_THREADS: Final = Path("/proc/self/task")


@dataclass(frozen=True)
class Listener:
    """A listening socket. `protocol` has RabbitMQ's name."""

    protocol: str
    host: str
    port: int


@dataclass(frozen=True)
class Secret:
    """The stored form of a password."""

    hash: str
    algorithm: str
    scram: tuple[str, ...] = ()


@dataclass(frozen=True)
class Alarm:
    """An alarm. `resource` is the one that publishers wait for: "memory" or "disk"."""

    resource: str


def node_name(node: str) -> str:
    """The name that clients see of a node of a cluster, or of this machine."""
    return f"flintmq@{node}"


@final
class Operation:
    """The node's state and operations for management.

    `listeners` grows as sockets are opened. `hash_password` returns a hash and its algorithm, `scram_keys` the keys
    that are stored beside them. `leadership` is None for a node without a cluster.
    """

    def __init__(
        self,
        name: str,
        version: str,
        rabbitmq_version: str,
        server: AmqpServer,
        logins: Authenticator,
        alarms: Alarms,
        hash_password: Callable[[UserRecord | None, str], tuple[str, str]],
        scram_keys: Callable[[str], tuple[str, ...]],
        tls: Tls | None,
        socket_max: int,
        sync_seconds: Histogram,
        leadership: Leadership | None = None,
    ) -> None:
        self.name = name
        self.version = version
        self.rabbitmq_version = rabbitmq_version
        self.log: FilteringBoundLogger = logs.get_logger()
        self.started_ms = time.time_ns() // 1_000_000
        self.listeners: list[Listener] = []
        stalls = server.stalls
        self.timings = {"tick": server.tick.seconds, "sync": sync_seconds, "stall": stalls.seconds}
        self.last_minute = {"tick": stalls.ticks_last_minute, "stall": stalls.last_minute}
        self._server = server
        self._logins = logins
        self._alarms = alarms
        self._hash_password = hash_password
        self._scram_keys = scram_keys
        self._tls = tls
        self._socket_max = socket_max
        self._leadership = leadership
        self._loop = asyncio.get_running_loop()
        # One thread, so that requests for password hashes cannot occupy all cores.
        self._hashing = ThreadPoolExecutor(1, "flintmq-hash")

    @property
    def broker(self) -> Broker:
        return self._server.gateway.broker

    @property
    def attempts(self) -> Attempts:
        return self._server.host.attempts

    @property
    def sockets(self) -> list[Peer]:
        return list(self._server.connections.open.values())

    def socket_of(self, connection: object) -> Peer | None:
        return self._server.connections.open.get(cast(Connection, connection))

    @property
    def alarms(self) -> list[Alarm]:
        return [Alarm(each) for each in ("memory", "disk") if each in self._server.gateway.alarm]

    @property
    def cluster(self) -> ClusterStatus | None:
        if self._leadership is None:
            return None
        status = self._leadership.status()
        return replace(status, nodes=tuple([replace(each, name=node_name(each.name)) for each in status.nodes]))

    @property
    def shortage(self) -> str:
        return "" if self._leadership is None else self._leadership.shortage()

    @property
    def failure(self) -> str:
        return self._server.gateway.failure

    def now_ms(self) -> int:
        self._server.schedule.now()
        return self.broker.now_ms

    def audit(self, event: AuditEvent) -> None:
        self._server.host.audit(event)

    def durable(self) -> "asyncio.Future[None]":
        return self._server.tick.futures.create()

    async def authenticate(self, user: str, password: str, address: str) -> str:
        verdict: asyncio.Future[str] = self._loop.create_future()

        def decide(why: str) -> None:
            if not verdict.done():
                verdict.set_result(why)

        def answer(why: str) -> None:
            self._loop.call_soon_threadsafe(decide, why)

        self._logins.check(user, password, address, lambda: not verdict.done(), answer)
        why = await verdict
        self.attempts.count(HTTP, address, not why)
        return why

    async def authenticate_token(self, token: str, address: str) -> tuple[str, Bearer | None]:
        verdict: asyncio.Future[tuple[str, Bearer | None]] = self._loop.create_future()

        def decide(why: str, bearer: Bearer | None) -> None:
            if not verdict.done():
                verdict.set_result((why, bearer))

        def answer(why: str, bearer: Bearer | None) -> None:
            self._loop.call_soon_threadsafe(decide, why, bearer)

        self._logins.check_token(token, address, lambda: not verdict.done(), answer)
        why, bearer = await verdict
        self.attempts.count(HTTP, address, not why)
        return why, bearer

    @property
    def message_max_bytes(self) -> int:
        return int(self._server.amqp091.properties.tuning.message_max)

    @property
    def properties_max_bytes(self) -> int:
        return int(self._server.amqp091.properties.tuning.properties_max)

    @property
    def takes_tokens(self) -> bool:
        return self._server.gateway.policy.takes_tokens

    @property
    def allows_clear_text(self) -> bool:
        if self._tls is not None and self._tls.is_required:
            return False
        return self._server.gateway.policy.allows_clear_text

    async def hash_passwords(self, passwords: Sequence[tuple[UserRecord | None, str]]) -> list[Secret]:
        return await self._loop.run_in_executor(
            self._hashing, lambda: [self._secret(user, password) for user, password in passwords]
        )

    def _secret(self, user: UserRecord | None, password: str) -> Secret:
        password_hash, algorithm = self._hash_password(user, password)
        if user is not None and user.password_hash == password_hash and user.scram:
            return Secret(password_hash, algorithm, user.scram)
        return Secret(password_hash, algorithm, self._scram_keys(password))

    async def certificates(self) -> list[Expiry]:
        files = [] if self._tls is None else self._tls.files
        found = [await self._loop.run_in_executor(self._hashing, expiries, file) for file in files]
        return [expiry for each in found for expiry in each]

    def salted_hash(self, password: str) -> str:
        return salted_hash_unless_known(None, password)[0]

    def trace(self, vhost: VHost, on: bool) -> None:
        self._server.gateway.tracing.trace(vhost, on)

    def measures(self) -> dict[str, int]:
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return {
            "mem_used": self._alarms.memory_bytes,
            "mem_limit": self._alarms.memory_max_bytes,
            "disk_free": self._alarms.disk_free_bytes,
            "disk_free_limit": self._alarms.disk_min_bytes,
            "fd_used": len(list(_DESCRIPTORS.iterdir())),
            "fd_total": descriptors,
            "sockets_used": len(self._server.connections),
            "sockets_total": self._socket_max,
            "proc_used": len(list(_THREADS.iterdir())),
        }

    def close(self) -> None:
        self._hashing.shutdown(wait=False, cancel_futures=True)
