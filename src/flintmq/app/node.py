"""A broker in an event loop: it connects all parts, and starts and stops them."""

import asyncio
import os
import socket
import ssl
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from flintmq import __version__, compiled
from flintmq.app.live_settings import bound_assembling, reloaded_parts
from flintmq.app.logins import (
    LOGIN_SECRET,
    LOOPBACK_USERS,
    ORIGINS_SECRET,
    has_scram,
    keep_learned,
    keep_origins,
    login_policy,
)
from flintmq.app.recovery import recover, tell_damage
from flintmq.app.runtime_environment import RuntimeEnvironment
from flintmq.app.server_properties import COMPATIBLE_VERSION, server_properties_091, server_properties_10
from flintmq.base.addresses import networks
from flintmq.base.errors import ConfigurationError
from flintmq.broker.broker import Broker
from flintmq.broker.ports import UserRecord
from flintmq.server import logs
from flintmq.server.acceptor import Acceptor, StreamProtocol
from flintmq.server.addresses import addresses
from flintmq.server.alarms import Alarms
from flintmq.server.amqp import AmqpServer
from flintmq.server.audit import AuditLog
from flintmq.server.auth import Authenticator, Learned, hash_unless_known, scram_keys
from flintmq.server.certificates import Tls, tls_of, watch
from flintmq.server.config import ManagementSettings, Settings, TracingSettings
from flintmq.server.login_origins import LoginOrigins
from flintmq.server.oauth.tokens import tokens_of
from flintmq.server.operation import Listener, Operation, node_name
from flintmq.server.relay.relays import Relays
from flintmq.server.relay.workers import IoWorkers, io_workers
from flintmq.server.reload import Apply, Part
from flintmq.storage.backup.hard_links import remove_abandoned
from flintmq.storage.node import NodeStorage

if TYPE_CHECKING:
    from flintmq.management.http.server import HttpServer
    from flintmq.management.spans import SpanExport, Spans
    from flintmq.management.stats.sampler import Stats

log = logs.get_logger()

# The interval at which new damage is reported, which is rare.
_STORAGE_LOOK_SECONDS: Final = 10.0
# The longest wait of a shutdown for the disk, so that publishers get their confirms.
DRAIN_SECONDS: Final = 2.0
# The longest wait of a shutdown for the answers of clients.
SHUTDOWN_SECONDS: Final = 2.0


