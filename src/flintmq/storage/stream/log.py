"""A stream as the broker sees it: records are staged in memory, and read from files once they are written."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.broker.message import Message
from flintmq.broker.ports import StreamCursor, StreamLimits, StreamLog, StreamPlace
from flintmq.storage.content import ContentReader
from flintmq.storage.stream.cursor import SegmentCursor, unreadable
from flintmq.storage.stream.encoder import StreamBlock, StreamEncoder
from flintmq.storage.stream.files import StreamFiles
from flintmq.storage.stream.index import INDEX_STEP_BYTES
from flintmq.storage.stream.open_files import OpenFiles

# The parts of a segment's path within the data directory: streams, the id of the queue, the name.
PATH_PARTS: Final = 3


@final
class SegmentedStream(StreamLog):
    """A stream in segment files. All methods are called on the event loop's thread; the sync thread writes `files`."""

    def __init__(
        self,
        files: StreamFiles,
        open_files: OpenFiles,
        content: ContentReader,
        staged: dict["SegmentedStream", None],
    ) -> None:
        self.files = files
        self._open_files = open_files
        self._encoder = StreamEncoder(files.written_offset, files.highest_timestamp)
        self._content = content
        self._segment_bytes = files.segment_limit
        # The first offset as long as there is no file.
        self._begin: i64 = files.written_offset
        # All streams of the node with staged records.
        self._staged = staged
        self._is_staged = False

    @property
    def first_offset(self) -> int:
        segments = self.files.segments
        return segments[0].first_offset if segments else self._begin

    @property
    def next_offset(self) -> int:
        return self._encoder.next_offset

    @property
    def durable_offset(self) -> int:
        return self.files.durable_offset

    @property
    def size_bytes(self) -> int:
        return self.files.size

    @property
    def segment_count(self) -> int:
        return len(self.files.segments)

    def append(self, message: Message) -> int:
        if not self._is_staged:
            self._stage()
        return self._encoder.append(message)

    def _stage(self) -> None:
        self._is_staged = True
        self._staged[self] = None

    def take(self) -> list[StreamBlock]:
        """End the batch; return its blocks."""
        self._is_staged = False
        self._close_retired()
        return self._encoder.take()

    # -- limits -------------------------------------------------------------------------------------------------

    def limit(self, limits: StreamLimits) -> None:
        files = self.files
        files.max_bytes = limits.max_bytes
        files.max_age_ms = limits.max_age_ms
        files.segment_limit = limits.segment_bytes if limits.segment_bytes > 0 else self._segment_bytes

    def retire(self, now_ms: i64) -> None:
        self.files.retire_at_ms = now_ms
        self._stage()

    @property
    def retires_more(self) -> bool:
        return self.files.retires_more

    # -- reading ------------------------------------------------------------------------------------------------

    def cursor(self, offset: int, ahead_bytes: int) -> StreamCursor:
        self._close_retired()
        return SegmentCursor(self.files, self._open_files, self._content, offset, ahead_bytes)

    def place(self, offset: int) -> StreamPlace | None:
        files = self.files
        segment = files.segment_at(offset)
        if segment is None:
            return None
        try:
            index = files.index_of(segment)
        except OSError:
            # Whoever reads there finds out why.
            return None
        path = "/".join(segment.path.parts[-PATH_PARTS:])
        return StreamPlace(path, segment.first_offset, index.magic, index.position_of(offset), segment.size)

    def _close_retired(self) -> None:
        """Close removed files, which keep their disk space while they are open."""
        retired = self.files.retired
        while retired:
            self._open_files.forget(retired.popleft())

    def offset_near(self, timestamp_ms: int) -> int:
        try:
            return self.files.search_from(timestamp_ms)
        except OSError as error:
            raise unreadable(error) from error

    def offset_behind(self, offset: int, size: int) -> int:
        try:
            return self.files.offset_behind(offset, size)
        except OSError as error:
            raise unreadable(error) from error

    def offset_at(self, timestamp_ms: int) -> int:
        durable: i64 = self.durable_offset
        cursor = self.cursor(self.offset_near(timestamp_ms), INDEX_STEP_BYTES)
        while (message := cursor.next(durable)) is not None:
            if message.timestamp_ms >= timestamp_ms:
                return cursor.offset - 1
        return durable
