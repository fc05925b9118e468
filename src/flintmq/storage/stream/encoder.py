"""Stream records in memory: staged for the sync thread, and read back out of blocks. Never touches the disk.

The payload of a stream block: first offset i64, the highest receive time of all records before it i64 (Unix ms),
count u32, then the content of each record (see content.py). Receive times may go backwards, their running maximum
does not: it is what a search by time bisects.
"""

from typing import Final, final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from flintmq.broker.message import ContentCodec, Message
from flintmq.broker.ports import StreamRecord
from flintmq.storage.content import (
    BLOCK_BYTES,
    AddressEncoder,
    ContentReader,
    write_content_head,
)

BLOCK_FIELDS_BYTES: Final = 20
# An empty message with an empty address.
RECORD_MIN_BYTES: Final = 22


@final
class StreamBlock:
    """A staged block. `highest_before` is the running maximum of receive times before it."""

    def __init__(self, parts: tuple[bytes, ...], first_offset: int, count: int, highest_before: int) -> None:
        self.parts = parts
        self.first_offset = first_offset
        self.count = count
        self.highest_before = highest_before


@final
class StreamEncoder:
    def __init__(self, next_offset: int, highest_timestamp: int) -> None:
        self._writer = BytesWriter()
        self._blocks: list[StreamBlock] = []
        self._addresses = AddressEncoder()
        self._next: i64 = next_offset
        self._highest: i64 = highest_timestamp
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
        if message.timestamp_ms > self._highest:
            self._highest = message.timestamp_ms
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
        self._blocks.append(
            StreamBlock(parts, self._block_first, self._next - self._block_first, self._block_highest_before)
        )
        self._writer.truncate(0)
        self._block_first = self._next
        self._block_highest_before = self._highest

    def take(self) -> list[StreamBlock]:
        """End the batch."""
        if len(self._writer) > 0:
            self._end_block(b"")
        blocks = self._blocks
        self._blocks = []
        return blocks


def block_fields(data: bytes, start: int) -> tuple[int, int, int]:
    """First offset, highest receive time before, and count of the block whose payload starts here."""
    return read_i64_be(data, start), read_i64_be(data, start + 8), read_i32_be(data, start + 16)


@final
class StreamReader:
    """Collects records from `next` on, out of blocks fed in order, until one of its limits is reached."""

    def __init__(self, codecs: dict[int, ContentCodec]) -> None:
        self.next: i64 = 0
        self.full = False
        self.records: list[StreamRecord] = []
        self._room_records: i64 = 0
        self._room_bytes: i64 = 0
        self._content = ContentReader(codecs)

    def begin(self, offset: int, max_records: int, max_bytes: int) -> None:
        self.next = offset
        self.full = max_records <= 0
        self.records = []
        self._room_records = max_records
        self._room_bytes = max_bytes

    def add(self, offset: int, message: Message) -> None:
        """Take one record if it fits; the first always does."""
        size: i64 = len(message.properties) + len(message.body)
        if size > self._room_bytes and len(self.records) > 0:
            self.full = True
            return
        self.records.append(StreamRecord(offset, message))
        self.next = offset + 1
        self._room_bytes -= size
        self._room_records -= 1
        if self._room_records <= 0 or self._room_bytes <= 0:
            self.full = True

    def read_block(self, data: bytes, start: int) -> None:
        position: i64 = start + BLOCK_FIELDS_BYTES
        offset = read_i64_be(data, start)
        end = offset + i64(read_i32_be(data, start + 16))
        while offset < end and not self.full:
            if offset < self.next:
                self._content.skip(data, position)
            else:
                self.add(offset, self._content.read(data, position))
            position = self._content.position
            offset += 1
