"""The composition root: the only file that knows all parts of a broker."""

import asyncio
import fcntl
import gc
import os
import platform
import resource
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import uvloop

from flintmq import __version__, compiled
from flintmq.base.errors import ConfigurationError, FlintError, StorageError
from flintmq.base.limits import RESERVED_DESCRIPTORS
from flintmq.broker.broker import Broker
from flintmq.broker.message import ContentCodec
from flintmq.broker.ports import PermissionRecord, UserRecord, VHostRecord
from flintmq.broker.queue.stream import StreamQueue
from flintmq.gateway.acts import Act
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.gateway.amqp091.service import Offer
from flintmq.gateway.amqp10 import service as amqp10
from flintmq.gateway.amqp10.codec import CODEC_10
from flintmq.gateway.gateway import LoginPolicy
from flintmq.gateway.login import MECHANISMS
from flintmq.management.definitions.document import Document
from flintmq.management.definitions.exporting import export_definitions
from flintmq.management.definitions.importing import import_in_steps
from flintmq.management.http.slices import gathered
from flintmq.protocol.amqp091.connection import Tuning
from flintmq.protocol.amqp10.connection import Tuning as Tuning10
from flintmq.protocol.sasl import scram
from flintmq.server import logs, service_manager
from flintmq.server.accepting import Accepting
from flintmq.server.addresses import Address, addresses
from flintmq.server.alarms import Alarms, memory_bytes
from flintmq.server.amqp import AmqpServer
from flintmq.server.audit import AuditLog
from flintmq.server.auth import (
    ALGORITHM,
    Authenticator,
    Learned,
    hash_unless_known,
    salted_hash_unless_known,
    scram_keys,
)
from flintmq.server.certificates import Tls, tls_of
from flintmq.server.config import ManagementSettings, Settings, TracingSettings, UserSettings
from flintmq.server.oauth.tokens import tokens_of
from flintmq.server.operation import Listener, Operation
from flintmq.server.reloading import Apply, Part, Reloading
from flintmq.server.signals import Signals
from flintmq.storage.backup import manifest
from flintmq.storage.backup.layout import is_data_directory
from flintmq.storage.backup.manifest import Manifest, Progress
from flintmq.storage.backup.pins import remove_abandoned
from flintmq.storage.backup.restoring import restore
from flintmq.storage.backup.taking import Backup
from flintmq.storage.definitions.sqlite import DefinitionDatabase
from flintmq.storage.inspection.dumping import Dump
from flintmq.storage.inspection.verifying import Verification
from flintmq.storage.node import NodeStorage
from flintmq.storage.reserve import RESERVE_BYTES
from flintmq.storage.throwaway import ThrowawayDisk

if TYPE_CHECKING:
    from flintmq.management.http.listening import HttpServer
    from flintmq.management.spans import Exporting, Spans
    from flintmq.management.stats.sampling import Stats

log = logs.get_logger()

# By the number that storage keeps beside content.
CODECS: Final[dict[int, ContentCodec]] = {CODEC_091.format: CODEC_091, CODEC_10.format: CODEC_10}
# How often new damage is looked for; it is found rarely, if ever.
_STORAGE_LOOK_SECONDS: Final = 10.0
# How long a shutdown waits for the disk, so that publishers get the confirms of what they sent.
_DRAIN_SECONDS: Final = 2.0
# How often files of certificates are looked at; those they replace are good for days yet.
_CERTIFICATES_LOOK_SECONDS: Final = 5.0
# What decides what strangers are told of users that do not exist.
_LOGIN_SECRET: Final = "login"  # noqa: S105 - its name
# How long a shutdown waits for clients to agree to it.
SHUTDOWN_SECONDS: Final = 2.0
# Where the system sets no limit, memory does.
_CONNECTIONS_UNLIMITED: Final = 1_000_000
# As many open files as there is room for from the start: half a megabyte.
_FILES_IN_SIGHT: Final = 65_536
# Everybody knows this user's password, so it may log in from this machine only (RabbitMQ's rule, too).
_KNOWN_TO_ALL: Final = frozenset({"guest"})
# The release whose AMQP 1.0 ours does at least as much as, for clients that ask.
_COMPATIBLE_VERSION: Final = "4.3.0"
# Objects of messages come and go without cycles; the collector looks for the rare cycles elsewhere.
# What connections bring is looked through as they come (server/amqp.py), which counts as a round of the second
# generation: it must not lead to a look at everything each time fifty of these are over. What old
# connections leave behind waits for that look: 8 KiB each, of some 30,000.
_GC_THRESHOLDS: Final = (50_000, 50, 1_000)


