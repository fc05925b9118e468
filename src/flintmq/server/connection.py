"""What a server's sockets ask of a connection, whatever it speaks."""

from typing import Protocol

from flintmq.base.errors import AmqpError, FlintError
from flintmq.broker.vhost_access import Access


class Engine(Protocol):
    """Bytes in, and what time asks for. `protocol/amqp091/connection.py` says what each of these does."""

    # Whether a publish waits in here until publishes are taken.
    is_holding: bool

    @property
    def is_open(self) -> bool: ...

    @property
    def is_closing(self) -> bool:
        """Whether our close waits for its answer."""

    @property
    def is_closed(self) -> bool: ...

    @property
    def is_paused(self) -> bool: ...

    @property
    def assembled_bytes(self) -> int: ...

    def receive(self, data: bytes, now: float) -> None: ...

    def refresh(self) -> None: ...

    def sent(self, now: float) -> None: ...

    def heard(self, now: float) -> None: ...

    def lost(self, error: FlintError | None) -> None: ...

    def next_timer(self) -> float | None: ...

    def handle_timer(self, now: float) -> None: ...


class Connection(Protocol):
    """`closed` says why it ended, once it has; `peer` names the other side."""

    @property
    def peer(self) -> str: ...

    @property
    def user(self) -> str: ...

    @property
    def access(self) -> Access | None: ...

    @property
    def closed(self) -> FlintError | None: ...

    @property
    def engine(self) -> Engine: ...

    def resume(self) -> None:
        """The socket has room again."""

    def block(self) -> None:
        """An alarm went on: publishers have to wait."""

    def unblock(self) -> None: ...

    def fail(self, error: AmqpError) -> None:
        """Close from our side, for a reason that is none of the client's doing."""
