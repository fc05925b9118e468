"""Cursor of a stream: reads record by record out of a few blocks in memory."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import StorageError
from flintmq.broker.message import Message
from flintmq.broker.ports import StreamCursor
from flintmq.storage.block import BLOCK_HEAD_BYTES, TYPE_STREAM, Damage, block_end
from flintmq.storage.content import ContentReader, content_end
from flintmq.storage.stream.encoder import BLOCK_FIELDS_BYTES, block_fields
from flintmq.storage.stream.files import StreamFiles, StreamSegment
from flintmq.storage.stream.open_files import OpenFiles

# A reader that skips many records lets others run after this many reads of the disk: a megabyte, if it reads as much
# at once as a consumer does.
_READS_MAX: Final = 32


@final
class SegmentCursor(StreamCursor):
    """A cursor that holds up to `ahead_bytes` of a segment in memory, or one larger block."""

    def __init__(
        self, files: StreamFiles, open_files: OpenFiles, content: ContentReader, offset: int, ahead_bytes: int
    ) -> None:
        super().__init__(offset)
        self._files = files
        self._open_files = open_files
        self._content = content
        self._ahead_bytes: i64 = max(ahead_bytes, BLOCK_HEAD_BYTES)
        self._segment: StreamSegment | None = None
        self._magic = b""
        # Bytes of the segment from `_position` on; the next block begins at index `_next_block`.
        self._data = b""
        self._position: i64 = 0
        self._next_block: i64 = 0
        # The block being read: the offset and the index of its next record, and the offset after its last one.
        self._record_offset: i64 = 0
        self._record_at: i64 = 0
        self._block_stop: i64 = 0
        # The number of disk reads that are left before others get their turn.
        self._reads: i64 = 0

    def next(self, end: i64) -> Message | None:
        self.has_more = False
        self._reads = _READS_MAX
        content = self._content
        while True:
            while self._record_offset < self._block_stop:
                offset = self._record_offset
                if offset >= end:
                    return None
                self._record_offset = offset + 1
                if offset < self.offset:
                    content.skip(self._data, self._record_at)
                    self._record_at = content.position
                    continue
                message = content.read(self._data, self._record_at)
                self._record_at = content.position
                self.offset = offset + 1
                if self.offset == self._block_stop and self._next_block == len(self._data):
                    self._release_data()
                return message
            if self.offset >= end or not self._advance(end):
                return None

    def run(self, end: i64, room: i64, is_first: bool, message_format: i64) -> bytes:
        self.has_more = False
        self._reads = _READS_MAX
        self.run_count = 0
        content = self._content
        while True:
            while self._record_offset < min(self._block_stop, self.offset):
                content.skip(self._data, self._record_at)
                self._record_at = content.position
                self._record_offset += 1
            if self._record_offset < self._block_stop:
                break
            if self.offset >= end or not self._advance(end):
                return b""
        data = self._data
        start: i64 = self._record_at
        at = start
        offset = self._record_offset
        stop = min(self._block_stop, end)
        while offset < stop and i64(data[at]) == message_format:
            following: i64 = content_end(data, at)
            if following - start > room and not (is_first and at == start):
                break
            at = following
            offset += 1
        self.run_count = offset - self._record_offset
        self._record_offset = offset
        self._record_at = at
        if self.run_count > 0:
            self.offset = offset
        return data[start:at]

    def _release_data(self) -> None:
        """Release the data that was read completely: a waiting reader holds no memory."""
        self._position += len(self._data)
        self._data = b""
        self._next_block = 0

    def _advance(self, end: i64) -> bool:
        """Go to the next block with a record to read; return False if there is none before `end`."""
        try:
            while True:
                segment = self._segment
                if segment is None:
                    segment = self._locate()
                    if segment is None:
                        return False
                if self._find_block(end):
                    return self.offset < end
                if self._reads == 0:
                    self.has_more = True
                    return False
                try:
                    if not self._read_more(segment) and not self._leave(segment):
                        return False
                except FileNotFoundError:
                    if self._files.has(segment):
                        raise
                    # Retention removed the segment meanwhile.
                    self._segment = None
        except OSError as error:
            raise unreadable(error) from error

    def _locate(self) -> StreamSegment | None:
        files = self._files
        segment = files.segment_at(self.offset)
        if segment is None:
            return None
        try:
            index = files.index_of(segment)
        except FileNotFoundError:
            if files.has(segment):
                raise
            # Retention removed the segment meanwhile; try the segment that is now the first.
            return self._locate()
        self.offset = max(self.offset, segment.first_offset)
        self._segment = segment
        self._magic = index.magic
        self._position = index.position_of(self.offset)
        self._data = b""
        self._next_block = 0
        self._block_stop = self._record_offset
        return segment

    def _find_block(self, end: i64) -> bool:
        """Go to the next block in memory with a record to read, or to one that begins at `end`."""
        data = self._data
        magic = self._magic
        start: i64 = self._next_block
        while True:
            stop: i64 = block_end(data, start, magic)
            if stop == 0:
                return False
            self._next_block = stop
            if data[start + BLOCK_HEAD_BYTES - 1] == TYPE_STREAM:
                first_offset, _, count = block_fields(data, start + BLOCK_HEAD_BYTES)
                behind: i64 = first_offset + count
                if behind > self.offset:
                    if len(self.wanted) == 0 or behind > end or self._occurs(start, stop):
                        self.offset = max(self.offset, first_offset)
                        self._record_offset = first_offset
                        self._block_stop = behind
                        self._record_at = start + BLOCK_HEAD_BYTES + BLOCK_FIELDS_BYTES
                        return True
                    self.offset = behind
            start = stop

    def _occurs(self, start: i64, stop: i64) -> bool:
        """Tell whether a message in this part of the data may be wanted."""
        return any(self._data.find(wanted, start, stop) >= 0 for wanted in self.wanted)

    def _read_more(self, segment: StreamSegment) -> bool:
        """Read more of the segment, from the incomplete block on; return False at its end."""
        position: i64 = self._position + self._next_block
        room: i64 = segment.size - position
        if room <= 0:
            return False
        file = self._open_files.get(segment.path)
        if self._next_block == 0 and len(self._data) > 0:
            # The block was read completely, and is broken.
            position = self._files.skip_damage(file, position, segment.size)
            room = segment.size - position
        if len(self.wanted) > 0:
            self._reads -= 1
        data = file.read_at(position, min(self._ahead_bytes, room))
        if len(data) >= BLOCK_HEAD_BYTES:
            length: i64 = BLOCK_HEAD_BYTES + int.from_bytes(data[4:8], "big")
            if len(data) < length <= room:
                data = file.read_at(position, length)
        if len(data) == 0 and room > 0:
            # The file was cut off. Waiting would not help, because the middle of a segment is never written.
            self._files.report(Damage(str(segment.path), position, f"the last {room} bytes are missing", room))
            position = segment.size
        self._data = data
        self._position = position
        self._next_block = 0
        return len(data) > 0

    def _leave(self, segment: StreamSegment) -> bool:
        """Go to the next segment; return False if this is the last one, or has grown meanwhile."""
        following = self._files.following(segment)
        if following is None:
            return False
        # Blocks may have been written to it before the next segment was begun.
        if self._position + self._next_block < segment.size:
            return True
        # Missing offsets between two segments were in damaged blocks.
        self.offset = max(self.offset, following.first_offset)
        self._segment = None
        return True


def unreadable(error: OSError) -> StorageError:
    return StorageError(f"{error.filename} cannot be read ({error.strerror}): check the disk and its permissions")
