"""Messages between a leader and a follower: their kinds and their bodies."""

import struct
from collections.abc import Sequence
from typing import Final, TypeVar

from msgspec import DecodeError, Struct, msgpack

from flintmq.cluster.ports import LinkError

# The first message of a follower, and the leader's answer.
HELLO: Final = 1
WELCOME: Final = 2
REFUSED: Final = 3
# The first message of a follower that relays clients. After WELCOME, the connection carries frames of server/relay.
RELAY: Final = 14
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
# Up to which number the files that were copied may have operations: the copy is whole when all of them were made again.
COPIED: Final = 14
# The leader hears nothing from the follower, and closes the connection with this.
UNHEARD: Final = 15
# The leader has stopped in order, and closes the connection with this. Followers that had caught up have everything.
# The body is the name of the one that is to be elected in its place.
HANDED_OVER: Final = 16

# The version of these messages. A follower may be newer than its leader, but not older.
PROTOCOL: Final = 1
_OPERATIONS_HEAD: Final = struct.Struct(">QI")
_LENGTH: Final = struct.Struct(">I")


class Hello(Struct):
    """Who follows. `term` and `number` are those of the last operation that it has; 0 if its directory is to be copied,
    and in RELAY.

    `seen_term` is the highest term that the node has ever seen. `inherits`: whether it knows what HANDED_OVER is.
    """

    protocol: int
    cluster: str
    node: str
    version: str
    seen_term: int
    term: int
    number: int
    inherits: bool = False


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
    data: memoryview


class End(Struct):
    """The end of a file; a size of -1 says that it was removed."""

    path: str
    size: int


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
    found = []
    try:
        first, count = _OPERATIONS_HEAD.unpack_from(body)
        at = _OPERATIONS_HEAD.size
        for _ in range(count):
            (size,) = _LENGTH.unpack_from(body, at)
            at += _LENGTH.size
            found.append(body[at : at + size])
            at += size
    except struct.error as error:
        raise LinkError(f"the leader sends operations that cannot be read ({error})") from error
    if at != len(body):
        raise LinkError("the leader sends operations that do not fill their message")
    return first, found
