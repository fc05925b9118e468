"""Chunks: messages with their offsets in the body of one reply, for readers that fetch ranges."""

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from flintmq.base.errors import LocalProtocolError
from flintmq.broker.message import Address, Message
from flintmq.broker.ports import StreamCursor
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.gateway.conversion.converted import TO_091
from flintmq.wire.amqp091.chunk import REDELIVERED, push_long_record, push_record, push_run
from flintmq.wire.amqp091.tables import encode_address

# The maximum bytes of a reply, unless a single message is larger: about ten milliseconds of the event loop.
_MAX_BYTES: Final = 4 * 1024 * 1024
_MAX_RECORDS: Final = 16_384
# The properties of the content that carries a chunk.
NO_PROPERTIES: Final = b"\x00\x00"
# Messages are copied into pieces of about this many bytes, which fit a frame of the usual size.
_PIECE_BYTES: Final = 96 * 1024
# An offset that no run has.
_NO_RUN: Final = -1


def _encode(address: Address) -> bool:
    """Encode an address. Returns False if its names are too long for short strings."""
    try:
        address.encoded = encode_address(address.exchange, address.routing_key)
    except LocalProtocolError:
        return False
    return True


@final
class Chunk:
    """Builds the body of a reply. `max_bytes` is the reader's limit, 0: the server's; `room` is what is left of it."""

    def __init__(self, max_bytes: int) -> None:
        self.room: i64 = min(max_bytes or _MAX_BYTES, _MAX_BYTES)
        self.count: i64 = 0
        self._writer = BytesWriter()
        # The pieces before those messages that are in the writer.
        self._pieces: list[bytes] = []
        # The run at the end of the pieces, which may be continued: its index there, its first offset and its end.
        self._run_at: i64 = 0
        self._run_first: i64 = 0
        self._run_next: i64 = _NO_RUN

    @property
    def is_full(self) -> bool:
        return self.room <= 0 or self.count >= _MAX_RECORDS

    def push(self, offset: i64, message: Message, redelivered: bool) -> bool:
        """Add a message. Returns False if there is no room for it. The first one always fits."""
        properties, body = message.properties, message.body
        if message.codec is not CODEC_091:
            properties, body = TO_091.in_091(message)
        self.room -= len(properties) + len(body)
        if self.room < 0 and self.count > 0:
            return False
        if self._run_next != _NO_RUN:
            self._lay_aside()
        address = message.address
        flags: i64 = REDELIVERED if redelivered else 0
        if not address.encoded and not _encode(address):
            # An earlier release stored the message with longer names.
            names = [address.exchange.encode(), address.routing_key.encode()]
            push_long_record(self._writer, offset, message.timestamp_ms, flags, names, properties, body)
        else:
            push_record(self._writer, offset, message.timestamp_ms, flags, address.encoded, properties, body)
        if len(self._writer) >= _PIECE_BYTES:
            self._lay_aside()
        self.count += 1
        return True

    def push_run(self, offset: i64, count: i64, contents: bytes) -> None:
        """Add `count` messages from `offset` on, as `contents` that the storage holds in the format of the reply."""
        pieces = self._pieces
        if offset != self._run_next:
            self._lay_aside()
            self._run_at = len(pieces)
            self._run_first = offset
            # The header of the run, with the number of messages, replaces this when the run ends.
            pieces.append(b"")
        pieces.append(contents)
        self._run_next = offset + count
        self.room -= len(contents)
        self.count += count

    def take(self) -> list[bytes]:
        """The body in pieces. Contents of the storage are not copied."""
        self._lay_aside()
        return self._pieces

    def _lay_aside(self) -> None:
        """End the current run, or the piece that is in the writer."""
        writer = self._writer
        if len(writer) > 0:
            self._pieces.append(writer.getvalue())
            writer.truncate(0)
        elif self._run_next != _NO_RUN:
            push_run(writer, self._run_first, self._run_next - self._run_first)
            self._pieces[self._run_at] = writer.getvalue()
            writer.truncate(0)
        self._run_next = _NO_RUN


def read_range(cursor: StreamCursor, start: i64, stop: i64, chunk: Chunk) -> i64:
    """Fill a chunk with the messages from `start` on, at which the cursor is. Returns the offset behind the last one.

    Damaged messages at the end of the range are left out; the returned offset is then behind them, too.
    """
    following = start
    while not chunk.is_full:
        run = cursor.run(stop, chunk.room, chunk.count == 0, CODEC_091.format)
        if cursor.run_count > 0:
            following = cursor.offset
            chunk.push_run(following - cursor.run_count, cursor.run_count, run)
            continue
        message = cursor.next(stop)
        if message is None:
            return min(cursor.offset, stop)
        if not chunk.push(cursor.offset - 1, message, False):
            break
        following = cursor.offset
    return following
