"""One face for clients that share no interface, so that one test can be run with each of them.

A channel's methods are named and mean the same as in the protocol; what the broker refuses raises Refused.
"""

from abc import abstractmethod
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

# What a broker is waited for: generous, for only a failure takes that long.
WAIT_SECONDS: Final = 60.0

Properties = dict[str, Any]
Arguments = dict[str, Any]
# What a declaration says besides the name: durable, exclusive, auto_delete, internal, passive; and its arguments.
Flag = bool | Arguments


class Refused(Exception):
    """The broker closed the channel or the connection; these are its words, as the client reports them."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code
        self.text = text


@dataclass(frozen=True)
class Message:
    body: bytes
    properties: Properties
    exchange: str
    routing_key: str
    redelivered: bool
    tag: int


@dataclass(frozen=True)
class Returned:
    code: int
    text: str
    exchange: str
    routing_key: str
    body: bytes


@dataclass(frozen=True)
class Declared:
    queue: str
    messages: int
    consumers: int


class PeerChannel:
    """A channel of one client. `returned` and `cancelled` collect what the broker sent unasked."""

    def __init__(self) -> None:
        self.deliveries: deque[Message] = deque()
        self.returned: list[Returned] = []
        self.cancelled: list[str] = []

    @abstractmethod
    def declare_exchange(self, name: str, type: str = "direct", *, passive: bool = False, **flags: Flag) -> None: ...

    @abstractmethod
    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None: ...

    @abstractmethod
    def declare_queue(self, name: str = "", **flags: Flag) -> Declared: ...

    @abstractmethod
    def delete_queue(self, name: str, *, if_unused: bool = False, if_empty: bool = False) -> int: ...

    @abstractmethod
    def purge(self, name: str) -> int: ...

    @abstractmethod
    def bind(self, queue: str, exchange: str, key: str = "", arguments: Arguments | None = None) -> None: ...

    @abstractmethod
    def unbind(self, queue: str, exchange: str, key: str = "", arguments: Arguments | None = None) -> None: ...

    @abstractmethod
    def publish(
        self, exchange: str, key: str, body: bytes, properties: Properties | None = None, *, mandatory: bool = False
    ) -> None:
        """On a channel with confirms, returns once the message is confirmed."""

    @abstractmethod
    def get(self, queue: str, *, no_ack: bool = False) -> Message | None: ...

    @abstractmethod
    def consume(self, queue: str, *, no_ack: bool = False, exclusive: bool = False) -> str: ...

    @abstractmethod
    def cancel(self, consumer_tag: str) -> None: ...

    @abstractmethod
    def ack(self, tag: int, *, multiple: bool = False) -> None: ...

    @abstractmethod
    def nack(self, tag: int, *, multiple: bool = False, requeue: bool = True) -> None: ...

    @abstractmethod
    def reject(self, tag: int, *, requeue: bool) -> None: ...

    @abstractmethod
    def qos(self, count: int, *, whole_channel: bool = False) -> None: ...

    @abstractmethod
    def recover(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Take in what the broker sends unasked, for so long or until there is some."""

    # -- what follows from these --------------------------------------------------------------------------------

    def round_trip(self) -> None:
        """Everything before this was taken in by the broker, or refused: then this raises Refused."""
        self.declare_exchange("amq.direct", passive=True)

    def take(self, count: int = 1) -> list[Message]:
        """The next deliveries, however long they take."""
        taken: list[Message] = []
        deadline = datetime.now(UTC).timestamp() + WAIT_SECONDS
        while len(taken) < count:
            if self.deliveries:
                taken.append(self.deliveries.popleft())
                continue
            assert datetime.now(UTC).timestamp() < deadline, f"{len(taken)} of {count} deliveries came"
            self.wait(1.0)
        return taken

    def take_all(self) -> list[Message]:
        """The deliveries that the broker makes without being given anything more."""
        # The first answer may overtake what is delivered in the same tick, the second one is sent behind it.
        self.round_trip()
        self.round_trip()
        self.wait(0)
        taken = list(self.deliveries)
        self.deliveries.clear()
        return taken

    def await_cancel(self) -> str:
        """The tag of a consumer that the broker cancelled."""
        deadline = datetime.now(UTC).timestamp() + WAIT_SECONDS
        while not self.cancelled:
            assert datetime.now(UTC).timestamp() < deadline, "no cancel notice came"
            self.wait(1.0)
        return self.cancelled.pop(0)


class Peer:
    """A connection by one client; a login that is refused raises Refused."""

    # The client's name, and the types of headers it does not have.
    name: ClassVar[str]
    unknown: ClassVar[tuple[type, ...]] = ()

    @abstractmethod
    def __init__(self, url: str) -> None: ...

    @abstractmethod
    def channel(self, *, confirms: bool = False) -> PeerChannel: ...

    @abstractmethod
    def close(self) -> None:
        """Close the connection, if it is open."""


def plain(value: object) -> object:
    """A header's value as all clients' tests write it: times with their zone, byte arrays as bytes."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value