def run(settings: Settings, load: Callable[[], Settings]) -> int:
    """Run a broker until SIGTERM or SIGINT; returns the exit code. Raises FlintError when it cannot start.

    On SIGHUP, `load` reads the settings again.
    """
    logs.configure(settings.log)
    return uvloop.run(_serve_until_signalled(settings, load))


async def _serve_until_signalled(settings: Settings, load: Callable[[], Settings]) -> int:
    signals = Signals()
    signals.install(asyncio.get_running_loop())
    return await serve(settings, signals, Reloading(settings, load))


async def serve(settings: Settings, signals: Signals, reloading: Reloading) -> int:
    """Run a broker in a process of its own until it is told to stop, and stop it cleanly."""
    _raise_open_files()
    # Both young generations: what is kept is old then, and nobody looks through it again.
    node = Node(settings, replace(lasting(), tidy=partial(gc.collect, 1)))
    await node.start()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    for part in [Part(("log.",), _prepare_log), *node.reloaded]:
        reloading.add(part)
    # An order that came before is obeyed now: nothing was there to take up what has changed.
    watching = asyncio.create_task(reloading.watch(signals.reload))
    service_manager.tell(service_manager.READY)
    try:
        await signals.stop.wait()
    finally:
        service_manager.tell(service_manager.STOPPING)
        watching.cancel()
        await node.stop()
    return 1 if node.failure else 0


async def _prepare_log(settings: Settings) -> Apply:
    return partial(logs.configure, settings.log)


# Opens the storage that the settings name; the function is called, from any thread, when it has something to tell.
OpenStorage = Callable[[Settings, Callable[[], None]], NodeStorage]
# A hash and its algorithm, of a user who may be known already, and a password.
HashPassword = Callable[[UserRecord | None, str], tuple[str, str]]


@dataclass(frozen=True)
class Surroundings:
    """What a broker has from the process that it runs in."""

    open_storage: OpenStorage
    connection_max: int
    hash_password: HashPassword
    # Called while many connect; the garbage collector of a program that embeds a broker is the program's.
    tidy: Callable[[], object] = lambda: None


def lasting() -> Surroundings:
    """For a broker whose data is found again."""
    return Surroundings(_durable_storage, _connections(), hash_unless_known)


def throwaway() -> Surroundings:
    """For a broker that ends with its data: it waits for no disk, and its passwords are quick to check."""
    return Surroundings(_throwaway_storage, _connections(), salted_hash_unless_known)


