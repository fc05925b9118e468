"""The composition root: the only file that knows all parts of a broker."""

import asyncio
import gc
import os
import platform
import resource
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import structlog
import uvloop

from flintmq import __version__, compiled
from flintmq.base.errors import ConfigurationError, FlintError, StorageError
from flintmq.base.limits import RESERVED_DESCRIPTORS
from flintmq.broker.broker import Broker
from flintmq.broker.message import ContentCodec
from flintmq.broker.ports import PermissionRecord, UserRecord, VHostRecord
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.gateway.amqp091.service import Offer
from flintmq.gateway.amqp10 import service as amqp10
from flintmq.gateway.amqp10.codec import CODEC_10
from flintmq.gateway.gateway import LoginPolicy
from flintmq.gateway.login import MECHANISMS
from flintmq.management.definitions.document import Document
from flintmq.management.definitions.exporting import export_definitions
from flintmq.management.definitions.importing import import_definitions
from flintmq.protocol.amqp091.connection import Tuning
from flintmq.protocol.amqp10.connection import Tuning as Tuning10
from flintmq.protocol.sasl import scram
from flintmq.server import logs
from flintmq.server.alarms import Alarms, memory_bytes
from flintmq.server.amqp import AmqpServer
from flintmq.server.auth import Authenticator, hash_unless_known, scram_keys
from flintmq.server.config import Settings
from flintmq.server.tls import tls_of
from flintmq.storage.backup import manifest
from flintmq.storage.backup.manifest import Manifest, Progress
from flintmq.storage.backup.pins import remove_abandoned
from flintmq.storage.backup.restoring import restore
from flintmq.storage.backup.taking import Backup
from flintmq.storage.inspection.dumping import Dump
from flintmq.storage.inspection.verifying import Verification
from flintmq.storage.node import NodeStorage
from flintmq.storage.reserve import RESERVE_BYTES

log = structlog.get_logger()

# By the number that storage keeps beside content.
CODECS: Final[dict[int, ContentCodec]] = {CODEC_091.format: CODEC_091, CODEC_10.format: CODEC_10}
# How often new damage is looked for; it is found rarely, if ever.
_STORAGE_LOOK_SECONDS: Final = 10.0
# How long a shutdown waits for clients to agree to it.
_SHUTDOWN_SECONDS: Final = 2.0
# Where the system sets no limit, memory does.
_CONNECTIONS_UNLIMITED: Final = 1_000_000
# Everybody knows this user's password, so it may log in from this machine only (RabbitMQ's rule, too).
_KNOWN_TO_ALL: Final = frozenset({"guest"})
# The release whose AMQP 1.0 ours does at least as much as, for clients that ask.
_COMPATIBLE_VERSION: Final = "4.3.0"
# Objects of messages come and go without cycles; the collector looks for the rare cycles elsewhere.
_GC_THRESHOLDS: Final = (50_000, 50, 50)


def run(settings: Settings) -> int:
    """Run a broker until SIGTERM or SIGINT; returns the exit code. Raises FlintError when it cannot start."""
    logs.configure(settings.log)
    return uvloop.run(_serve_until_signalled(settings))


async def _serve_until_signalled(settings: Settings) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return await serve(settings, stop)


