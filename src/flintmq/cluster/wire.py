"""Messages between a leader and a follower: a length, a kind, and a body in MessagePack; or bytes as they are.

All calls block, because each connection has threads of its own: the event loop must not wait for a slow follower, and a
follower has nothing else to do.
"""

import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, TypeVar, final

from msgspec import DecodeError, Struct, msgpack

from flintmq.base.errors import FlintError

# The first message of a follower, and the leader's answer.
HELLO: Final = 1
WELCOME: Final = 2
REFUSED: Final = 3
# A follower asks for the files of the leader, one after the other.
LIST: Final = 4
FILES: Final = 5
FETCH: Final = 6
CHUNK: Final = 7
END: Final = 8
DEFINITIONS: Final = 9
# A follower asks for the operations behind a number, and says up to which it has them.
FOLLOW: Final = 10
OPERATIONS: Final = 11
ACKNOWLEDGE: Final = 12
# Nothing happened, but the leader is there.
ALIVE: Final = 13

# The version of these messages. A follower may be newer than its leader, but not older.
PROTOCOL: Final = 1
MESSAGE_MAX_BYTES: Final = 1 << 30
# Linux takes at most this many parts at once (IOV_MAX).
_PARTS_MAX: Final = 1_024
_HEAD: Final = struct.Struct(">IB")
_OPERATIONS_HEAD: Final = struct.Struct(">QI")
_LENGTH: Final = struct.Struct(">I")


class LinkError(FlintError):
    """The other node has closed the connection, is silent, or sends what cannot be read."""


class Refusal(FlintError):
    """The leader does not accept this follower. The text says why."""


class Hello(Struct):
    """Who follows. `term` and `number` are those of the last operation that it has; 0 if its directory is to be copied.

    `seen_term` is the highest term that the node has ever seen.
    """

    protocol: int
    cluster: str
    node: str
    version: str
    seen_term: int
    term: int
    number: int


class Welcome(Struct):
    """The leader's answer. `must_copy`: the files are to be copied first. `number` is that of its newest operation."""

    protocol: int
    node: str
    term: int
    number: int
    must_copy: bool


class Fetch(Struct):
    """Asks for the parts of a file that differ. `digests` are those of the follower's chunks."""

    path: str
    digests: list[bytes]


class Chunk(Struct):
    path: str
    position: int
    data: bytes


class End(Struct):
    """The end of a file; a size of -1 says that it was removed."""

    path: str
    size: int


@final
class Link:
    """A connection between two nodes. `silence_seconds` is how long a message is waited for."""

    def __init__(self, connection: socket.socket, silence_seconds: float) -> None:
        self._socket = connection
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(silence_seconds)

    def send(self, kind: int, body: object = None) -> None:
        self.send_parts(kind, [msgpack.encode(body)])

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
        except OSError as error:
            raise LinkError(f"the connection to the other node is broken ({error})") from error

    def receive(self) -> tuple[int, memoryview]:
        """Wait for a message. Raises LinkError."""
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
                raise LinkError("the other node is silent") from None
            except OSError as error:
                raise LinkError(f"the connection to the other node is broken ({error})") from error
            if not got:
                raise LinkError("the other node has closed the connection")
            at += got
        return data

    def close(self) -> None:
        # It may not be connected any more.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


T = TypeVar("T")


def read(body: bytes | memoryview, kind: type[T]) -> T:
    """Decode a body. Raises LinkError."""
    try:
        return msgpack.decode(body, type=kind)
    except DecodeError as error:
        raise LinkError(f"the other node sends what cannot be read ({error})") from error


def pack_operations(first: int, operations: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
    """The body of OPERATIONS; `first` is the number of the first one."""
    parts: list[bytes | memoryview] = [_OPERATIONS_HEAD.pack(first, len(operations))]
    for each in operations:
        parts.append(_LENGTH.pack(len(each)))
        parts.append(each)
    return parts


def unpack_operations(body: memoryview) -> tuple[int, list[memoryview]]:
    """The number of the first operation, and all of them. Raises LinkError."""
    first, count = _OPERATIONS_HEAD.unpack_from(body)
    at = _OPERATIONS_HEAD.size
    found = []
    for _ in range(count):
        (size,) = _LENGTH.unpack_from(body, at)
        at += _LENGTH.size
        found.append(body[at : at + size])
        at += size
    if at != len(body):
        raise LinkError("the leader sends operations that do not fill their message")
    return first, found
