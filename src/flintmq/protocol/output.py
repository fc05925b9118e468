"""The output of a connection: bytes gathered during a tick, which the transport writes at the end of the tick."""

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from flintmq.base.limits import FRAME_MIN_BYTES, OUTPUT_HIGH_WATER_BYTES, OUTPUT_LOW_WATER_BYTES

# A body of at least this size is handed to the kernel without a copy: copying it into the batch costs more.
LARGE_BODY_BYTES: Final = 65_536
# The approximate cost of a message beside its body, in bytes. With it, a flood of empty messages counts too.
_CONTENT_OVERHEAD_BYTES: Final = 64
# A writer that grew beyond this size in a burst is replaced by a new one.
_WRITER_KEEP_BYTES: Final = 1024 * 1024


@final
class Outbox:
    """The outputs to visit at the end of a tick: `waiting` have bytes to write, `starved` have refused a message."""

    def __init__(self) -> None:
        self.waiting: list[Output] = []
        self.starved: list[Output] = []


@final
class Output:
    """The outgoing side of a connection. `outbox` is shared by all connections of a server."""

    def __init__(self, outbox: Outbox) -> None:
        self.writer: BytesWriter = BytesWriter()
        # Until tuning, frames are at most of the minimum size that every peer accepts (amqp-0-9-1 §4.2.3).
        self.frame_max: i64 = FRAME_MIN_BYTES
        # Body bytes that the kernel has not taken yet. Above the high-water mark, consumers of this connection wait.
        self.backlog: i64 = 0
        self._chunks: list[bytes | memoryview] = []
        self._outbox = outbox
        self._is_waiting = False
        self._is_starved = False

    def has_room(self) -> bool:
        """Return whether another message may be written now. After False, `backlog_is` says when to ask again."""
        if self.backlog < OUTPUT_HIGH_WATER_BYTES:
            return True
        if not self._is_starved:
            self._is_starved = True
            self._outbox.starved.append(self)
        return False

    def backlog_is(self, size: i64) -> bool:
        """Set the backlog to the `size` bytes that the transport still holds.

        Returns True if a message was refused before and there is room for it now.
        """
        self.backlog = size
        if self._is_starved and size < OUTPUT_LOW_WATER_BYTES:
            self._is_starved = False
            return True
        return False

    def touch(self) -> None:
        """Enter the output in the outbox. Every write to `writer` needs this call."""
        if not self._is_waiting:
            self._is_waiting = True
            self._outbox.waiting.append(self)

    def charge(self, body_size: i64) -> None:
        """Count a message with `body_size` bytes of body as part of the backlog."""
        self.backlog += body_size + _CONTENT_OVERHEAD_BYTES

    def lay_behind(self, body: bytes, start: i64, stop: i64) -> None:
        """Append body[start:stop], which is large, after the bytes gathered so far, without a copy."""
        self._chunks.append(self.writer.getvalue())
        self.writer.truncate(0)
        self._chunks.append(body if stop - start == len(body) else memoryview(body)[start:stop])

    def take_together(self) -> bytes | None:
        """Remove and return all bytes gathered so far if they are in one piece. After None, call `take`."""
        if self._chunks or len(self.writer) > _WRITER_KEEP_BYTES:
            return None
        self._is_waiting = False
        data = self.writer.getvalue()
        self.writer.truncate(0)
        return data

    def take(self) -> list[bytes | memoryview]:
        """Remove and return all bytes gathered so far, in order, for the caller to write."""
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
