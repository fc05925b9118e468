"""A stream's files: <data>/streams/<queue id>/<first offset>.stream.

The sync thread writes them, the event loop reads them at the same time. What is written is published in this order:
bytes in the file, the segment's index and end, then `written_offset`; a reader that goes no further than the
`written_offset` it saw finds everything before it in place.
"""

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Final, final

from flintmq.base.errors import StorageError
from flintmq.storage.block import (
    BLOCK_HEAD_BYTES,
    HEADER_BYTES,
    KIND_STREAM,
    TYPE_STREAM,
    Damage,
    Scan,
    block_end,
    decode_header,
    find_magic,
    next_block,
    scan_blocks,
)
from flintmq.storage.content import ContentReader
from flintmq.storage.files import Disk, DiskFile
from flintmq.storage.segment import SegmentFile, create_segment
from flintmq.storage.stream.encoder import (
    BLOCK_FIELDS_BYTES,
    RECORD_MIN_BYTES,
    StreamBlock,
    StreamReader,
    block_fields,
)

SUFFIX: Final = ".stream"
DRAFT: Final = "draft"
# One index entry (24 bytes) for so many bytes of records: a terabyte of stream costs 400 MB of index at most.
INDEX_STEP_BYTES: Final = 65_536
READ_BYTES: Final = 131_072
# In place of a receive time that stood in a damaged header.
UNKNOWN: Final = -1
DELETED_SUFFIX: Final = ".deleted"


@final
class StreamSegment:
    """`highest_before` is the highest receive time of all records in earlier segments."""

    def __init__(self, path: Path, magic: bytes, first_offset: int, highest_before: int, end: int) -> None:
        self.path = path
        self.magic = magic
        self.first_offset = first_offset
        self.highest_before = highest_before
        self.end = end
        # Of every block that begins a step: first offset, position, highest receive time before it.
        self.offsets = array("q")
        self.positions = array("q")
        self.highest = array("q")
        self.indexed = True

    def index(self, position: int, first_offset: int, highest_before: int) -> None:
        if not self.positions or position - self.positions[-1] >= INDEX_STEP_BYTES:
            self.positions.append(position)
            self.highest.append(highest_before)
            # Last: readers look up offsets first.
            self.offsets.append(first_offset)

    def position_of(self, offset: int) -> int:
        """Where to start reading for this offset."""
        step = bisect_right(self.offsets, offset) - 1
        return self.positions[step] if step >= 0 else HEADER_BYTES


