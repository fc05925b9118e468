"""The interface through which the management accesses its node: sockets, passwords, alarms, the clock.

server/operation.py implements it; tests use an implementation of their own.
"""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from flintmq.base.histogram import Histogram, LastMinute
from flintmq.broker.access.bearer import Bearer
from flintmq.broker.broker import Broker
from flintmq.broker.ports import UserRecord
from flintmq.broker.vhost import VHost
from flintmq.gateway.audit import AuditEvent


class Listener(Protocol):
    """A listening socket. `protocol` is RabbitMQ's name: "amqp", "amqp/ssl", "http", "https"."""

    @property
    def protocol(self) -> str: ...

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


class Tally(Protocol):
    """A count of login attempts. `address` is empty if the attempts from all addresses are counted."""

    @property
    def protocol(self) -> str: ...

    @property
    def address(self) -> str: ...

    @property
    def succeeded(self) -> int: ...

    @property
    def failed(self) -> int: ...


class Attempts(Protocol):
    @property
    def by_protocol(self) -> Sequence[Tally]: ...

    @property
    def by_source(self) -> Sequence[Tally]: ...

    def reset(self) -> None: ...


class Secret(Protocol):
    """The stored form of a password: its hash, the algorithm, and the keys for SCRAM if SCRAM is offered."""

    @property
    def hash(self) -> str: ...

    @property
    def algorithm(self) -> str: ...

    @property
    def scram(self) -> tuple[str, ...]: ...


class Certificate(Protocol):
    """A TLS certificate of the node. `expires_ms` is Unix time; `expires_on` is a text for people."""

    @property
    def expires_ms(self) -> int: ...

    @property
    def expires_on(self) -> str: ...


class Alarm(Protocol):
    """An alarm, which blocks publishers. `resource` is RabbitMQ's name: "memory" or "disk"."""

    @property
    def resource(self) -> str: ...


class Socket(Protocol):
    """The socket of an open connection. `name` and `local` are its two ends, as host:port."""

    @property
    def name(self) -> str: ...

    @property
    def local(self) -> str: ...

    @property
    def connected_ms(self) -> int: ...

    @property
    def received_bytes(self) -> int: ...

    @property
    def sent_bytes(self) -> int: ...

    @property
    def is_encrypted(self) -> bool: ...

    @property
    def connection(self) -> object:
        """The connection in the gateway, of either protocol."""

    @property
    def is_slowed(self) -> bool:
        """Whether its publishers outrun the consumers of a queue, and are read more slowly than they send."""

    def unsent_bytes(self) -> int: ...


class ClusterNode(Protocol):
    """A node of the cluster. `address` is that at which other nodes reach it, as host:port. `is_alive` says whether it
    was heard of in the last seconds.

    `behind_bytes` and `behind_seconds` say how much of what the leader has changed the node has not confirmed; None if
    it does not follow.
    """

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def is_alive(self) -> bool: ...

    @property
    def is_leader(self) -> bool: ...

    @property
    def is_in_sync(self) -> bool: ...

    @property
    def behind_bytes(self) -> int | None: ...

    @property
    def behind_seconds(self) -> float | None: ...


class Cluster(Protocol):
    """The cluster that the node leads; `nodes` are all nodes, by name. `term` is the number of the leadership. Nothing
    is confirmed while fewer than `min_in_sync` nodes are in sync.
    """

    @property
    def name(self) -> str: ...

    @property
    def term(self) -> int: ...

    @property
    def min_in_sync(self) -> int: ...

    @property
    def nodes(self) -> Sequence[ClusterNode]: ...


class Node(Protocol):
    @property
    def name(self) -> str:
        """The name of the node, such as flintmq@host; in a cluster, it is one of those of the cluster's nodes."""

    @property
    def version(self) -> str:
        """The version of FlintMQ."""

    @property
    def rabbitmq_version(self) -> str:
        """The version of RabbitMQ that FlintMQ presents to clients."""

    @property
    def log(self) -> FilteringBoundLogger: ...

    @property
    def broker(self) -> Broker: ...

    @property
    def started_ms(self) -> int:
        """The time at which the node began to accept connections (Unix time in ms)."""

    @property
    def listeners(self) -> Sequence[Listener]: ...

    @property
    def sockets(self) -> Sequence[Socket]:
        """The sockets of all open connections."""

    def socket_of(self, connection: object) -> Socket | None:
        """The socket of a connection; None if the connection is closed."""

    @property
    def alarms(self) -> Sequence[Alarm]:
        """The alarms that are on."""

    @property
    def cluster(self) -> Cluster | None:
        """The cluster that this node leads; None if it has none."""

    @property
    def shortage(self) -> str:
        """Why publishers wait for other nodes of the cluster; empty if they do not."""

    @property
    def failure(self) -> str:
        """The reason why the storage is fenced; empty if it is not."""

    def now_ms(self) -> int:
        """Unix time in ms. The call also sets the broker's clock, so it comes before every change of the broker."""

    def audit(self, event: AuditEvent) -> None:
        """Write to the audit log that a user has changed something, or that a change was refused."""

    def durable(self) -> Awaitable[None]:
        """Wait until all changes so far are synced. Raises StorageFenced."""

    def authenticate(self, user: str, password: str, address: str) -> Awaitable[str]:
        """Check a login; the result is the reason for a refusal, or empty. The check takes equally long for unknown
        users.
        """

    def authenticate_token(self, token: str, address: str) -> Awaitable[tuple[str, Bearer | None]]:
        """Check an OAuth 2 token; the result is the reason for a refusal, and the bearer of a valid token."""

    @property
    def message_max_bytes(self) -> int:
        """The maximum size of a message body in bytes, for all protocols."""

    @property
    def properties_max_bytes(self) -> int:
        """The maximum size in bytes of properties as AMQP 0-9-1 encodes them: they must fit into one frame."""

    @property
    def takes_tokens(self) -> bool:
        """Whether tokens of an OAuth 2 issuer are accepted."""

    @property
    def allows_clear_text(self) -> bool:
        """Whether credentials are accepted over the network without TLS."""

    def hash_passwords(self, passwords: Sequence[tuple[UserRecord | None, str]]) -> Awaitable[Sequence[Secret]]:
        """Hash passwords, each given with the present record of its user, or None. A hash that already matches the
        password is kept.

        Another thread computes the hashes, so the event loop continues.
        """

    def trace(self, vhost: VHost, on: bool) -> None:
        """Turn the firehose of a virtual host on or off; `vhost.traced` has its state."""

    @property
    def timings(self) -> Mapping[str, Histogram]:
        """Durations: of the broker's ticks under "tick", of writing and syncing a batch under "sync", and of stalls of
        the event loop under "stall".
        """

    @property
    def last_minute(self) -> Mapping[str, LastMinute]:
        """The last minute of "tick" and "stall" in `timings`."""

    def certificates(self) -> Awaitable[Sequence[Certificate]]:
        """The certificates of the chain as the file has them now; empty without TLS. Raises ConfigurationError."""

    @property
    def attempts(self) -> Attempts: ...

    def salted_hash(self, password: str) -> str:
        """Hash a password with RabbitMQ's default algorithm and a random salt."""

    def measures(self) -> Mapping[str, int]:
        """Usage and limits of the node: mem_used, mem_limit, disk_free, disk_free_limit (bytes), fd_used, fd_total,
        sockets_used, sockets_total, proc_used.
        """
