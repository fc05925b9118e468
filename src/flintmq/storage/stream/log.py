"""A stream as the broker sees it: staged records in memory, older ones in files."""

from collections import deque
from typing import Final, final

from flintmq.base.errors import StorageError
from flintmq.broker.message import ContentCodec, Message
from flintmq.broker.ports import StreamLog, StreamRecord
from flintmq.storage.stream.encoder import StreamBlock, StreamEncoder, StreamReader
from flintmq.storage.stream.files import StreamFiles

# A search by time looks at so many records in one go, behind the point the index gave it.
SEARCH_RECORDS: Final = 1_024
SEARCH_BYTES: Final = 1024 * 1024


@final
class SegmentedStream(StreamLog):
    """All methods are called on the event loop's thread; `files` is written by the sync thread."""

    def __init__(
        self, files: StreamFiles, codecs: dict[int, ContentCodec], staged: dict["SegmentedStream", None]
    ) -> None:
        self.files = files
        self._encoder = StreamEncoder(files.written_offset, files.highest_timestamp)
        self._reader = StreamReader(codecs)
        # The records that are not in the files yet, and the offset of the first of them.
        self._tail: deque[Message] = deque()
        self._tail_offset = files.written_offset
        # The node's streams with something to commit.
        self._staged = staged

    @property
    def first_offset(self) -> int:
        segments = self.files.segments
        return segments[0].first_offset if segments else self._tail_offset

    @property
    def next_offset(self) -> int:
        return self._encoder.next_offset

    @property
    def durable_offset(self) -> int:
        return self.files.durable_offset

    def append(self, message: Message) -> int:
        offset = self._encoder.append(message)
        self._tail.append(message)
        self._staged[self] = None
        return offset

    def take(self) -> list[StreamBlock]:
        """End the batch."""
        self._trim()
        return self._encoder.take()

    def _trim(self) -> None:
        written = self.files.written_offset
        while self._tail_offset < written:
            self._tail.popleft()
            self._tail_offset += 1

    def read(self, offset: int, max_records: int, max_bytes: int) -> list[StreamRecord]:
        self._trim()
        reader = self._reader
        reader.begin(max(offset, self.first_offset), max_records, max_bytes)
        try:
            self.files.read(reader)
        except OSError as error:
            raise _unreadable(error) from error
        # Records that the sync thread wrote after the trim may have come from the files already.
        first = max(reader.next, self._tail_offset)
        for position in range(first - self._tail_offset, len(self._tail)):
            if reader.full:
                break
            reader.add(self._tail_offset + position, self._tail[position])
        return reader.records

    def offset_at(self, timestamp_ms: int) -> int:
        try:
            offset = self.files.search_from(timestamp_ms)
        except OSError as error:
            raise _unreadable(error) from error
        while records := self.read(offset, SEARCH_RECORDS, SEARCH_BYTES):
            for record in records:
                if record.message.timestamp_ms >= timestamp_ms:
                    return record.offset
            offset = records[-1].offset + 1
        return self.next_offset


def _unreadable(error: OSError) -> StorageError:
    return StorageError(f"{error.filename} cannot be read ({error.strerror}): check the disk and its permissions")
