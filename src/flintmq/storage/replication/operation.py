"""Changes of the files of a data directory, as the leader of a cluster sends them to its followers.

A follower makes the same changes in the same order, with the same syncs. So its directory is always in a state in which
the leader's could be after a loss of power: recovery, which restores the leader after one, is all that a follower needs
to go on as the leader.

An encoded operation is a head (kind, length of the path, a number), the path within the directory, and data.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from flintmq.base.errors import StorageError

# The kinds. Their numbers are used between nodes, which may be of different versions: do not change them.
# `number` is a position in the file, or a size.
WRITE: Final = 1
WRITE_THROUGH: Final = 2
TRUNCATE: Final = 3
SYNC: Final = 4
CREATE: Final = 5
# The data is the new path.
RENAME: Final = 6
UNLINK: Final = 7
MAKE_DIRECTORY: Final = 8
SYNC_DIRECTORY: Final = 9
REMOVE_DIRECTORY: Final = 10
# Statements of one transaction of the definitions; there is no path.
APPLY: Final = 11
LAST_KIND: Final = APPLY
# The kinds after which earlier changes are durable, as far as recovery relies on them.
SYNCING: Final = frozenset({WRITE_THROUGH, SYNC, MAKE_DIRECTORY, SYNC_DIRECTORY, APPLY})

# An encoded operation, or a part of it. A follower's are parts of what it has received.
Buffer = bytes | memoryview

_HEAD: Final = struct.Struct(">BHq")


class Operation(NamedTuple):
    """One change. `path` is relative to the data directory."""

    kind: int
    path: str
    number: int
    data: Buffer


def encode(kind: int, path: str, number: int = 0, data: Sequence[bytes | memoryview] = ()) -> bytes:
    """Encode an operation."""
    name = path.encode(errors="surrogateescape")
    return b"".join([_HEAD.pack(kind, len(name), number), name, *data])


def decode(encoded: Buffer) -> Operation:
    """Decode an operation. Raises StorageError if it is not one, or of a kind that this version does not know."""
    if len(encoded) < _HEAD.size:
        raise StorageError(f"an operation from the leader has {len(encoded)} bytes only")
    kind, length, number = _HEAD.unpack_from(encoded)
    end = _HEAD.size + length
    if not 1 <= kind <= LAST_KIND or len(encoded) < end:
        raise StorageError(f"an operation of kind {kind} from the leader is unknown: upgrade this node first")
    path = bytes(encoded[_HEAD.size : end]).decode(errors="surrogateescape")
    return Operation(kind, path, number, encoded[end:])


def new_path(rename: Operation) -> str:
    """The path within the directory that a RENAME gives."""
    return bytes(rename.data).decode(errors="surrogateescape")
