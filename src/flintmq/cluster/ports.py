"""What replication needs of the machine: connections to other nodes, threads, and the files of the data directory.

Nodes send each other messages: a kind, and a body in MessagePack or as it is. All calls of a connection block, because
each has threads of its own: the event loop must not wait for a slow node, and a follower has nothing else to do.
"""

import socket
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from msgspec import msgpack

from flintmq.base.errors import FlintError
from flintmq.storage.definitions.database import DefinitionDatabase
from flintmq.storage.files import Disk


class LinkError(FlintError):
    """The other node has closed the connection, is silent, or sends what cannot be read."""


class Silent(LinkError):
    """Nothing comes from the other node: it stands still, or is cut off."""


class NobodyListens(LinkError):
    """The machine of the other node refuses the connection: its process has ended."""


class Refusal(LinkError):
    """One of the two nodes does not accept the other one. The text says why, and what to do."""


class Link:
    """A connection to another node. The methods raise LinkError; then it is of no more use."""

    def authenticate(self) -> None:
        """Prove to the other node that this one belongs to the cluster, and have it prove the same. Raises Refusal.

        Comes before everything else. A link that leads to no other machine has nothing to prove.
        """

    def send(self, kind: int, body: object = None) -> None:
        self.send_parts(kind, [msgpack.encode(body)])

    @abstractmethod
    def send_parts(self, kind: int, parts: Sequence[bytes | memoryview]) -> None:
        """Send a message whose body are all parts, one after the other."""

    @abstractmethod
    def receive(self) -> tuple[int, memoryview]:
        """Wait for a message."""

    def detach(self) -> socket.socket:
        """Return the socket of the connection, which nothing else uses then. The link is of no more use."""
        raise NotImplementedError

    @abstractmethod
    def close(self) -> None:
        """Close the connection. May be called from any thread; who waits for a message gets LinkError."""


class Event:
    """An event that threads wait for."""

    @abstractmethod
    def set(self) -> None: ...

    @abstractmethod
    def clear(self) -> None: ...

    @abstractmethod
    def is_set(self) -> bool: ...

    @abstractmethod
    def wait(self, seconds: float) -> bool:
        """Wait until the event is set, or so long. Returns whether it is set."""


class Machine:
    """The network and the threads of a node."""

    @abstractmethod
    def connect(self, address: str, silence_seconds: float) -> Link:
        """Connect to a node; the address is host:port. Blocks. Raises LinkError, or NobodyListens.

        Who waits for a message gets LinkError after so many seconds of silence. The link has to be authenticated before
        it is used.
        """

    @abstractmethod
    def serve(self, serve: Callable[[Link], None]) -> None:
        """Accept other nodes from now on, and serve each connection on a thread of its own until `serve` returns.

        Links are authenticated before they are served.
        """

    @abstractmethod
    def start(self, work: Callable[[], None]) -> Callable[[], None]:
        """Start a thread. Returns what waits for its end."""

    @abstractmethod
    def run(self, work: Callable[[], None]) -> Awaitable[None]:
        """Let a thread do this; the event loop awaits its end."""

    @abstractmethod
    def event(self) -> Event: ...

    @abstractmethod
    def close(self) -> None:
        """Accept no more nodes."""


class Directory:
    """A data directory. `disk` has its files, except for those of the definitions."""

    def __init__(self, disk: Disk, root: Path) -> None:
        self.disk = disk
        self.root = root

    @abstractmethod
    def names(self) -> list[str]:
        """The paths of all files that followers have, too, within the directory; sorted."""

    @abstractmethod
    def open_definitions(self) -> DefinitionDatabase: ...

    @abstractmethod
    def copy_definitions(self) -> bytes:
        """A consistent copy of the definitions, which may be in use."""

    @abstractmethod
    def put_definitions(self, data: memoryview) -> None:
        """Replace the definitions by a copy, durably. They must not be open."""
