"""What management asks of the node it manages, and may not know: sockets, passwords, alarms, the clock.

The server answers (server/operation.py); tests have one of their own.
"""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from flintmq.base.histogram import Histogram
from flintmq.broker.access.bearer import Bearer
from flintmq.broker.broker import Broker
from flintmq.broker.ports import UserRecord
from flintmq.broker.vhost import VHost
from flintmq.gateway.acts import Act


class Listener(Protocol):
    """A socket that is listened on. `protocol` is RabbitMQ's name: "amqp", "amqp/ssl", "http", "https"."""

    @property
    def protocol(self) -> str: ...

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


class Tally(Protocol):
    """Logins that were tried. `address` is empty where those of all addresses are counted."""

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
    """What is kept of a password: its hash and the algorithm, and the keys for SCRAM where that is offered."""

    @property
    def hash(self) -> str: ...

    @property
    def algorithm(self) -> str: ...

    @property
    def scram(self) -> tuple[str, ...]: ...


class Certificate(Protocol):
    """One that the node shows. `expires_on` is for people."""

    @property
    def expires_ms(self) -> int: ...

    @property
    def expires_on(self) -> str: ...


class Alarm(Protocol):
    """A reason why publishers have to wait. `resource` is RabbitMQ's name: "memory" or "disk"."""

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
        """The gateway's, of either protocol."""

    def unsent_bytes(self) -> int: ...


class Node(Protocol):
    @property
    def name(self) -> str:
        """Such as flintmq@host."""

    @property
    def version(self) -> str:
        """FlintMQ's."""

    @property
    def rabbitmq_version(self) -> str:
        """The release of RabbitMQ that clients may take this one for."""

    @property
    def log(self) -> FilteringBoundLogger: ...

    @property
    def broker(self) -> Broker: ...

    @property
    def started_ms(self) -> int:
        """When the node began to accept connections (Unix time)."""

    @property
    def listeners(self) -> Sequence[Listener]: ...

    @property
    def sockets(self) -> Sequence[Socket]:
        """Those of open connections."""

    def socket_of(self, connection: object) -> Socket | None:
        """That of one of them; None where it is open no more."""

    @property
    def alarms(self) -> Sequence[Alarm]:
        """Those that are on."""

    @property
    def failure(self) -> str:
        """Why the storage takes nothing any more; empty while it does."""

    def now_ms(self) -> int:
        """Unix time; the broker's clock is set by it, so whatever changes the broker begins with this."""

    def audit(self, act: Act) -> None:
        """Somebody changed what is defined, or was refused it: the audit log wants to know."""

    def durable(self) -> Awaitable[None]:
        """Done when all that was changed until now is on the disk. Raises StorageFenced."""

    def authenticate(self, user: str, password: str, address: str) -> Awaitable[str]:
        """Why a client may not log in; empty where it may. Takes as long for users there are as for others."""

    def authenticate_token(self, token: str, address: str) -> Awaitable[tuple[str, Bearer | None]]:
        """The same for a token: who came with it, or why it does not count."""

    @property
    def message_max_bytes(self) -> int:
        """What the body of a message may have, whichever way it comes."""

    @property
    def properties_max_bytes(self) -> int:
        """The same for its properties, encoded as AMQP 0-9-1 has them: they have to fit one frame."""

    @property
    def takes_tokens(self) -> bool:
        """Whether there is somebody whose tokens count."""

    @property
    def allows_clear_text(self) -> bool:
        """Whether secrets may come over the network as they are."""

    def hash_passwords(self, passwords: Sequence[tuple[UserRecord | None, str]]) -> Awaitable[Sequence[Secret]]:
        """What is to be kept of each, with the user whose it is, who keeps a hash that is of this password.

        It is worked out elsewhere: the event loop goes on.
        """

    def trace(self, vhost: VHost, on: bool) -> None:
        """Turn the firehose of a virtual host on or off; `vhost.traced` says which it is."""

    @property
    def timings(self) -> Mapping[str, Histogram]:
        """How long ticks of the broker take, "tick", and writing and syncing what came in them, "sync"."""

    def certificates(self) -> Awaitable[Sequence[Certificate]]:
        """Those of the chain, as the file has them now; none where there is no TLS. Raises ConfigurationError."""

    @property
    def attempts(self) -> Attempts: ...

    def salted_hash(self, password: str) -> str:
        """As RabbitMQ hashes passwords by default."""

    def measures(self) -> Mapping[str, int]:
        """What the node uses and may use: mem_used, mem_limit, disk_free, disk_free_limit, fd_used, fd_total,
        sockets_used, sockets_total, proc_used.
        """
