"""Memory limits for messages that are received in part: of each connection, and of the node."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.limits import ASSEMBLY_MAX_BYTES, COUNTED_FRAME_BYTES

# More bytes than any node can hold.
_NO_LIMIT: Final = 1 << 62


@final
class NodeReassembly:
    """The total of all connections: `held` bytes. Above `most` bytes, only one of the connections is read at a time."""

    def __init__(self) -> None:
        self.held: i64 = 0
        self.most: i64 = _NO_LIMIT

    @property
    def is_full(self) -> bool:
        return self.held > self.most


class Reassembly:
    """Counts the bytes of messages and of a frame that one connection has begun and not completed.

    `held` is the part of the messages. The node's account has the same bytes. `message_max` is the size of the largest
    message that is allowed. All sizes are in bytes.
    """

    def __init__(self, message_max: i64, node: NodeReassembly | None = None) -> None:
        self._node = node or NodeReassembly()
        self.held: i64 = 0
        # The bytes received of the incomplete frame.
        self._frame: i64 = 0
        # Two messages of the largest size fit at once, whatever that size is.
        self.held_max: i64 = max(ASSEMBLY_MAX_BYTES, 2 * message_max)

    def add(self, size: i64) -> bool:
        """Count a part of an incomplete message. Returns whether the connection may hold that much."""
        self.held += size
        self._node.held += size
        return self.held <= self.held_max

    def release(self, size: i64) -> None:
        """Discount bytes of a message that is complete or whose channel or link has ended."""
        self.held -= size
        self._node.held -= size

    def hold_frame(self, size: i64, needed: i64) -> None:
        """Count the `size` bytes received of an incomplete frame of `needed` bytes, in place of those counted before.

        A size of 0 means that no frame is incomplete. Fewer than COUNTED_FRAME_BYTES bytes are not counted.
        """
        if size < COUNTED_FRAME_BYTES or size >= needed:
            size = 0
        self._node.held += size - self._frame
        self._frame = size

    @property
    def all_held(self) -> i64:
        """The bytes held of incomplete messages and of the incomplete frame."""
        return self.held + self._frame
