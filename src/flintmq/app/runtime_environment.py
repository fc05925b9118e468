"""The runtime environment of a broker: its storage, its number of sockets, and its password hashes."""

import resource
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from flintmq.base.errors import ConfigurationError
from flintmq.base.limits import RESERVED_DESCRIPTORS
from flintmq.broker.message import ContentCodec
from flintmq.broker.ports import UserRecord
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.gateway.amqp10.codec import CODEC_10
from flintmq.server.alarms import memory_bytes
from flintmq.server.auth import hash_unless_known, salted_hash_unless_known
from flintmq.server.config import Settings
from flintmq.server.leadership import Leadership
from flintmq.storage.definitions.database import DefinitionDatabase
from flintmq.storage.ephemeral import EphemeralDisk
from flintmq.storage.node import NodeStorage
from flintmq.storage.replication.disk import logs_statements
from flintmq.storage.replication.log import OperationLog
from flintmq.storage.reserve import RESERVE_BYTES

# The content codecs by the number that the storage keeps with each content.
CODECS: Final[dict[int, ContentCodec]] = {CODEC_091.format: CODEC_091, CODEC_10.format: CODEC_10}
# The number of connections if the system has no limit: memory is the limit then.
_CONNECTIONS_UNLIMITED: Final = 1_000_000
# Opens the storage of the settings. The function is called, from any thread, when the storage has something to report.
OpenStorage = Callable[[Settings, Callable[[], None]], NodeStorage]
# Returns a hash and its algorithm for a user, if one exists already, and a password.
HashPassword = Callable[[UserRecord | None, str], tuple[str, str]]


@dataclass(frozen=True)
class RuntimeEnvironment:
    """The parts of a broker that depend on the process in which it runs."""

    open_storage: OpenStorage
    connection_max: int
    hash_password: HashPassword
    # Called regularly while many clients connect. An embedded broker leaves the garbage collector to its program.
    collect_garbage: Callable[[], object] = lambda: None
    # Set while this node leads a cluster.
    leadership: Leadership | None = None
    # Returns sockets that listen already on the address of a name in `addresses`. Without it, the broker opens its own.
    listening: Callable[[str], list[socket.socket]] | None = None
    # Gets, once clients may connect, what serves the clients of other nodes over connections to them.
    relayed: Callable[[Callable[[socket.socket, str], None]], object] = lambda _: None
    # Whether another node has everything that is confirmed.
    has_confirmed: Callable[[str], bool] = lambda _: False


def durable() -> RuntimeEnvironment:
    """Return the environment of a broker whose data outlives it."""
    return RuntimeEnvironment(_durable_storage, connection_max(), hash_unless_known)


def ephemeral() -> RuntimeEnvironment:
    """Return the environment of a broker whose data ends with it: no fsync, and quick password hashes."""
    return RuntimeEnvironment(_ephemeral_storage, connection_max(), salted_hash_unless_known)


def replicated(log: OperationLog, leadership: Leadership) -> RuntimeEnvironment:
    """Return the environment of the leader of a cluster, whose changes are logged for its followers."""
    opened = partial(_durable_storage, log=log)
    return RuntimeEnvironment(
        opened, connection_max(), hash_unless_known, leadership=leadership, has_confirmed=log.has_confirmed
    )


def _durable_storage(settings: Settings, notify: Callable[[], None], log: OperationLog | None = None) -> NodeStorage:
    return NodeStorage(
        settings.storage.directory,
        CODECS,
        notify,
        database=DefinitionDatabase if log is None else logs_statements(log),
        log=log,
        segment_bytes=settings.storage.segment_bytes,
        reserve_bytes=RESERVE_BYTES,
        pages_memory_max=_pages_memory_max(settings),
    )


def _ephemeral_storage(settings: Settings, notify: Callable[[], None]) -> NodeStorage:
    return NodeStorage(
        settings.storage.directory,
        CODECS,
        notify,
        disk=EphemeralDisk(),
        segment_bytes=settings.storage.segment_bytes,
        database=partial(DefinitionDatabase, synchronous="OFF"),
        pages_memory_max=_pages_memory_max(settings),
    )


def _pages_memory_max(settings: Settings) -> int:
    # At most half of the memory limit. With more, the alarm would begin before pages go to the disk.
    return min(memory_bytes(settings.storage.queue_memory), memory_bytes(settings.alarms.memory_high_watermark) // 2)


def connection_max() -> int:
    """Return the number of sockets that may be open: all files that this process may open, less a reserve.

    Raises ConfigurationError if the limit of open files is too low.
    """
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return _CONNECTIONS_UNLIMITED
    if most <= RESERVED_DESCRIPTORS:
        raise ConfigurationError(
            f"{most} open files are allowed, more than {RESERVED_DESCRIPTORS} are needed: raise it with ulimit -n"
        )
    return most - RESERVED_DESCRIPTORS
