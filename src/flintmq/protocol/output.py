"""Bytes on their way to the peer: gathered during a tick, written by the transport at its end."""

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from flintmq.base.limits import FRAME_MIN_BYTES, OUTPUT_HIGH_WATER_BYTES, OUTPUT_LOW_WATER_BYTES

# From here on a body is cheaper to hand to the kernel from where it lies than to copy into the batch.
LARGE_BODY_BYTES: Final = 65_536
# About what a message costs beside its body, so that a flood of empty ones counts too.
_CONTENT_OVERHEAD_BYTES: Final = 64
# A writer that grew beyond this in a burst is not kept.
_WRITER_KEEP_BYTES: Final = 1024 * 1024


@final
class Outbox:
    """What the end of a tick has to visit: outputs that got bytes, and outputs that refused a message."""

    def __init__(self) -> None:
        self.waiting: list[Output] = []
        self.starved: list[Output] = []


@final
class Output:
    """The out-going side of a connection. `outbox` is shared by all connections of a server."""

    def __init__(self, outbox: Outbox) -> None:
        self.writer: BytesWriter = BytesWriter()
        # Before tuning, both sides keep to a minimum that every peer accepts (amqp-0-9-1 §4.2.3).
        self.frame_max: i64 = FRAME_MIN_BYTES
        # Body bytes gathered and not taken by the kernel yet; while too many, no consumer of this connection can take.
        self.backlog: i64 = 0
        self._chunks: list[bytes] = []
        self._outbox = outbox
        self._is_waiting = False
        self._is_starved = False

    def has_room(self) -> bool:
        """Whether another message may be written now. After a refusal, `backlog_is` says when to ask again."""
        if self.backlog < OUTPUT_HIGH_WATER_BYTES:
            return True
        if not self._is_starved:
            self._is_starved = True
            self._outbox.starved.append(self)
        return False

    def backlog_is(self, size: i64) -> bool:
        """The transport still holds this much. True when a message that was refused would now be taken."""
        self.backlog = size
        if self._is_starved and size < OUTPUT_LOW_WATER_BYTES:
            self._is_starved = False
            return True
        return False

    def touch(self) -> None:
        """To be called by whoever writes."""
        if not self._is_waiting:
            self._is_waiting = True
            self._outbox.waiting.append(self)

    def charge(self, body_size: i64) -> None:
        """Count a message: its body waits to be sent."""
        self.backlog += body_size + _CONTENT_OVERHEAD_BYTES

    def lay_behind(self, body: bytes) -> None:
        """Send a large body behind what was gathered so far, from where it lies."""
        self._chunks.append(self.writer.getvalue())
        self.writer.truncate(0)
        self._chunks.append(body)

    def take(self) -> list[bytes]:
        """Everything gathered so far, in order; the caller writes it."""
        self._is_waiting = False
        chunks = self._chunks
        size: i64 = len(self.writer)
        if size > 0:
            chunks.append(self.writer.getvalue())
            if size > _WRITER_KEEP_BYTES:
                self.writer = BytesWriter()
            else:
                self.writer.truncate(0)
        if chunks:
            self._chunks = []
        return chunks