@final
class Node:
    """A broker in the running event loop. It changes nothing of its process: no signals, limits, policies or logs.

    `port` is where it listens, once it has started, and `http_port` where the API does. Started once, and stopped once.
    """

    def __init__(self, settings: Settings, surroundings: Surroundings) -> None:
        self.port = 0
        self.http_port = 0
        self._settings = settings
        self._surroundings = surroundings
        self._loop = asyncio.get_running_loop()
        self._was_full = ""
        # The sync thread reports to it; nothing is staged, so nothing reported, before it is there.
        self._server: AmqpServer | None = None
        self._accepting: list[Accepting] = []
        self._sampling: asyncio.Task[None] | None = None
        self._reloaded: list[Part] = []
        self._exporting: Exporting | None = None
        self._audit = AuditLog(settings.log.audit_file)
        self._operation: Operation | None = None
        self._http: HttpServer | None = None
        self._watching: list[asyncio.Task[None]] = []
        self._addresses = addresses(settings)
        self._storage = surroundings.open_storage(settings, self._notify)

    @property
    def failure(self) -> str:
        """Why the storage was fenced; empty where it was not."""
        return self._storage.failure

    @property
    def reloaded(self) -> list[Part]:
        """What it takes up, once it has started, of settings that are read again."""
        return self._reloaded

    async def start(self) -> None:
        """Accept connections. Raises FlintError, and has stopped then."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        settings = self._settings
        storage = self._storage
        build = "compiled by mypyc" if compiled else "interpreted: slower by far; install with a C compiler at hand"
        log.info("FlintMQ", version=__version__, build=build)
        # Now, and not behind a recovery that may take minutes.
        for address in self._addresses.values():
            # A name may take long to resolve.
            await self._loop.run_in_executor(None, address.try_out)
        remove_abandoned(settings.storage.directory)
        broker = Broker(storage, int.from_bytes(os.urandom(4)))
        broker.now_ms = time.time_ns() // 1_000_000
        broker.node = f"flintmq@{socket.gethostname()}"
        _recover(broker, settings, self._surroundings.hash_password)
        policy, tls = _login_policy(settings), tls_of(settings.tls, settings.certificates)

        def learn(record: UserRecord, learned: Learned) -> None:
            self._loop.call_soon_threadsafe(_learn, broker, record, learned)

        logins = Authenticator(
            broker.users,
            _KNOWN_TO_ALL,
            learn,
            learns_scram=_has_scram(policy),
            rehashes=self._surroundings.hash_password is hash_unless_known,
            secret=broker.secrets[_LOGIN_SECRET],
            tokens=tokens_of(settings.oauth),
        )
        server = AmqpServer(
            broker,
            _offer(settings),
            logins,
            os.urandom,
            self._surroundings.connection_max,
            policy=policy,
            tls=tls,
            offer_10=_offer_10(settings),
            audit=self._audit,
            tidy=self._surroundings.tidy,
        )
        self._server = server
        alarms = Alarms(
            settings.alarms,
            settings.storage.directory,
            lambda: storage.backlog_bytes,
            lambda: storage.full,
            broker.page_out,
        )
        server.watch(alarms.check)
        host = settings.listen.host
        self.port = await self._listen(server.protocol, self._addresses["amqp"])
        tls_port = 0 if tls is None else await self._listen(server.tls_protocol, self._addresses["amqp/ssl"])
        log.info(
            "listening",
            amqp=f"amqp://{host}:{self.port}",
            connect=_url(settings, len(broker.users), self.port),
            data=str(settings.storage.directory.resolve()),
        )
        if tls_port:
            log.info("listening", amqps=f"amqps://{host}:{tls_port}")
        self._watching = [self._loop.create_task(_watch_storage(storage))]
        if tls is not None:
            self._watching.append(self._loop.create_task(_watch_certificates(tls)))
        self._reloaded = _reloaded(self._settings, broker, server, alarms, self._surroundings.hash_password)
        self._reloaded.append(Part(("log.audit_file",), self._prepare_audit, is_always=True))
        operation = Operation(
            broker.node,
            __version__,
            _COMPATIBLE_VERSION,
            server,
            logins,
            alarms,
            self._surroundings.hash_password,
            scram_keys if _has_scram(policy) else lambda _: (),
            tls,
            self._surroundings.connection_max,
            storage.sync_seconds,
        )
        self._operation = operation
        operation.listeners.append(Listener("amqp", host, self.port))
        if tls_port:
            operation.listeners.append(Listener("amqp/ssl", host, tls_port))
        if settings.tracing.endpoint:
            await self._trace(operation, server)
        if settings.management.enabled:
            await self._manage(operation, tls)

    async def _trace(self, operation: Operation, server: AmqpServer) -> None:
        """Record spans from now on. Raises ConfigurationError where what that needs is not installed."""
        settings = self._settings.tracing
        make = await self._loop.run_in_executor(None, _load_spans)
        spans, self._exporting = make(operation, settings)
        server.gateway.tracing.use(spans)
        log.info("spans are sent", endpoint=settings.endpoint)

    async def _manage(self, operation: Operation, tls: Tls | None) -> None:
        """Serve the HTTP API. Clients are connecting already: what it needs is loaded beside them."""
        settings = self._settings.management
        make = await self._loop.run_in_executor(None, _load_management)
        self._http, stats = make(operation, settings)
        self._sampling = self._loop.create_task(stats.run())
        self.http_port = await self._listen_http(operation, "http", None)
        if tls is not None:
            await self._listen_http(operation, "https", tls.context)

    async def _listen_http(self, operation: Operation, protocol: str, context: ssl.SSLContext | None) -> int:
        assert self._http is not None
        address = self._addresses[protocol]
        try:
            number = await self._http.listen(address.host, address.port, context)
        except OSError as error:
            raise address.refused(error) from error
        operation.listeners.append(Listener(protocol, address.host, number))
        log.info("listening", **{protocol: f"{protocol}://{address.host}:{number}"})
        return number

    async def _listen(self, protocol: Callable[[], asyncio.Protocol], address: Address) -> int:
        accepting = Accepting(protocol)
        self._accepting.append(accepting)
        try:
            return await accepting.listen(address.host, address.port)
        except OSError as error:
            raise address.refused(error) from error

    async def _prepare_audit(self, settings: Settings) -> Apply:
        return self._audit.reopen(settings.log.audit_file)

    def _notify(self) -> None:
        self._loop.call_soon_threadsafe(self._on_durable)

    def _on_durable(self) -> None:
        if self._server is None:
            return
        if self._storage.full != self._was_full:
            # Publishers have to wait at once: what the reserve holds is less than they bring until the next look.
            self._was_full = self._storage.full
            self._server.look()
        self._server.on_durable()

    async def stop(self, patience_seconds: float = SHUTDOWN_SECONDS) -> None:
        """Close every connection, waiting that long at most for clients to agree, then write and sync everything."""
        if self._sampling is not None:
            self._sampling.cancel()
        for task in self._watching:
            task.cancel()
        try:
            if self._http is not None:
                await self._http.close()
            if self._operation is not None:
                self._operation.close()
            if self._server is not None:
                log.info("stopping", connections=self._server.connection_count)
                for each in self._accepting:
                    each.close()
                await self._server.drain(_DRAIN_SECONDS)
                await self._server.close(patience_seconds)
                # The loop may go on, and what the sync thread tells from now on is nobody's.
                self._server = None
            if self._exporting is not None:
                await self._loop.run_in_executor(None, self._exporting.close)
        finally:
            self._storage.close()
            self._audit.close()


def _durable_storage(settings: Settings, notify: Callable[[], None]) -> NodeStorage:
    return NodeStorage(
        settings.storage.directory,
        CODECS,
        notify,
        segment_bytes=settings.storage.segment_bytes,
        reserve_bytes=RESERVE_BYTES,
        pages_memory_max=_pages_memory_max(settings),
    )


def _throwaway_storage(settings: Settings, notify: Callable[[], None]) -> NodeStorage:
    return NodeStorage(
        settings.storage.directory,
        CODECS,
        notify,
        disk=ThrowawayDisk(),
        segment_bytes=settings.storage.segment_bytes,
        database=partial(DefinitionDatabase, synchronous="OFF"),
        pages_memory_max=_pages_memory_max(settings),
    )


def _pages_memory_max(settings: Settings) -> int:
    # Or the alarm would come before the disk is used.
    return min(memory_bytes(settings.storage.queue_memory), memory_bytes(settings.alarms.memory_high_watermark) // 2)


def _reloaded(
    started_with: Settings, broker: Broker, server: AmqpServer, alarms: Alarms, hash_password: HashPassword
) -> list[Part]:
    """What a broker that runs takes up of settings that were read again."""
    brought_in = _given(started_with)

    async def prepare_limits(settings: Settings) -> Apply:
        def apply() -> None:
            server.amqp091.offer = _offer(settings)
            server.amqp10.offer = _offer_10(settings)

        return apply

    async def prepare_alarms(settings: Settings) -> Apply:
        return partial(alarms.configure, settings.alarms)

    async def prepare_tls(settings: Settings) -> Apply:
        tls = tls_of(settings.tls, settings.certificates)
        if tls is None or server.tls is None:
            if tls is not server.tls:
                raise ConfigurationError("tls.certificate: TLS comes and goes with a restart")
            return lambda: None
        # In its place: whoever else listens with these certificates has the new ones, too.
        return partial(server.tls.become, tls)

    async def prepare_definitions(settings: Settings) -> Apply:
        nonlocal brought_in
        given = _given(settings)
        if given == brought_in:
            # A right that was taken away since must not come back because the logs are rotated.
            return lambda: None
        document = _document(settings.definitions.load)
        # A hash takes 25 ms.
        users = await asyncio.to_thread(_user_records, broker, settings, hash_password)
        secrets = iter(await asyncio.to_thread(_secrets, broker, document, hash_password))

        async def apply() -> None:
            nonlocal brought_in
            brought_in = given
            steps = _bring_in(broker, settings, users, document, lambda _known, _password: next(secrets))
            try:
                for remark in await gathered(steps):
                    if remark is not None:
                        log.warning("no effect", what=remark)
            except FlintError as error:
                # As when they are imported at run time: what came before stays.
                log.warning("definitions were not taken up as a whole", reason=str(error))
            server.want_tick()

        return apply

    return [
        Part(("limits.",), prepare_limits),
        Part(("alarms.",), prepare_alarms),
        Part(("tls.", "certificates"), prepare_tls, is_always=True),
        Part(("definitions.", "vhosts", "users"), prepare_definitions, is_always=True),
    ]


def _login_policy(settings: Settings) -> LoginPolicy:
    """Raises ConfigurationError."""
    mechanisms = tuple(settings.auth.mechanisms.upper().split())
    for name in mechanisms:
        if name not in MECHANISMS:
            raise ConfigurationError(f"auth.mechanisms: there is no '{name}'; there are {', '.join(MECHANISMS)}")
    if not mechanisms:
        raise ConfigurationError(f"auth.mechanisms: nobody could log in; there are {', '.join(MECHANISMS)}")
    return LoginPolicy(
        mechanisms,
        settings.auth.anonymous_user,
        takes_tokens=settings.oauth.takes_tokens,
        allows_clear_text=settings.auth.allow_clear_text,
    )


def _has_scram(policy: LoginPolicy) -> bool:
    return any(name in scram.NAMES for name in policy.mechanisms)


def _learn(broker: Broker, record: UserRecord, learned: Learned) -> None:
    """A user showed the password: what was made of it is kept from now on, unless the user was changed meanwhile."""
    user = broker.users.get(record.name)
    if user is None or user.record is not record or broker.storage.failure:
        return
    if learned.password_hash:
        record = replace(record, password_hash=learned.password_hash, hashing_algorithm=ALGORITHM)
    if learned.scram:
        record = replace(record, scram=learned.scram)
    if record is not user.record:
        broker.put_user(record)


def _recover(broker: Broker, settings: Settings, hash_password: HashPassword) -> None:
    """Build the broker from its storage, and bring in what the settings define."""
    started = time.perf_counter()
    storage = broker.storage
    definitions = storage.definitions.load()
    is_new = not definitions.vhosts and not definitions.users
    # It may take minutes, in which nothing else is said.
    log.info("new data directory" if is_new else "recovering", data=str(settings.storage.directory.resolve()))
    count = broker.recover(definitions)
    if not is_new:
        log.info("recovered", **_found(broker, count), seconds=round(time.perf_counter() - started, 3))
    if isinstance(storage, NodeStorage):
        for orphan in storage.remove_orphans({record.id for record in definitions.queues}):
            log.warning("stream of no queue removed", directory=str(orphan))
    if _LOGIN_SECRET not in broker.secrets:
        broker.put_secret(_LOGIN_SECRET, os.urandom(32))
    for remark in _define(broker, settings, hash_password):
        log.warning("no effect", what=remark)
    if isinstance(storage, NodeStorage):
        _tell_damage(storage)


def _found(broker: Broker, messages: int) -> dict[str, int]:
    """What was recovered, for the log: `messages` are those on queues, and `records` those in streams."""
    queues = [queue for vhost in broker.vhosts.values() for queue in vhost.queues.values()]
    streams = [queue for queue in queues if isinstance(queue, StreamQueue)]
    return {
        "queues": len(queues) - len(streams),
        "messages": messages,
        "streams": len(streams),
        "records": sum(stream.message_count for stream in streams),
    }


def _tell_damage(storage: NodeStorage) -> None:
    for damage in storage.set_aside():
        log.error("damaged record set aside", damage=str(damage), kept_in=damage.kept_in)


async def _watch_storage(storage: NodeStorage) -> None:
    """Tell what is found while the broker runs: damage, by compaction or a stream's readers; a disk that refuses."""
    trouble = ""
    while True:
        await asyncio.sleep(_STORAGE_LOOK_SECONDS)
        _tell_damage(storage)
        if storage.pages_trouble != trouble:
            trouble = storage.pages_trouble
            if trouble:
                log.warning("packed messages stay in memory: the disk does not take them", reason=trouble)


