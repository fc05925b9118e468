"""The files of a stream: <data>/streams/<queue id>/<first offset>.stream, and an .index beside each complete segment.

The sync thread writes them while the event loop reads them. Written data is published in this order: bytes in the file,
the segment's index and end, then `written_offset`. So a reader that does not pass the `written_offset` it saw finds
everything before it in place. The list of segments is never changed, but replaced.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Final, final

from flintmq.base.errors import StorageError
from flintmq.storage.block import HEADER_BYTES, KIND_STREAM, TYPE_STREAM, Damage, FileHeader, decode_header
from flintmq.storage.content import ContentReader
from flintmq.storage.files import Disk, DiskFile, replace_file
from flintmq.storage.segment import SegmentFile, create_segment, end_tail
from flintmq.storage.stream.encoder import StreamBlock
from flintmq.storage.stream.index import ENDS_END, SegmentIndex, decode_index, missing_records, stored_end
from flintmq.storage.stream.scan import SegmentScan, next_intact_block, scan_segment

SUFFIX: Final = ".stream"
INDEX_SUFFIX: Final = ".index"
DRAFT: Final = "draft"
# The definition of the stream's queue, as in the journal (definitions/catalogue.py); the other files have only its id.
DESCRIPTION: Final = "queue.json"
DELETED_SUFFIX: Final = ".deleted"
# The number of cached indexes of old segments: about 24 KiB each for segments of the default size.
INDEXES_MAX: Final = 8
# The number of segments that are removed at once: each costs a sync of the directory, and publishers wait meanwhile.
RETIRED_MAX: Final = 16
NO_LIMIT: Final = -1
_UNKNOWN: Final = -1


@final
class StreamSegment:
    """A segment of a stream. Its contents are looked up when needed, because a stream may have thousands of segments.

    `index` is set only for the segment that is being written; readers load the indexes of the others. `size` is in
    bytes.
    """

    def __init__(self, path: Path, first_offset: int, index: SegmentIndex | None = None, size: int = 0) -> None:
        self.path = path
        self.first_offset = first_offset
        self.index = index
        # The highest receive time of all records in earlier segments.
        self.highest_before = _UNKNOWN if index is None else index.highest_before
        self.size = size


@final
class StreamFiles:
    """The files of one stream. A segment of at least `segment_limit` bytes is not continued. `max_bytes` (of all
    segments) and `max_age_ms` (of a record) limit what is kept, or are NO_LIMIT. Whole segments are removed, the oldest
    first, and never the last one.
    """

    def __init__(
        self, disk: Disk, directory: Path, segment_limit: int, content: ContentReader, description: str = ""
    ) -> None:
        self.directory = directory
        # The definition of the queue, to be stored beside the segments; empty if unknown.
        self.description = description
        self.segments: list[StreamSegment] = []
        self.written_offset = 0
        # Records before this offset are synced.
        self.durable_offset = 0
        self.highest_timestamp = 0
        self.damage: list[Damage] = []
        self.segment_limit = segment_limit
        self.max_bytes = NO_LIMIT
        self.max_age_ms = NO_LIMIT
        # The time at which retention is to be applied (Unix ms), 0 if not requested; and whether it must continue.
        self.retire_at_ms = 0
        self.retires_more = False
        # Removed files that readers may still have open.
        self.retired: deque[Path] = deque()
        self._disk = disk
        self._content = content
        self._writer: SegmentFile | None = None
        # True if the writer's file is closed until the next write.
        self._is_released = False
        # Indexes that the event loop used recently.
        self._indexes: dict[int, SegmentIndex] = {}

    # --- start-up ---

    def recover(self) -> None:
        """Find the segments, and the end of the last one. Of the others, only the sizes are read."""
        names = set(self._disk.list_directory(self.directory))
        if names:
            # A removal whose sync failed would be undone by a loss of power: sync it now.
            self._disk.sync_directory(self.directory)
        numbers = [int(name.removesuffix(SUFFIX)) for name in sorted(names) if name.endswith(SUFFIX)]
        indexed = {int(name.removesuffix(INDEX_SUFFIX)) for name in names if name.endswith(INDEX_SUFFIX)}
        while numbers and not self._recover_tail(numbers[-1], numbers[-1] in indexed):
            # The first write to this segment did not complete.
            self.written_offset = numbers[-1]
            self._disk.unlink(self._path(numbers.pop()))
            self._disk.sync_directory(self.directory)
        for orphan in sorted(indexed.difference(numbers)):
            self._recover_orphan(orphan, numbers)
        if names and DESCRIPTION not in names:
            self._describe()
        self.segments[:0] = [self._sealed(number) for number in numbers[:-1]]
        for earlier, later in pairwise(self.segments):
            self._check_end(earlier, later.first_offset)
        self.durable_offset = self.written_offset

    def _describe(self) -> None:
        """Store the definition of the queue. The file is complete under its final name; the directory is synced when a
        segment is created.
        """
        if not self.description:
            return
        directory = self.directory
        replace_file(self._disk, directory / DESCRIPTION, directory / DRAFT, self.description.encode())

    def _recover_orphan(self, number: int, segments: list[int]) -> None:
        """Handle an index without its segment. If it is the oldest, retention was interrupted between removing the two.

        Any other segment is missing. If it was the last, its offsets are not used again, because readers have seen
        them.
        """
        index = self._stored_index(number) if not segments or number > segments[0] else None
        if index is None:
            self._disk.unlink(self._index_path(number))
            return
        self.report(Damage(str(self._path(number)), 0, missing_records(number, index.next_offset)))
        self.written_offset = max(self.written_offset, index.next_offset)

    def _check_end(self, segment: StreamSegment, following: int) -> None:
        """Check that a segment ends where the next one begins; offsets between them were in missing segments."""
        ends = self._stored_end(segment.first_offset)
        if ends != following:
            ends = self._load_index(segment).next_offset
        if ends < following:
            self.report(Damage(str(self._path(ends)), 0, missing_records(ends, following)))

    def _stored_end(self, number: int) -> int:
        """The offset after the last record of a segment according to its index, unverified; -1 without an index."""
        try:
            file = self._disk.open(self._index_path(number))
        except FileNotFoundError:
            return -1
        try:
            return stored_end(file.read_at(0, ENDS_END))
        finally:
            file.close()

    def _sealed(self, number: int) -> StreamSegment:
        path = self._path(number)
        return StreamSegment(path, number, size=self._disk.size_of(path))

    def _recover_tail(self, number: int, has_index: bool) -> bool:
        """Open the last segment; return False if it is empty."""
        path = self._path(number)
        file = self._disk.open(path)
        try:
            header = self._header(file, number)
            index = self._stored_index(number) if has_index and header is not None else None
            is_ended = header is not None and index is not None and index.magic == header.block_magic
            if index is not None and is_ended and index.end == file.size():
                self._continue_behind(index)
                return True
            found = self._scan(file, number, False)
            if found.found_nothing:
                return False
            index = found.index
            if not index.magic:
                # Without the magic its records cannot be found, so the file stays as it is.
                self._continue_behind(index)
                return True
            index.end = end_tail(file, index.magic, number, found.synced, index.end, sealed=found.sealed)
        finally:
            file.close()
        self._continue_behind(index)
        self._store_index(index)
        return True

    def _continue_behind(self, index: SegmentIndex) -> None:
        segment = StreamSegment(self._path(index.first_offset), index.first_offset, size=index.end)
        segment.highest_before = index.highest_before
        self.segments = [segment]
        self.written_offset = max(self.written_offset, index.next_offset)
        self.highest_timestamp = index.highest

    def _path(self, first_offset: int) -> Path:
        return self.directory / f"{first_offset:020d}{SUFFIX}"

    def _index_path(self, first_offset: int) -> Path:
        return self.directory / f"{first_offset:020d}{INDEX_SUFFIX}"

    def _header(self, file: DiskFile, number: int) -> FileHeader | None:
        """Read the header of a segment; None if it is damaged. Raises StorageError if it belongs to another file."""
        header = decode_header(file.read_at(0, HEADER_BYTES), str(file.path))
        if header is None:
            reason = "the file's header does not match its checksum"
            self.report(Damage(str(file.path), 0, reason, HEADER_BYTES))
        elif header.kind != KIND_STREAM or header.number != number:
            raise StorageError(f"{file.path} is not the stream segment of offset {number}: put back the file that was")
        return header

    def report(self, damage: Damage) -> None:
        """Report damage; the same place is reported only once."""
        if not any(known.file == damage.file and known.position == damage.position for known in self.damage):
            self.damage.append(damage)

    # --- indexes ---

    def _stored_index(self, number: int) -> SegmentIndex | None:
        path = self._index_path(number)
        try:
            file = self._disk.open(path)
        except FileNotFoundError:
            return None
        try:
            data = file.read_at(0, file.size())
        finally:
            file.close()
        index = decode_index(data, str(path))
        return index if index is not None and index.first_offset == number else None

    def _store_index(self, index: SegmentIndex) -> None:
        """Store an index; errors are ignored, because the index can be created again."""
        path = self._index_path(index.first_offset)
        with suppress(FileNotFoundError):
            self._disk.unlink(path)
        with suppress(OSError):
            file = self._disk.create(path)
            try:
                file.write_at(0, [index.encode()])
                file.sync()
            finally:
                file.close()

    def index_of(self, segment: StreamSegment) -> SegmentIndex:
        """The index of a segment, from memory or its file; for the event loop. Raises OSError if that is unreadable."""
        index = segment.index or self._indexes.pop(segment.first_offset, None)
        if index is None:
            index = self._load_index(segment)
            segment.highest_before = index.highest_before
            segment.size = index.end
        if segment.index is None:
            self._indexes[segment.first_offset] = index
            if len(self._indexes) > INDEXES_MAX:
                del self._indexes[next(iter(self._indexes))]
        return index

    def _load_index(self, segment: StreamSegment) -> SegmentIndex:
        file = self._disk.open(segment.path)
        try:
            header = self._header(file, segment.first_offset)
            index = self._stored_index(segment.first_offset)
            if index is not None and (header is None or index.magic == header.block_magic):
                return index
            index = self._scan(file, segment.first_offset, True).index
        finally:
            file.close()
        self._store_index(index)
        return index

    def _scan(self, file: DiskFile, number: int, synced_whole: bool) -> SegmentScan:
        found = scan_segment(file, number, synced_whole, self._content)
        for damage in found.damage:
            self.report(damage)
        return found

    def _highest_before(self, segment: StreamSegment) -> int:
        if segment.highest_before == _UNKNOWN:
            self._read_highest_before(segment)
        return segment.highest_before

    def _read_highest_before(self, segment: StreamSegment) -> None:
        """Read `highest_before` from a segment's header; either thread may call it."""
        file = self._disk.open(segment.path)
        try:
            header = self._header(file, segment.first_offset)
        finally:
            file.close()
        if header is None:
            index = self._stored_index(segment.first_offset)
            # Without header and index the segment counts as old: retention goes by the other segments.
            segment.highest_before = 0 if index is None else index.highest_before
        else:
            segment.highest_before = header.extra

    # --- the sync thread ---

    def write(self, blocks: Sequence[StreamBlock]) -> None:
        """Append blocks; without blocks, the call only causes `tidy` to be called."""
        if blocks and self._append(blocks):
            self.retire_at_ms = max(self.retire_at_ms, blocks[-1].received_ms)

    def _append(self, blocks: Sequence[StreamBlock]) -> bool:
        """Append blocks; return True if a new segment was begun."""
        self._reopen()
        writer = self._writer
        rolls = writer is None or writer.position >= self.segment_limit
        if writer is None or rolls:
            writer = self._roll(blocks[0])
        begins = writer.write(TYPE_STREAM, [block.parts for block in blocks])
        segment = self.segments[-1]
        index = segment.index
        assert index is not None
        for block, position in zip(blocks, begins, strict=True):
            index.add(position, block.first_offset, block.highest_before)
        last = blocks[-1]
        index.next_offset = last.first_offset + last.count
        index.highest = last.highest
        index.end = writer.position
        segment.size = writer.position
        self.written_offset = index.next_offset
        return rolls

    def _roll(self, first: StreamBlock) -> SegmentFile:
        if self._writer is None:
            self._disk.make_directory(self.directory)
            if DESCRIPTION not in self._disk.list_directory(self.directory):
                self._describe()
        else:
            self._end_segment()
        path = self._path(first.first_offset)
        writer = create_segment(
            self._disk, self.directory / DRAFT, path, KIND_STREAM, first.first_offset, first.highest_before
        )
        self._writer = writer
        index = SegmentIndex(writer.magic, first.first_offset, first.highest_before)
        self.segments = [*self.segments, StreamSegment(path, first.first_offset, index)]
        return writer

    def _end_segment(self) -> None:
        """Seal the segment that is being written, and store its index."""
        self._reopen()
        writer = self._writer
        if writer is None:
            return
        writer.seal()
        segment = self.segments[-1]
        index = segment.index
        assert index is not None
        index.end = writer.position
        segment.size = writer.position
        self._store_index(index)
        segment.index = None
        self._writer = None
        writer.close()

    def tidy(self) -> None:
        """After a sync was reported: remove segments beyond the limits.

        The last segment then has a durable record, so that offsets continue whatever happens to the others.
        """
        now_ms = self.retire_at_ms
        if now_ms:
            self.retire_at_ms = 0
            self._retire(now_ms)

    def _retire(self, now_ms: int) -> None:
        cutoff_ms = now_ms - self.max_age_ms if self.max_age_ms != NO_LIMIT else 0
        total = self.size if self.max_bytes != NO_LIMIT else 0
        self.retires_more = False
        removed = 0
        while removed + 1 < len(self.segments):
            is_too_much = self.max_bytes != NO_LIMIT and total > self.max_bytes
            if not is_too_much and (not cutoff_ms or self._highest_before(self.segments[removed + 1]) >= cutoff_ms):
                break
            if removed == RETIRED_MAX:
                self.retires_more = True
                break
            total -= self.segments[removed].size
            removed += 1
        for segment in self.segments[:removed]:
            self._remove(segment)

    def _remove(self, oldest: StreamSegment) -> None:
        """Remove the oldest segment, and sync the removal, so that a crash leaves no gap after the first segment."""
        # The list is replaced first, so that readers find the next segment instead of a missing file.
        self.segments = self.segments[1:]
        try:
            self._disk.unlink(oldest.path)
        except FileNotFoundError:
            pass
        except OSError:
            # The segment still exists, and must be removed before the later ones.
            self.segments = [oldest, *self.segments]
            self.retires_more = True
            raise
        self.retired.append(oldest.path)
        self._disk.sync_directory(self.directory)
        # If this fails, the next start removes the index.
        with suppress(OSError):
            self._disk.unlink(self._index_path(oldest.first_offset))

    def sync(self) -> int:
        """Sync what was written. Returns the offset behind it, for `durable_offset` once it is confirmed."""
        if self._writer is not None:
            self._writer.sync()
        return self.written_offset

    def seal(self) -> None:
        """Seal the last segment; nothing may be written afterwards."""
        self._end_segment()

    def release_file(self) -> None:
        """Sync and close the file until the next write, because other streams need file descriptors."""
        if self._writer is not None and not self._is_released:
            self._writer.sync()
            self._writer.close()
            self._is_released = True

    def _reopen(self) -> None:
        if self._is_released and self._writer is not None:
            self._writer.file = self._disk.open(self.segments[-1].path)
            self._is_released = False

    def close(self) -> None:
        if self._writer is not None:
            if not self._is_released:
                self._writer.close()
            self._writer = None
            self._is_released = False

    def remove(self) -> None:
        """Remove all files. The directory is renamed first, so that start-up completes an interrupted removal."""
        self.close()
        if self._disk.list_directory(self.directory):
            removed = self.directory.with_suffix(DELETED_SUFFIX)
            self._disk.rename(self.directory, removed)
            remove_stream_directory(self._disk, removed)

    # --- the event loop ---

    @property
    def size(self) -> int:
        """The size of all segments in bytes; either thread may call it."""
        return sum([segment.size for segment in self.segments])

    def segment_at(self, offset: int) -> StreamSegment | None:
        """The segment with this offset, or the first one if the offset was removed; None if there are no segments."""
        segments = self.segments
        if not segments:
            return None
        return segments[max(bisect_right(segments, offset, key=_first_offset) - 1, 0)]

    def following(self, segment: StreamSegment) -> StreamSegment | None:
        """The segment after this one; None for the last."""
        segments = self.segments
        place = bisect_right(segments, segment.first_offset, key=_first_offset)
        return segments[place] if place < len(segments) else None

    def has(self, segment: StreamSegment) -> bool:
        return segment in self.segments

    def search_from(self, timestamp_ms: int) -> int:
        """An offset close to, and not after, the first record that was received at or after this time (Unix ms)."""
        while segments := self.segments:
            try:
                # The last segment before which all records are older.
                place = max(bisect_right(segments, timestamp_ms - 1, key=self._highest_before) - 1, 0)
                return self.index_of(segments[place]).search(timestamp_ms)
            except FileNotFoundError:
                # Retention may have removed a segment meanwhile; then try again.
                if segments is self.segments:
                    raise
        return self.written_offset

    def offset_behind(self, offset: int, size: int) -> int:
        """The offset at an index step about `size` bytes after `offset`, or the end of the stream if nearer."""
        segment = self.segment_at(offset)
        left = size
        try:
            if segment is not None:
                left += self.index_of(segment).position_of(offset)
            while segment is not None:
                length = segment.size
                if left < length:
                    return self.index_of(segment).offset_of(left)
                left -= length - HEADER_BYTES
                segment = self.following(segment)
        except FileNotFoundError:
            if segment is None or self.has(segment):
                raise
            # Retention removed the segment meanwhile; start at the oldest one left.
            return self.offset_behind(self.segments[0].first_offset, size) if self.segments else self.written_offset
        return self.written_offset

    def skip_damage(self, file: DiskFile, position: int, end: int) -> int:
        """Report a damaged block; return the position of the next intact block, or `end`."""
        following = next_intact_block(file, position, end)
        length = following - position
        self.report(Damage(str(file.path), position, f"{length} bytes do not match their checksum", length))
        return following


def remove_stream_directory(disk: Disk, directory: Path) -> None:
    for name in disk.list_directory(directory):
        disk.unlink(directory / name)
    disk.remove_directory(directory)
    disk.sync_directory(directory.parent)


def _first_offset(segment: StreamSegment) -> int:
    return segment.first_offset
