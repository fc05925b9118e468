"""Encoder for stream records, which it stages in memory. It never accesses the disk.

The payload of a stream block: first offset i64, the highest receive time of all earlier records i64 (Unix ms), count
u32, then the content of each record (see content.py). Receive times may go backwards, their running maximum does not,
so a search by time can bisect it.
"""

from typing import Final, final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from flintmq.broker.message import Message
from flintmq.storage.content import BLOCK_BYTES, AddressEncoder, write_content_head

BLOCK_FIELDS_BYTES: Final = 20
# The size of an empty message with an empty address.
RECORD_MIN_BYTES: Final = 22


@final
class StreamBlock:
    """A staged block. `highest_before` and `highest` are the running maximum of receive times before and after it;
    `received_ms` is the receive time of its last record. All times are Unix ms.
    """

    def __init__(
        self,
        parts: tuple[bytes, ...],
        first_offset: int,
        count: int,
        highest_before: int,
        highest: int,
        received_ms: int,
    ) -> None:
        self.parts = parts
        self.first_offset = first_offset
        self.count = count
        self.highest_before = highest_before
        self.highest = highest
        self.received_ms = received_ms


@final
class StreamEncoder:
    def __init__(self, next_offset: int, highest_timestamp: int) -> None:
        self._writer = BytesWriter()
        self._blocks: list[StreamBlock] = []
        self._addresses = AddressEncoder()
        self._next: i64 = next_offset
        self._highest: i64 = highest_timestamp
        self._received: i64 = 0
        self._block_first: i64 = next_offset
        self._block_highest_before: i64 = highest_timestamp

    @property
    def next_offset(self) -> int:
        return self._next

    def append(self, message: Message) -> int:
        writer = self._writer
        write_content_head(writer, message, self._addresses.encode(message.address))
        offset = self._next
        self._next += 1
        self._received = message.timestamp_ms
        if self._received > self._highest:
            self._highest = self._received
        body = message.body
        if len(body) >= BLOCK_BYTES:
            self._end_block(body)
        else:
            writer.write(body)
            if len(writer) >= BLOCK_BYTES:
                self._end_block(b"")
        return offset

    def _end_block(self, last_body: bytes) -> None:
        fields = BytesWriter()
        write_i64_be(fields, self._block_first)
        write_i64_be(fields, self._block_highest_before)
        write_i32_be(fields, i32(self._next - self._block_first))
        parts: tuple[bytes, ...] = (fields.getvalue(), self._writer.getvalue(), last_body)
        count = self._next - self._block_first
        self._blocks.append(
            StreamBlock(parts, self._block_first, count, self._block_highest_before, self._highest, self._received)
        )
        self._writer.truncate(0)
        self._block_first = self._next
        self._block_highest_before = self._highest

    def take(self) -> list[StreamBlock]:
        """End the batch; return its blocks."""
        if len(self._writer) > 0:
            self._end_block(b"")
        blocks = self._blocks
        self._blocks = []
        return blocks


def block_fields(data: bytes, start: i64) -> tuple[i64, i64, i64]:
    """First offset, highest receive time before, and number of records of the block whose payload begins at `start`."""
    return read_i64_be(data, start), read_i64_be(data, start + 8), i64(read_i32_be(data, start + 16))