async def _watch_certificates(tls: Tls) -> None:
    """Whoever renews certificates need not tell the broker."""
    while True:
        await asyncio.sleep(_CERTIFICATES_LOOK_SECONDS)
        try:
            await asyncio.to_thread(tls.reload_if_changed)
        except Exception:
            # Or the certificates there are would be shown until they are out of date, and nobody would know why.
            log.exception("certificates were not looked at")


def _define(broker: Broker, settings: Settings, hash_password: HashPassword) -> list[str]:
    """Bring in what the settings define: all of it, or nothing. Returns remarks about what has no effect."""
    storage = broker.storage
    try:
        document = _document(settings.definitions.load)
        if not broker.vhosts and not broker.users:
            _make_defaults(broker, settings, document, hash_password)
        users = _user_records(broker, settings, hash_password)
        steps = _bring_in(broker, settings, users, document, hash_password)
        remarks = [remark for remark in steps if remark is not None]
    except FlintError:
        storage.discard()
        raise
    storage.commit()
    return remarks


def _bring_in(
    broker: Broker,
    settings: Settings,
    users: list[UserRecord],
    document: Document | None,
    hash_password: HashPassword,
) -> Iterator[str | None]:
    """Virtual hosts and users of the settings, and the document, in steps; some with a remark about no effect."""
    for vhost in settings.vhosts:
        broker.put_vhost(
            VHostRecord(vhost.name, vhost.dialect, vhost.default_queue_type, vhost.description, vhost.tags)
        )
    for record in users:
        broker.put_user(record)
    if document is not None:
        yield from import_in_steps(document, broker, hash_password)
    for user in settings.users:
        for name in user.vhosts:
            broker.put_rule(PermissionRecord(name, user.name, ".*", ".*", ".*"))


