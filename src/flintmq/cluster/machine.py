"""The machine of a node: TCP connections, threads, and its disk."""

import asyncio
import os
import socket
import sqlite3
import struct
import tempfile
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Final, final

from flintmq.cluster.acceptor import Acceptor
from flintmq.cluster.credentials import Credentials, Stream
from flintmq.cluster.ports import Directory, Event, Link, LinkError, Machine, NobodyListens, Silent
from flintmq.storage.definitions.database import DefinitionDatabase
from flintmq.storage.files import RealDisk, replace_file
from flintmq.storage.layout import DEFINITIONS
from flintmq.storage.replication.disk import is_replicated

# A node is reached within this time, or it is not there.
CONNECT_SECONDS: Final = 1.0
MESSAGE_MAX_BYTES: Final = 1 << 30
# Linux takes at most this many parts at once (IOV_MAX).
_PARTS_MAX: Final = 1_024
# How often the system asks a silent machine whether it is there: the shortest time that Linux knows.
_PROBE_SECONDS: Final = 1
# The length of the body, and the kind.
_HEAD: Final = struct.Struct(">IB")


@final
class TcpLink(Link):
    """A connection whose other end is silent for at most `silence_seconds`. This node `connects`, or the other one did.

    Raises OSError if the connection has ended already.
    """

    def __init__(
        self, connection: socket.socket, silence_seconds: float, credentials: Credentials, connects: bool
    ) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = credentials.wrap(connection, connects)
        self._socket.settimeout(silence_seconds)
        self._silence_seconds = silence_seconds
        self._credentials = credentials
        self._connects = connects
        # Closed, or somebody else's.
        self._is_over = False

    def authenticate(self) -> None:
        try:
            self._credentials.authenticate(self._socket, self._connects, self._silence_seconds)
        except LinkError as error:
            if self._is_over:
                # Whatever the calls of a closed socket say.
                raise LinkError("the connection was closed") from error
            raise

    def send_parts(self, kind: int, parts: Sequence[bytes | memoryview]) -> None:
        size = 0
        for part in parts:
            size += len(part)
        waiting = [memoryview(_HEAD.pack(size, kind)), *[memoryview(part) for part in parts]]
        try:
            at = 0
            while at < len(waiting):
                sent = self._socket.sendmsg(waiting[at : at + _PARTS_MAX])
                while at < len(waiting) and sent >= len(waiting[at]):
                    sent -= len(waiting[at])
                    at += 1
                if sent:
                    waiting[at] = waiting[at][sent:]
        except TimeoutError:
            raise Silent("the other node takes nothing") from None
        except OSError as error:
            raise LinkError(f"the connection to the other node is broken ({error})") from error

    def receive(self) -> tuple[int, memoryview]:
        size, kind = _HEAD.unpack(self._read(_HEAD.size))
        if size > MESSAGE_MAX_BYTES:
            raise LinkError(f"the other node sends a message of {size} bytes: is it FlintMQ?")
        return kind, self._read(size)

    def _read(self, size: int) -> memoryview:
        data = memoryview(bytearray(size))
        at = 0
        while at < size:
            try:
                got = self._socket.recv_into(data[at:])
            except TimeoutError:
                raise Silent("the other node is silent") from None
            except OSError as error:
                raise LinkError(f"the connection to the other node is broken ({error})") from error
            if not got:
                raise LinkError("the other node has closed the connection")
            at += got
        return data

    def detach(self) -> socket.socket:
        """Return a socket that does not block, for the bytes behind the last message. Nobody may use the link any more.

        It is the connection itself or, with TLS, one of a pair: of the family AF_UNIX.
        """
        self._is_over = True
        _bound_silence(self._socket, self._silence_seconds)
        given = self._socket if isinstance(self._socket, socket.socket) else self._socket.pumped()
        given.setblocking(False)
        return given

    def close(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        # It may not be connected any more.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def _bound_silence(connection: Stream, seconds: float) -> None:
    """Let the system break a connection when the other machine, not its program, is silent for so long."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL):
        connection.setsockopt(socket.IPPROTO_TCP, option, _PROBE_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(seconds * 1000))


def dial(address: str, silence_seconds: float, credentials: Credentials) -> TcpLink:
    """Connect to a node; the address is host:port. Blocks. Raises LinkError, NobodyListens or Silent.

    The link has to be authenticated before it is used.
    """
    host, _, port = address.rpartition(":")
    try:
        name = host.removeprefix("[").removesuffix("]")
        connection = socket.create_connection((name, int(port)), CONNECT_SECONDS)
        return _link(connection, silence_seconds, credentials, connects=True)
    except ConnectionRefusedError as error:
        raise NobodyListens(f"nobody listens at {address}") from error
    except TimeoutError as error:
        raise Silent(f"there is no answer from {address}") from error
    except (OSError, ValueError) as error:
        raise LinkError(f"the node at {address} cannot be reached ({error})") from error


def _link(connection: socket.socket, silence_seconds: float, credentials: Credentials, connects: bool) -> TcpLink:
    try:
        return TcpLink(connection, silence_seconds, credentials, connects)
    except OSError:
        connection.close()
        raise


@final
class ThreadEvent(Event):
    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def clear(self) -> None:
        self._event.clear()

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        return self._event.wait(seconds)


@final
class RealMachine(Machine):
    """`bound` is the socket that is listened on for followers, which may be silent for at most `silence_seconds`."""

    def __init__(self, bound: socket.socket, silence_seconds: float, credentials: Credentials) -> None:
        self._bound = bound
        self._silence_seconds = silence_seconds
        self._credentials = credentials
        self._acceptor: Acceptor | None = None

    def connect(self, address: str, silence_seconds: float) -> Link:
        return dial(address, silence_seconds, self._credentials)

    def serve(self, serve: Callable[[Link], None]) -> None:
        link = partial(_link, silence_seconds=self._silence_seconds, credentials=self._credentials, connects=False)
        self._acceptor = Acceptor(self._bound, link, serve)
        self._acceptor.start()

    def start(self, work: Callable[[], None]) -> Callable[[], None]:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        return thread.join

    def run(self, work: Callable[[], None]) -> Awaitable[None]:
        return asyncio.to_thread(work)

    def event(self) -> Event:
        return ThreadEvent()

    def close(self) -> None:
        if self._acceptor is not None:
            self._acceptor.close()
        # Closing alone would not end the call that waits for the next connection.
        with suppress(OSError):
            self._bound.shutdown(socket.SHUT_RDWR)
        self._bound.close()


@final
class RealDirectory(Directory):
    def __init__(self, root: Path) -> None:
        super().__init__(RealDisk(), root)

    def names(self) -> list[str]:
        start = len(f"{self.root}/")
        paths = [f"{directory}/{name}"[start:] for directory, _, names in os.walk(self.root) for name in names]
        return sorted(filter(is_replicated, paths))

    def open_definitions(self) -> DefinitionDatabase:
        return DefinitionDatabase(self.root / DEFINITIONS)

    def copy_definitions(self) -> bytes:
        with tempfile.TemporaryDirectory(prefix=".follower-", dir=self.root) as directory:
            copy = Path(directory) / "copy"
            uri = f"{(self.root / DEFINITIONS).absolute().as_uri()}?mode=ro"
            with closing(sqlite3.connect(uri, uri=True)) as source, closing(sqlite3.connect(copy)) as target:
                # The copy is in WAL mode as its source is: a leader would need four syncs to change that.
                source.backup(target)
            return copy.read_bytes()

    def put_definitions(self, data: memoryview) -> None:
        path = self.root / DEFINITIONS
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        replace_file(self.disk, path, path.with_name(path.name + ".copy"), data)