async def serve(settings: Settings, stop: asyncio.Event) -> int:
    """Start a broker, run it until `stop` is set, and stop it cleanly."""
    loop = asyncio.get_running_loop()
    # The sync thread reports through this; nothing is staged, so nothing reported, before the server is there.
    server: AmqpServer | None = None
    was_full = ""

    def on_durable() -> None:
        nonlocal was_full
        if server is None:
            return
        if storage.full != was_full:
            # Publishers have to wait at once: what the reserve holds is less than they bring until the next look.
            was_full = storage.full
            server.look()
        server.on_durable()

    def notify() -> None:
        loop.call_soon_threadsafe(on_durable)

    storage = NodeStorage(
        settings.storage.directory,
        CODECS,
        notify,
        segment_bytes=settings.storage.segment_bytes,
        reserve_bytes=RESERVE_BYTES,
        # Or the alarm would come before the disk is used.
        pages_memory_max=min(
            memory_bytes(settings.storage.queue_memory), memory_bytes(settings.alarms.memory_high_watermark) // 2
        ),
    )
    try:
        remove_abandoned(settings.storage.directory)
        broker = Broker(storage, int.from_bytes(os.urandom(4)))
        broker.now_ms = time.time_ns() // 1_000_000
        _recover(broker, settings)
        policy, tls = _login_policy(settings), tls_of(settings.tls)

        def learn(record: UserRecord, keys: tuple[str, ...]) -> None:
            loop.call_soon_threadsafe(_learn, broker, record, keys)

        logins = Authenticator(broker.users, _KNOWN_TO_ALL, learn if _has_scram(policy) else None)
        server = AmqpServer(
            broker,
            _offer(settings),
            logins,
            os.urandom,
            _connections(),
            policy=policy,
            tls=tls,
            offer_10=_offer_10(settings),
        )
        alarms = Alarms(
            settings.alarms,
            settings.storage.directory,
            lambda: storage.backlog_bytes,
            lambda: storage.full,
            broker.page_out,
        )
        server.watch(alarms.check)
        listener = await _listen(loop, server.protocol, settings.listen.host, settings.listen.port, "--port")
        listeners = [listener]
        if tls is not None:
            listeners.append(
                await _listen(loop, server.tls_protocol, settings.listen.host, settings.tls.port, "tls.port")
            )
        port = listener.sockets[0].getsockname()[1]
        build = "compiled by mypyc" if compiled else "interpreted: slower by far; install with a C compiler at hand"
        log.info("FlintMQ", version=__version__, build=build)
        log.info(
            "listening",
            amqp=f"amqp://{settings.listen.host}:{port}",
            connect=_url(settings, len(broker.users), port),
            data=str(settings.storage.directory.resolve()),
        )
        for each in listeners[1:]:
            log.info("listening", amqps=f"amqps://{settings.listen.host}:{each.sockets[0].getsockname()[1]}")
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)
        watching = loop.create_task(_watch_storage(storage))
        try:
            await stop.wait()
        finally:
            watching.cancel()
            log.info("stopping")
            for each in listeners:
                each.close()
            await server.close(_SHUTDOWN_SECONDS)
    finally:
        storage.close()
    return 1 if storage.failure else 0


def _login_policy(settings: Settings) -> LoginPolicy:
    """Raises ConfigurationError."""
    mechanisms = tuple(settings.auth.mechanisms.upper().split())
    for name in mechanisms:
        if name not in MECHANISMS:
            raise ConfigurationError(f"auth.mechanisms: there is no '{name}'; there are {', '.join(MECHANISMS)}")
    if not mechanisms:
        raise ConfigurationError(f"auth.mechanisms: nobody could log in; there are {', '.join(MECHANISMS)}")
    return LoginPolicy(mechanisms, settings.auth.anonymous_user)


def _has_scram(policy: LoginPolicy) -> bool:
    return any(name in scram.NAMES for name in policy.mechanisms)


def _learn(broker: Broker, record: UserRecord, keys: tuple[str, ...]) -> None:
    """A user showed the password, and may log in by SCRAM from now on."""
    user = broker.users.get(record.name)
    if user is not None and user.record is record and keys and not broker.storage.failure:
        broker.put_user(replace(record, scram=keys))