def _secrets(broker: Broker, document: Document | None, hash_password: HashPassword) -> list[tuple[str, str]]:
    """Hashes of the passwords that stand in a document as they are, in their order."""
    found = []
    for entry in document.users if document is not None else ():
        if entry.password is not None and entry.password_hash is None:
            known = broker.users.get(entry.name)
            found.append(hash_password(known.record if known else None, entry.password))
    return found


def _user_records(broker: Broker, settings: Settings, hash_password: HashPassword) -> list[UserRecord]:
    return [_user_record(broker, settings, hash_password, user) for user in settings.users]


def import_definitions_into(settings: Settings) -> list[str]:
    """Bring what the settings define into the data of a broker that does not run; returns remarks about no effect.

    Raises FlintError.
    """
    with _stopped(settings) as broker:
        remarks = _define(broker, settings, hash_unless_known)
        audit = AuditLog(settings.log.audit_file)
        file = settings.definitions.load
        audit.record(Act(f"uid {os.getuid()}", "", "cli", "", "definitions.import", "" if file is None else str(file)))
        audit.close()
        return remarks


def export_definitions_from(settings: Settings) -> dict[str, object]:
    """The definitions of a broker that does not run. Raises FlintError."""
    directory = settings.storage.directory
    if not directory.is_dir():
        raise ConfigurationError(f"there is no data directory {directory}: choose one with --data")
    with _stopped(settings) as broker:
        return export_definitions(broker, __version__)