@final
class Node:
    """A broker in the running event loop. It does not change its process: no signals, limits, policies or logs.

    After the start, `port` is the AMQP port and `http_port` that of the API. It can be started and stopped only once.
    """

    def __init__(self, settings: Settings, environment: RuntimeEnvironment) -> None:
        self.port = 0
        self.http_port = 0
        self._settings = settings
        self._environment = environment
        self._loop = asyncio.get_running_loop()
        # The sync thread reports to the server. Nothing is staged, and so nothing reported, before it exists.
        self._server: AmqpServer | None = None
        self._acceptors: list[Acceptor] = []
        # Listening sockets that I/O workers accept from, and whether their clients begin with TLS.
        self._shared: list[tuple[socket.socket, bool]] = []
        self._io_workers: IoWorkers | None = None
        self._relays: Relays | None = None
        self._sampling: asyncio.Task[None] | None = None
        self._reloaded: list[Part] = []
        self._exporting: SpanExport | None = None
        self._audit = AuditLog(settings.log.audit_file)
        self._operation: Operation | None = None
        self._http: HttpServer | None = None
        self._watching: list[asyncio.Task[None]] = []
        self._addresses = addresses(settings)
        self._storage = environment.open_storage(settings, self._notify)

    @property
    def failure(self) -> str:
        """Why the storage was fenced; empty if it was not."""
        return self._storage.failure

    @property
    def reloaded(self) -> list[Part]:
        """The parts of the settings that can be applied again; empty before the start."""
        return self._reloaded

    async def start(self) -> None:
        """Start, and accept connections. Raises FlintError, with everything stopped, if that is not possible."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        settings = self._settings
        storage = self._storage
        build = "compiled by mypyc" if compiled else "interpreted: much slower; install it with a C compiler"
        log.info("FlintMQ", version=__version__, build=build)
        if self._environment.listening is None:
            # The addresses are checked before the recovery, which may take minutes.
            for address in self._addresses.values():
                # A name may take long to resolve.
                await self._loop.run_in_executor(None, address.try_out)
        remove_abandoned(settings.storage.directory)
        broker = Broker(storage, int.from_bytes(os.urandom(4)))
        broker.now_ms = time.time_ns() // 1_000_000
        leadership = self._environment.leadership
        broker.node = node_name(socket.gethostname() if leadership is None else leadership.node)
        # Another thread, because the event loop renews the lease of a leader meanwhile.
        await self._loop.run_in_executor(None, recover, broker, settings, self._environment.hash_password)
        storage.commit()
        if leadership is not None:
            await leadership.recovered()
        policy, tls = login_policy(settings), tls_of(settings.tls, settings.certificates)

        def learn(record: UserRecord, learned: Learned) -> None:
            self._loop.call_soon_threadsafe(keep_learned, broker, record, learned)

        def keep(origins: bytes) -> None:
            self._loop.call_soon_threadsafe(keep_origins, broker, origins)

        secret = broker.secrets[LOGIN_SECRET]
        logins = Authenticator(
            broker.users,
            LOOPBACK_USERS,
            learn,
            learns_scram=has_scram(policy),
            rehashes=self._environment.hash_password is hash_unless_known,
            secret=secret,
            tokens=tokens_of(settings.oauth),
            origins=LoginOrigins(secret, broker.secrets.get(ORIGINS_SECRET, b""), keep),
        )
        server = AmqpServer(
            broker,
            server_properties_091(settings),
            logins,
            os.urandom,
            self._environment.connection_max,
            policy=policy,
            tls=tls,
            properties_10=server_properties_10(settings),
            audit=self._audit,
            collect_garbage=self._environment.collect_garbage,
            send_timeout_seconds=settings.limits.send_timeout_seconds,
        )
        self._server = server
        broker.tick.dispatch.bound_backlog(settings.limits.backlog_messages)
        alarms = Alarms(
            settings.alarms,
            settings.storage.directory,
            lambda: storage.backlog_bytes,
            lambda: storage.full,
            broker.page_out,
        )
        bound_assembling(server, alarms)

        def check() -> str:
            reason = alarms.check()
            return reason or ("" if leadership is None else leadership.shortage())

        server.watch(check, lambda: storage.full)
        server.stalls.start()
        host = settings.listen.host
        self.port = await self._listen(server.protocol, "amqp")
        tls_port = 0 if tls is None else await self._listen(server.tls_protocol, "amqp/ssl")
        if self._shared:
            self._io_workers = IoWorkers(io_workers(settings.server.io_workers), server, self._shared)
            await self._io_workers.start()
        log.info(
            "listening",
            amqp=f"amqp://{host}:{self.port}",
            connect=_url(settings, len(broker.users), self.port),
            data=str(settings.storage.directory.resolve()),
        )
        if tls_port:
            log.info("listening", amqps=f"amqps://{host}:{tls_port}")
        if tls is not None and tls.is_required:
            log.info("clients on this machine need no certificate; all others do", amqp=self.port)
        self._relays = Relays(server, self._environment.has_confirmed)
        self._environment.relayed(self._relays.serve)
        self._watching = [self._loop.create_task(_watch_storage(storage))]
        if tls is not None:
            self._watching.append(self._loop.create_task(watch(tls)))
        self._reloaded = reloaded_parts(self._settings, broker, server, alarms, self._environment.hash_password)
        self._reloaded.append(Part(("log.audit_file",), self._prepare_audit, is_always=True))
        operation = Operation(
            broker.node,
            __version__,
            COMPATIBLE_VERSION,
            server,
            logins,
            alarms,
            self._environment.hash_password,
            scram_keys if has_scram(policy) else lambda _: (),
            tls,
            self._environment.connection_max,
            storage.sync_seconds,
            leadership,
        )
        self._operation = operation
        operation.listeners.append(Listener("amqp", host, self.port))
        if tls_port:
            operation.listeners.append(Listener("amqp/ssl", host, tls_port))
        if settings.tracing.endpoint:
            await self._trace(operation, server)
        if settings.management.enabled:
            await self._manage(server, operation, tls)

    async def _trace(self, operation: Operation, server: AmqpServer) -> None:
        """Record spans from now on. Raises ConfigurationError if the packages for that are not installed."""
        settings = self._settings.tracing
        make = await self._loop.run_in_executor(None, _load_spans)
        spans, self._exporting = make(operation, settings)
        server.gateway.tracing.use(spans)
        log.info("spans are sent", endpoint=settings.endpoint)

    async def _manage(self, server: AmqpServer, operation: Operation, tls: Tls | None) -> None:
        """Serve the HTTP API. Its modules are loaded in another thread, because clients are connecting already."""
        settings = self._settings.management
        make = await self._loop.run_in_executor(None, _load_management)
        self._http, stats = make(operation, settings)
        server.reception.http = self._http.connection
        self._sampling = self._loop.create_task(stats.run())
        self.http_port = await self._listen_http(operation, "http", None)
        if tls is not None:
            await self._listen_http(operation, "https", tls.context)

    async def _listen_http(self, operation: Operation, protocol: str, context: ssl.SSLContext | None) -> int:
        assert self._http is not None
        sockets = await self._sockets(protocol)
        await self._http.listen(sockets, context)
        host, number = self._addresses[protocol].host, _port(sockets)
        operation.listeners.append(Listener(protocol, host, number))
        log.info("listening", **{protocol: f"{protocol}://{host}:{number}"})
        return number

    async def _listen(self, protocol: Callable[[], StreamProtocol], name: str) -> int:
        sockets = await self._sockets(name)
        if io_workers(self._settings.server.io_workers):
            self._shared += [(each, name == "amqp/ssl") for each in sockets]
        else:
            acceptor = Acceptor(protocol)
            self._acceptors.append(acceptor)
            acceptor.accept_from(sockets)
        return _port(sockets)

    async def _sockets(self, name: str) -> list[socket.socket]:
        """Return sockets that listen on the address of this name."""
        if self._environment.listening is not None:
            return self._environment.listening(name)
        return await self._addresses[name].listen()

    async def _prepare_audit(self, settings: Settings) -> Apply:
        return self._audit.reopen(settings.log.audit_file)

    def _notify(self) -> None:
        self._loop.call_soon_threadsafe(self._on_storage_progress)

    def _on_storage_progress(self) -> None:
        if self._server is not None:
            self._server.on_storage_progress()
        leadership = self._environment.leadership
        if leadership is not None and self._storage.failure:
            leadership.failed(self._storage.failure)

    async def stop(
        self,
        patience_seconds: float = SHUTDOWN_SECONDS,
        drain_seconds: float = DRAIN_SECONDS,
        reason: str = "shutdown",
    ) -> None:
        """Close every connection with a reason, then write and sync everything.

        Publishers get confirms for up to `drain_seconds` before, and clients have `patience_seconds` to answer.
        """
        if self._sampling is not None:
            self._sampling.cancel()
        for task in self._watching:
            task.cancel()
        if self._server is not None:
            self._server.reception.is_closed = True
        try:
            if self._http is not None:
                await self._http.close()
            if self._operation is not None:
                self._operation.close()
            if self._server is not None:
                log.info("stopping", connections=len(self._server.connections))
                for each in self._acceptors:
                    each.close()
                    await each.settle()
                if self._io_workers is not None:
                    self._io_workers.accept_no_more()
                if drain_seconds:
                    await self._server.drain(drain_seconds)
                await self._server.close(patience_seconds, reason)
                self._server.gateway.broker.note_undelivered()
                # The loop may continue, and later reports of the sync thread are ignored.
                self._server = None
            if self._exporting is not None:
                await self._loop.run_in_executor(None, self._exporting.close)
        finally:
            try:
                if self._relays is not None:
                    self._relays.close()
                if self._io_workers is not None:
                    await self._io_workers.close()
                for shared, _ in self._shared:
                    shared.close()
            finally:
                self._storage.close()
                self._audit.close()


async def _watch_storage(storage: NodeStorage) -> None:
    """Log what is found while the broker runs: damage, by compaction or stream readers, and errors of the disk."""
    trouble = ""
    while True:
        await asyncio.sleep(_STORAGE_LOOK_SECONDS)
        tell_damage(storage)
        if storage.pages_trouble != trouble:
            trouble = storage.pages_trouble
            if trouble:
                log.warning("packed messages stay in memory: the disk does not take them", reason=trouble)


def _port(sockets: list[socket.socket]) -> int:
    number: int = sockets[0].getsockname()[1]
    return number


def _url(settings: Settings, users: int, port: int) -> str:
    """Return a URL to connect with, with the password if it is the default one that everybody knows."""
    default = settings.default_user
    is_known = default.name in LOOPBACK_USERS and default.name == default.password and users == 1
    login = f"{default.name}:{default.password}" if is_known else "USER:PASSWORD"
    return f"amqp://{login}@{settings.listen.host}:{port}/%2f"


def load_ahead(settings: Settings) -> None:
    """Import what a broker imports while its first clients connect."""
    if settings.management.enabled:
        _load_management()


def _load_management() -> Callable[[Operation, ManagementSettings], tuple["HttpServer", "Stats"]]:
    """Import the HTTP API. That takes a fifth of a second, for which no AMQP client may wait."""
    from starlette.concurrency import run_in_threadpool  # noqa: PLC0415

    from flintmq.management.api.table import ROUTES  # noqa: PLC0415
    from flintmq.management.http.app import application  # noqa: PLC0415
    from flintmq.management.http.pages import Pages  # noqa: PLC0415
    from flintmq.management.http.server import HttpServer  # noqa: PLC0415
    from flintmq.management.metrics.endpoint import open_to_all  # noqa: PLC0415
    from flintmq.management.stats.sampler import Stats  # noqa: PLC0415

    # Starlette imports its support of the event loop with the first call that needs it, and the first /metrics would
    # take 20 ms of the broker's loop for that.
    asyncio.run(run_in_threadpool(int))

    def make(operation: Operation, settings: ManagementSettings) -> tuple[HttpServer, Stats]:
        stats = Stats(operation)
        routes = open_to_all(ROUTES) if settings.open_metrics else ROUTES
        app = application(operation, stats, routes, settings.body_max_bytes, (Pages(),))
        return HttpServer(app, networks(settings.proxies.split())), stats

    return make


def _load_spans() -> Callable[[Operation, TracingSettings], tuple["Spans", "SpanExport"]]:
    """Import the export of spans. Raises ConfigurationError if its packages are not installed."""
    try:
        from flintmq.management.spans import SpanExport, Spans  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError("tracing.endpoint: install flintmq[otel], which is not there") from error

    def make(operation: Operation, settings: TracingSettings) -> tuple[Spans, SpanExport]:
        exporting = SpanExport(settings.endpoint, settings.ratio, settings.service, operation.name, operation.version)
        return Spans(exporting.tracer, time.time_ns), exporting

    return make