def _recover(broker: Broker, settings: Settings) -> None:
    """Build the broker from its storage, and bring in what the settings define."""
    started = time.perf_counter()
    storage = broker.storage
    definitions = storage.definitions.load()
    count = broker.recover(definitions)
    if isinstance(storage, NodeStorage):
        for orphan in storage.remove_orphans({record.id for record in definitions.queues}):
            log.warning("stream of no queue removed", directory=str(orphan))
    for remark in _define(broker, settings):
        log.warning("no effect", what=remark)
    if isinstance(storage, NodeStorage):
        _tell_damage(storage)
    seconds = time.perf_counter() - started
    log.info("recovered", messages=count, queues=len(definitions.queues), seconds=round(seconds, 3))


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


def _define(broker: Broker, settings: Settings) -> list[str]:
    """Bring in what the settings define: all of it, or nothing. Returns remarks about what has no effect."""
    storage = broker.storage
    try:
        document = _document(settings.definitions.load)
        if not broker.vhosts and not broker.users:
            _make_defaults(broker, settings, document)
        for vhost in settings.vhosts:
            broker.put_vhost(
                VHostRecord(vhost.name, vhost.dialect, vhost.default_queue_type, vhost.description, vhost.tags)
            )
        for user in settings.users:
            broker.put_user(_user_record(broker, settings, user.name, user.password, user.tags))
        remarks = import_definitions(document, broker, hash_unless_known) if document is not None else []
        for user in settings.users:
            for name in user.vhosts:
                broker.put_rule(PermissionRecord(name, user.name, ".*", ".*", ".*"))
    except FlintError:
        storage.discard()
        raise
    storage.commit()
    return remarks


def import_definitions_into(settings: Settings) -> list[str]:
    """Bring what the settings define into the data of a broker that does not run; returns remarks about no effect.

    Raises FlintError.
    """
    with _stopped(settings) as broker:
        return _define(broker, settings)


def export_definitions_from(settings: Settings) -> dict[str, object]:
    """The definitions of a broker that does not run. Raises FlintError."""
    directory = settings.storage.directory
    if not directory.is_dir():
        raise ConfigurationError(f"there is no data directory {directory}: choose one with --data")
    with _stopped(settings) as broker:
        return export_definitions(broker, __version__)


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


def _make_defaults(broker: Broker, settings: Settings, document: Document | None) -> None:
    """A new broker has a virtual host and a user, unless the settings have others."""
    has_vhosts = settings.vhosts or (document is not None and document.vhosts)
    has_users = settings.users or (document is not None and document.users)
    if not has_vhosts or not has_users:
        broker.add_vhost("/")
    if not has_users:
        default = settings.default_user
        broker.put_user(_user_record(broker, settings, default.name, default.password, ("administrator",)))
        broker.put_rule(PermissionRecord("/", default.name, ".*", ".*", ".*"))


def _user_record(broker: Broker, settings: Settings, name: str, password: str, tags: tuple[str, ...]) -> UserRecord:
    """A user with this password; one that has it already keeps what was made of it."""
    known = broker.users.get(name)
    password_hash, algorithm = hash_unless_known(known.record if known else None, password)
    is_new = known is None or known.record.password_hash != password_hash
    keys = scram_keys(password) if is_new and _has_scram(_login_policy(settings)) else ()
    return UserRecord(name, password_hash, tags, algorithm, keys)


def _document(file: Path | None) -> Document | None:
    if file is None:
        return None
    try:
        return Document(file.read_bytes(), str(file))
    except OSError as error:
        raise ConfigurationError(f"cannot read the definitions in {file}: {error.strerror}") from error


def _connections() -> int:
    """How many sockets there may be: all descriptors the system allows but for a reserve. Raises ConfigurationError."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
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


async def _listen(
    loop: asyncio.AbstractEventLoop, protocol: Callable[[], asyncio.Protocol], host: str, port: int, setting: str
) -> asyncio.Server:
    try:
        return await loop.create_server(protocol, host, port, backlog=1024)
    except OSError as error:
        raise FlintError(
            f"cannot listen on {host}:{port} ({error.strerror or error}): is another broker running there? Choose "
            f"another with {setting}"
        ) from error


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