def has_data(directory: Path) -> bool:
    """Whether a broker has kept its messages there."""
    return is_data_directory(directory)


def backup_of(directory: Path, destination: Path) -> Backup:
    """A backup that is yet to be taken. Raises FlintError."""
    return Backup(directory, destination, __version__)


def verification_of(directory: Path) -> Verification:
    """A check of a data directory, or of a backup, that is yet to be made. Raises FlintError."""
    return Verification(directory)


def dump_of(directory: Path) -> Dump:
    """What is to be read of a data directory, or of a backup. Raises FlintError."""
    return Dump(directory, CODECS)


def manifest_of(backup: Path) -> Manifest:
    """What a backup consists of. Raises FlintError."""
    return manifest.Manifest.load(backup)


def restore_backup(backup: Path, directory: Path, progress: Progress) -> None:
    """Make a data directory of a backup. Raises FlintError."""
    restore(backup, directory, manifest_of(backup), progress)


@contextmanager
def _stopped(settings: Settings) -> Iterator[Broker]:
    """The broker of a data directory, without its messages. No other may run on it meanwhile."""
    storage = NodeStorage(settings.storage.directory, CODECS, lambda: None)
    try:
        broker = Broker(storage)
        broker.restore(storage.definitions.load())
        yield broker
    finally:
        storage.close()
    if storage.failure:
        raise StorageError(storage.failure)