@final
class StreamFiles:
    def __init__(self, disk: Disk, directory: Path, segment_limit: int) -> None:
        self.segments: list[StreamSegment] = []
        self.written_offset = 0
        # Written and synced up to here.
        self.durable_offset = 0
        self.highest_timestamp = 0
        self.damage: list[Damage] = []
        self._disk = disk
        self._directory = directory
        self._segment_limit = segment_limit
        self._writer: SegmentFile | None = None
        # The event loop's file, of the segment it read last.
        self._reading: DiskFile | None = None

    def recover(self, content: ContentReader) -> None:
        """Find the segments, and where the last was torn; for start-up. The others are indexed when they are read."""
        names = self._disk.list_directory(self._directory)
        numbers = [int(name.removesuffix(SUFFIX)) for name in names if name.endswith(SUFFIX)]
        while numbers and not self._recover_tail(numbers[-1], content):
            # Its first write did not complete.
            self.written_offset = numbers[-1]
            self._disk.unlink(self._path(numbers.pop()))
            self._disk.sync_directory(self._directory)
        earlier = [self._open_segment(number) for number in numbers[:-1]]
        for segment in earlier:
            if segment.highest_before == UNKNOWN:
                self._index_whole(segment)
        self.segments[:0] = earlier
        self.durable_offset = self.written_offset

    def _path(self, first_offset: int) -> Path:
        return self._directory / f"{first_offset:020d}{SUFFIX}"

    def _load(self, path: Path) -> bytes:
        file = self._disk.open(path)
        try:
            return file.read_at(0, file.size())
        finally:
            file.close()

    def _open_segment(self, number: int) -> StreamSegment:
        path = self._path(number)
        file = self._disk.open(path)
        try:
            size = file.size()
            header = decode_header(file.read_at(0, HEADER_BYTES), str(path))
        finally:
            file.close()
        if header is None:
            self.damage.append(Damage(str(path), 0, "the file's header does not match its checksum"))
            segment = StreamSegment(path, find_magic(self._load(path)), number, UNKNOWN, size)
        elif header.kind != KIND_STREAM or header.number != number:
            raise StorageError(f"{path} is not the stream segment of offset {number}: put back the file that was")
        else:
            segment = StreamSegment(path, header.block_magic, number, header.extra, size)
        segment.indexed = False
        return segment

    def _index_whole(self, segment: StreamSegment) -> None:
        data = self._load(segment.path)
        self._index(segment, data, scan_blocks(data, segment.magic, str(segment.path), True))

    def _index(self, segment: StreamSegment, data: bytes, found: Scan) -> None:
        self.damage += found.damage
        segment.indexed = True
        for block_type, start in zip(found.types, found.starts, strict=True):
            if block_type == TYPE_STREAM:
                first_offset, highest_before, _ = block_fields(data, start)
                segment.index(start - BLOCK_HEAD_BYTES, first_offset, highest_before)
        if segment.highest_before == UNKNOWN:
            segment.highest_before = segment.highest[0] if segment.highest else 0

    def _recover_tail(self, number: int, content: ContentReader) -> bool:
        """Open the last segment; False when there is nothing in it."""
        segment = self._open_segment(number)
        path = str(segment.path)
        data = self._load(segment.path)
        found = scan_blocks(data, segment.magic, path, False) if len(segment.magic) == 4 else Scan()
        if not found.starts and not found.damage:
            return False
        segment.end = found.end
        self._index(segment, data, found)
        self.segments = [segment]
        last_end = HEADER_BYTES
        next_offset = number
        if found.starts:
            last_end = found.starts[-1] + found.lengths[-1]
            first_offset, highest, count = block_fields(data, found.starts[-1])
            next_offset = first_offset + count
            position = found.starts[-1] + BLOCK_FIELDS_BYTES
            for _ in range(count):
                highest = max(highest, content.read(data, position).timestamp_ms)
                position = content.position
            self.highest_timestamp = highest
        if any(damage.position >= last_end for damage in found.damage):
            # Readers have seen offsets of records that are now unreadable: none of them may be given to another
            # record, or those readers would skip it.
            next_offset += (found.end - last_end) // RECORD_MIN_BYTES
        self.written_offset = max(self.written_offset, next_offset)
        if not found.sealed:
            self._seal_torn(segment)
        return True

    def _seal_torn(self, segment: StreamSegment) -> None:
        file = self._disk.open(segment.path)
        file.truncate(segment.end)
        tail = SegmentFile(file, segment.magic, segment.end)
        tail.seal()
        tail.close()

    # --- the sync thread ---

    def write(self, blocks: Sequence[StreamBlock]) -> None:
        writer = self._writer
        if writer is None or writer.position >= self._segment_limit:
            writer = self._roll(blocks[0])
        begins = writer.write(TYPE_STREAM, [block.parts for block in blocks])
        segment = self.segments[-1]
        for block, position in zip(blocks, begins, strict=True):
            segment.index(position, block.first_offset, block.highest_before)
        segment.end = writer.position
        self.written_offset = blocks[-1].first_offset + blocks[-1].count

    def _roll(self, first: StreamBlock) -> SegmentFile:
        if self._writer is None:
            self._disk.make_directory(self._directory)
        else:
            self._writer.seal()
            self.close()
        path = self._path(first.first_offset)
        self._writer = create_segment(
            self._disk, self._directory / DRAFT, path, KIND_STREAM, first.first_offset, first.highest_before
        )
        self.segments.append(
            StreamSegment(path, self._writer.magic, first.first_offset, first.highest_before, HEADER_BYTES)
        )
        return self._writer

    def sync(self) -> None:
        if self._writer is not None:
            self._writer.sync()
            self.durable_offset = self.written_offset

    def seal(self) -> None:
        if self._writer is not None:
            self._writer.seal()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def remove(self) -> None:
        """Close and remove everything, under a name that start-up removes too should this be cut short."""
        self.close()
        if self._disk.list_directory(self._directory):
            doomed = self._directory.with_suffix(DELETED_SUFFIX)
            self._disk.rename(self._directory, doomed)
            remove_stream_directory(self._disk, doomed)

    # --- the event loop ---

    def read(self, reader: StreamReader) -> None:
        """Feed `reader` with what is in the files."""
        written = self.written_offset
        while not reader.full and reader.next < written:
            place = bisect_right(self.segments, reader.next, key=_first_offset) - 1
            if place < 0:
                reader.next = self.segments[0].first_offset
                continue
            segment = self.segments[place]
            self._read_segment(segment, reader)
            if not reader.full:
                # Whatever is missing up to the next segment is damaged.
                following = self.segments[place + 1].first_offset if place + 1 < len(self.segments) else written
                reader.next = max(reader.next, min(following, written))

    def _read_segment(self, segment: StreamSegment, reader: StreamReader) -> None:
        if not segment.indexed:
            self._index_whole(segment)
        file = self._file_of(segment)
        end = segment.end
        position = segment.position_of(reader.next)
        while position < end and not reader.full:
            data = file.read_at(position, min(READ_BYTES, end - position))
            used = _feed_blocks(data, segment.magic, reader)
            if used == 0:
                used = self._read_odd_block(file, position, end, segment.magic, reader)
            position += used

    def _read_odd_block(self, file: DiskFile, position: int, end: int, magic: bytes, reader: StreamReader) -> int:
        """Read a block that is larger than one read; pass over a damaged one. Returns the bytes it takes."""
        data = file.read_at(position, end - position)
        if block_end(data, 0, magic):
            return _feed_blocks(data, magic, reader)
        following = next_block(data, 1, magic)
        return following if following > 0 else end - position

    def _file_of(self, segment: StreamSegment) -> DiskFile:
        if self._reading is None or self._reading.path != segment.path:
            self.close_reading()
            self._reading = self._disk.open(segment.path)
        return self._reading

    def close_reading(self) -> None:
        if self._reading is not None:
            self._reading.close()
            self._reading = None

    def search_from(self, timestamp_ms: int) -> int:
        """An offset that is not behind the first record received at or after this time, and close before it."""
        if not self.segments:
            return self.written_offset
        # The last segment with nothing that late before it.
        place = max(bisect_right(self.segments, timestamp_ms - 1, key=_highest_before) - 1, 0)
        segment = self.segments[place]
        if not segment.indexed:
            self._index_whole(segment)
        step = bisect_right(segment.highest, timestamp_ms - 1, hi=len(segment.offsets)) - 1
        return segment.offsets[step] if step >= 0 else segment.first_offset


def remove_stream_directory(disk: Disk, directory: Path) -> None:
    for name in disk.list_directory(directory):
        disk.unlink(directory / name)
    disk.remove_directory(directory)
    disk.sync_directory(directory.parent)


def _feed_blocks(data: bytes, magic: bytes, reader: StreamReader) -> int:
    """Give the intact blocks at the start of `data` to the reader; returns the bytes they take."""
    position = 0
    while not reader.full and (end := block_end(data, position, magic)):
        if data[position + BLOCK_HEAD_BYTES - 1] == TYPE_STREAM:
            reader.read_block(data, position + BLOCK_HEAD_BYTES)
        position = end
    return position


def _first_offset(segment: StreamSegment) -> int:
    return segment.first_offset


def _highest_before(segment: StreamSegment) -> int:
    return segment.highest_before