def _make_defaults(broker: Broker, settings: Settings, document: Document | None, hash_password: HashPassword) -> None:
    """A new broker has a virtual host and a user, unless the settings have others."""
    has_vhosts = settings.vhosts or (document is not None and document.vhosts)
    has_users = settings.users or (document is not None and document.users)
    if not has_vhosts or not has_users:
        broker.add_vhost("/")
    if not has_users:
        default = UserSettings(settings.default_user.name, settings.default_user.password, ("administrator",))
        broker.put_user(_user_record(broker, settings, hash_password, default))
        broker.put_rule(PermissionRecord("/", default.name, ".*", ".*", ".*"))


def _user_record(broker: Broker, settings: Settings, hash_password: HashPassword, user: UserSettings) -> UserRecord:
    """A user with this password; one that has it already keeps what was made of it."""
    known = broker.users.get(user.name)
    password_hash, algorithm = hash_password(known.record if known else None, user.password)
    is_new = known is None or known.record.password_hash != password_hash
    keys = scram_keys(user.password) if is_new and _has_scram(_login_policy(settings)) else ()
    return UserRecord(user.name, password_hash, user.tags, algorithm, keys)


def _given(settings: Settings) -> tuple[object, ...]:
    """All that the settings and their file of definitions bring in."""
    file = settings.definitions.load
    try:
        data = file.read_bytes() if file is not None else b""
    except OSError:
        # Who needs it says what is wrong.
        data = b""
    return settings.vhosts, settings.users, data


def _document(file: Path | None) -> Document | None:
    if file is None:
        return None
    try:
        return Document(file.read_bytes(), str(file))
    except OSError as error:
        raise ConfigurationError(f"cannot read the definitions in {file}: {error.strerror}") from error


def _raise_open_files() -> None:
    """Let this process open as many files as the system allows: sockets, most of them."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # The system's table of them grows when one is opened that does not fit, twice as large each time, and a process
    # with threads waits 20 ms for that: now, rather than when a crowd of clients comes.
    room = _FILES_IN_SIGHT if most == resource.RLIM_INFINITY else min(most, _FILES_IN_SIGHT)
    with Path(os.devnull).open("rb") as file:
        os.close(fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, room - 1))


def _connections() -> int:
    """How many sockets there may be: all files this process may open but for a reserve. Raises ConfigurationError."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return _CONNECTIONS_UNLIMITED
    if most <= RESERVED_DESCRIPTORS:
        raise ConfigurationError(
            f"{most} open files are allowed, more than {RESERVED_DESCRIPTORS} are needed: raise it with ulimit -n"
        )
    return most - RESERVED_DESCRIPTORS


def _url(settings: Settings, users: int, port: int) -> str:
    """What a client may be given as it is, as long as the password is the one that everybody knows."""
    default = settings.default_user
    is_known = default.name in _KNOWN_TO_ALL and default.name == default.password and users == 1
    login = f"{default.name}:{default.password}" if is_known else "USER:PASSWORD"
    return f"amqp://{login}@{settings.listen.host}:{port}/%2f"


def _load_management() -> Callable[[Operation, ManagementSettings], tuple["HttpServer", "Stats"]]:
    """Imports what the HTTP API is made of: a fifth of a second, which no client of AMQP is to wait for."""
    from flintmq.management.api.table import ROUTES  # noqa: PLC0415
    from flintmq.management.http.app import application  # noqa: PLC0415
    from flintmq.management.http.listening import HttpServer  # noqa: PLC0415
    from flintmq.management.http.pages import Pages  # noqa: PLC0415
    from flintmq.management.metrics.endpoint import open_to_all  # noqa: PLC0415
    from flintmq.management.stats.sampling import Stats  # noqa: PLC0415

    def make(operation: Operation, settings: ManagementSettings) -> tuple[HttpServer, Stats]:
        stats = Stats(operation)
        routes = open_to_all(ROUTES) if settings.open_metrics else ROUTES
        return HttpServer(application(operation, stats, routes, settings.body_max_bytes, (Pages(),))), stats

    return make


def _load_spans() -> Callable[[Operation, TracingSettings], tuple["Spans", "Exporting"]]:
    """Raises ConfigurationError."""
    try:
        from flintmq.management.spans import Exporting, Spans  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError("tracing.endpoint: install flintmq[otel], which is not there") from error

    def make(operation: Operation, settings: TracingSettings) -> tuple[Spans, Exporting]:
        exporting = Exporting(settings.endpoint, settings.ratio, settings.service, operation.name, operation.version)
        return Spans(exporting.tracer, time.time_ns), exporting

    return make


def _offer_10(settings: Settings) -> amqp10.Offer:
    limits = settings.limits
    return amqp10.Offer(
        f"flintmq@{socket.gethostname()}",
        {
            # Clients made for RabbitMQ 4 ask for it, by name.
            "product": "RabbitMQ",
            "version": _COMPATIBLE_VERSION,
            "server": "FlintMQ",
            "server-version": __version__,
            "platform": f"Python {platform.python_version()}",
        },
        Tuning10(
            frame_max=limits.frame_max_bytes,
            channel_max=limits.channel_max,
            idle_timeout_ms=limits.heartbeat_seconds * 1000,
            message_max=limits.message_max_bytes,
        ),
    )


def _offer(settings: Settings) -> Offer:
    limits = settings.limits
    return Offer(
        {
            "product": "FlintMQ",
            "version": __version__,
            "platform": f"Python {platform.python_version()}",
            "copyright": "The FlintMQ authors",
            "information": "Licensed under the Apache License 2.0",
            "host": socket.gethostname(),
            "capabilities": {
                "publisher_confirms": True,
                "exchange_exchange_bindings": True,
                "basic.nack": True,
                "consumer_cancel_notify": True,
                "connection.blocked": True,
                "consumer_priorities": True,
                "authentication_failure_close": True,
                "per_consumer_qos": True,
                "direct_reply_to": True,
                "flintmq.stream": True,
                "flintmq.lease": True,
                "flintmq.stage": True,
            },
        },
        Tuning(limits.channel_max, limits.frame_max_bytes, limits.heartbeat_seconds, limits.message_max_bytes),
        limits.consumers_per_channel_max,
    )
