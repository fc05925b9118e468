"""The journal's files: <data>/journal/<segment>.journal, and at most one `spare`.

Start-up reads them on the calling thread; afterwards the sync thread owns them. A segment whose entries are all settled
becomes the spare, and the next segment is written over it: a sync after overwriting existing blocks takes little more
than half the time of a sync after growing a file (140 against 240 µs per 50 KB on ext4).
"""

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, final

from flintmq.base.errors import StorageError
from flintmq.storage.block import (
    BLOCK_HEAD_BYTES,
    HEADER_BYTES,
    KIND_JOURNAL,
    TYPE_JOURNAL,
    Damage,
    Scan,
    decode_header,
    find_magic,
    next_block,
    scan_blocks,
)
from flintmq.storage.files import Disk
from flintmq.storage.journal.chain import END_IS_MISSING, missing_behind, missing_between
from flintmq.storage.journal.chunk_reader import ChunkReader
from flintmq.storage.journal.compaction import Chunk, CompactionRequest
from flintmq.storage.journal.occupancy import Occupancy, Segment
from flintmq.storage.journal.recovery import Replay
from flintmq.storage.journal.source import Blocks, BlockSource
from flintmq.storage.segment import Block, SegmentFile, create_segment, end_tail, sync_directory

SUFFIX: Final = ".journal"
SPARE: Final = "spare"
# What is not synced is written once more with what is to be synced, if it is no longer than this, and than such a part
# of a segment.
_AGAIN_BYTES: Final = 64 * 1024
_AGAIN_PART: Final = 64


@final
class ScannedSegment:
    """A segment that recovery has read, with everything that a second read needs."""

    def __init__(self, magic: bytes) -> None:
        self.magic = magic
        self.blocks = 0
        # Skipped parts, which are damaged or malformed: their start, and the position of the next block.
        self.gaps: dict[int, int] = {}


class LoadedSegment(NamedTuple):
    """The content of a segment, and its block magic. If the header is damaged, the magic was found in the blocks."""

    data: bytes
    magic: bytes
    is_header_intact: bool

    def holds_blocks(self) -> bool:
        return len(self.magic) == 4 and next_block(self.data, HEADER_BYTES, self.magic) >= 0


@final
class JournalFiles(BlockSource):
    """The files of the journal. `chunks` are the chunks that were read for compaction; the event loop takes them from
    there.
    """

    def __init__(self, disk: Disk, directory: Path, segment_limit: int) -> None:
        self.damage: list[Damage] = []
        # The numbers of the existing segments, oldest first; the last one is being written.
        self.numbers: list[int] = []
        self.chunks: deque[Chunk] = deque()
        self._disk = disk
        self._directory = directory
        self._segment_limit = segment_limit
        self._again_bytes = min(segment_limit // _AGAIN_PART, _AGAIN_BYTES)
        self._has_spare = False
        self._current: SegmentFile | None = None
        self._next: SegmentFile | None = None
        self._found: dict[int, ScannedSegment] = {}
        # The last segment that the first pass of recovery has read, and its blocks: the second pass begins with it.
        self._read_last: tuple[int, Blocks] | None = None
        self._reading: ChunkReader | None = None
        # Whether the last segment was sealed when recovery read it, and where its blocks end.
        self._is_tail_sealed = False
        self._tail_end = 0

    @property
    def written(self) -> int:
        """The newest segment with records; 0 if there is none."""
        current = self._current
        if current is None or not self.numbers:
            return 0
        return self.numbers[-1] if current.position > HEADER_BYTES else max(self.numbers[:-1], default=0)

    def recover(self, replay: Replay, occupancy: Occupancy, written: int = 0, ended: int = 0) -> int:
        """Read all segments, the newest first; cut the newest where it was torn, and open a new one; return its number.

        The old tail is never continued: blocks after the cut could be found again once new blocks reached them.
        `written` and `ended` come from the definitions: the newest segment with records, and the last segment at a
        clean stop (0 if unknown).
        """
        self._disk.make_directory(self._directory)
        names = self._disk.list_directory(self._directory)
        self._has_spare = SPARE in names
        numbers = [int(name.removesuffix(SUFFIX)) for name in names if name.endswith(SUFFIX)]
        highest = max(numbers[-1] if numbers else 0, written)
        # Segments that were created in advance are empty; the last segment with blocks is the tail.
        unreadable: list[int] = []
        preallocated: list[int] = []
        tail: LoadedSegment | None = None
        while numbers:
            tail = self._load(numbers[-1])
            if tail.holds_blocks():
                break
            number = numbers.pop()
            if tail.is_header_intact and number > written:
                preallocated.append(number)
            else:
                # A header is synced before the file gets its name, so this one was damaged later, and its former
                # contents are unknown.
                unreadable.insert(0, number)
        tail_number = numbers[-1] if numbers else 0
        numbers += unreadable
        self.numbers = numbers
        replay.ended = ended if ended == tail_number else 0
        if not self._read_all(tail_number, tail, replay, occupancy):
            replay.restart()
            occupancy.forget()
            self._read_all(tail_number, None, replay, occupancy)
        missing = missing_between(numbers, self._previous) + missing_behind(numbers, written)
        self.damage += [Damage(str(self._path(number)), 0, reason) for number, reason in missing]
        if ended and ended == tail_number and not self._is_tail_sealed:
            self.damage.append(Damage(str(self._path(ended)), self._tail_end, END_IS_MISSING))
        self._next = self._create(highest + 1)
        # They are removed only now: otherwise a crash could leave no segment with a number as high as the definitions
        # record. The new segment is begun only behind that: if a removal fails, nothing is written to the new segment,
        # not even a seal, and the next start removes all of them.
        for number in preallocated:
            self._remove(number)
        self._begin_next(highest + 1)
        return highest + 1

    def _previous(self, number: int) -> int:
        """The previous segment according to a segment's header; 0 if unknown."""
        file = self._disk.open(self._path(number))
        try:
            header = decode_header(file.read_at(0, HEADER_BYTES), str(file.path))
        finally:
            file.close()
        return 0 if header is None else header.extra

    def _read_all(self, tail_number: int, tail: LoadedSegment | None, replay: Replay, occupancy: Occupancy) -> bool:
        """Read the segments, except those in which nothing lives according to a checkpoint.

        Returns False if the checkpoint cannot be trusted, because a segment that it covers is damaged. `tail` is the
        content of the last segment, if it was read already.
        """
        self.damage.clear()
        for segment in reversed([occupancy.restore(number) for number in self.numbers]):
            checkpoint = replay.checkpoint
            if checkpoint is not None and not checkpoint.is_needed(segment.number):
                segment.size = checkpoint.size(segment.number)
                continue
            if tail is None or segment.number != tail_number:
                tail = self._load(segment.number)
            damage = self._read_segment(segment, replay, segment.number == tail_number, tail)
            tail = None
            if damage and checkpoint is not None:
                return False
            self.damage[:0] = damage
        return True

    def _path(self, number: int) -> Path:
        return self._directory / f"{number:020d}{SUFFIX}"

    def _load(self, number: int) -> LoadedSegment:
        path = self._path(number)
        file = self._disk.open(path)
        try:
            data = file.read_at(0, file.size())
        finally:
            file.close()
        header = decode_header(data, str(path))
        if header is None:
            return LoadedSegment(data, find_magic(data, number), False)
        if header.kind != KIND_JOURNAL or header.number != number:
            raise StorageError(f"{path} is not segment {number} of a journal: restore the original file")
        return LoadedSegment(data, header.block_magic, True)

    def _read_segment(self, segment: Segment, replay: Replay, is_tail: bool, loaded: LoadedSegment) -> list[Damage]:
        path = self._path(segment.number)
        data, magic, header_intact = loaded
        damage: list[Damage] = []
        if not header_intact:
            # The header is damaged; the magic was found in the blocks.
            damage.append(Damage(str(path), 0, "the file's header does not match its checksum", HEADER_BYTES))
        scan = scan_blocks(data, magic, str(path), not is_tail, not header_intact)
        damage += scan.damage
        found = ScannedSegment(magic)
        found.gaps = {damaged.position: damaged.position + damaged.length for damaged in scan.damage}
        self._found[segment.number] = found
        blocks = _journal_blocks(data, scan, found)
        found.blocks = len(blocks.starts)
        strange = replay.read_segment(segment, blocks)
        self._read_last = None if strange else (segment.number, blocks)
        for index in strange:
            begin = blocks.starts[index] - BLOCK_HEAD_BYTES
            found.gaps[begin] = blocks.ends[index]
            found.blocks -= 1
            length = blocks.ends[index] - begin
            damage.append(Damage(str(path), begin, "the block's records do not fill it", length))
        segment.size = scan.end
        if is_tail:
            self._is_tail_sealed = scan.sealed
            self._tail_end = scan.end
            file = self._disk.open(path)
            end_tail(file, magic, segment.number, scan.synced, scan.end, sealed=scan.sealed)
            file.close()
        return damage

    def load(self, segment: int) -> Blocks:
        found = self._found[segment]
        read_last, self._read_last = self._read_last, None
        if read_last is not None and read_last[0] == segment:
            return read_last[1]
        data = self._load(segment).data
        blocks = _journal_blocks(data, scan_blocks(data, found.magic, "", True), found)
        if len(blocks.starts) != found.blocks:
            raise self._changed(segment)
        return blocks

    def load_block(self, segment: int, start: int, end: int) -> bytes:
        reader = self._reader(segment)
        try:
            payload = reader.read_block(start, end)
        finally:
            reader.close()
        if payload is None:
            raise self._changed(segment)
        return payload

    def _changed(self, segment: int) -> StorageError:
        return StorageError(f"{self._path(segment)} changed while it was read: check the disk")

    def _reader(self, number: int) -> ChunkReader:
        """A reader for a segment that recovery has read, or for one that was begun since."""
        found = self._found.get(number)
        file = self._disk.open(self._path(number))
        if found is None:
            header = decode_header(file.read_at(0, HEADER_BYTES), str(self._path(number)))
            # Without the magic, no block is found to be intact.
            return ChunkReader(number, file, b"" if header is None else header.block_magic, {})
        return ChunkReader(number, file, found.magic, found.gaps)

    def read_ahead(self, request: CompactionRequest) -> None:
        """Read a chunk for compaction, and add it to `chunks`."""
        number = request.segment
        if number not in self.numbers[:-1]:
            return
        try:
            if self._reading is None or self._reading.number != number:
                self._stop_reading()
                self._reading = self._reader(number)
            chunk = self._reading.read(request.position, request.size)
            reason = "the block does not match its checksum any more"
        except OSError as error:
            chunk = Chunk(number, Blocks(b"", request.position, [], []), request.position, True)
            reason = f"it cannot be read ({error.strerror})"
        if chunk.is_broken:
            self.damage.append(Damage(str(self._path(number)), chunk.following, reason))
        if chunk.is_broken or chunk.following == 0:
            self._stop_reading()
        self.chunks.append(chunk)

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.close()
            self._reading = None

    def _begin_next(self, number: int) -> SegmentFile:
        """Write to the segment that was created last from now on."""
        begun = self._next
        assert begun is not None, "the next segment is created before it is begun"
        self._current = begun
        self._next = None
        self.numbers.append(number)
        return begun

    def _create(self, number: int) -> SegmentFile:
        self._has_spare = False
        before = self.numbers[-1] if self.numbers else 0
        path = self._path(number)
        return create_segment(
            self._disk, self._directory / SPARE, path, KIND_JOURNAL, number, before, self._again_bytes
        )

    def write(self, number: int, blocks: Sequence[Block]) -> None:
        """Write blocks to the current segment, or to the next one, which is then begun."""
        self._writer(number).write(TYPE_JOURNAL, blocks)

    def write_through(self, number: int, blocks: Sequence[Block]) -> None:
        """Write blocks to the current segment, or to the next one, and sync everything that was written."""
        self._writer(number).write_through(TYPE_JOURNAL, blocks)

    def _writer(self, number: int) -> SegmentFile:
        current = self._current
        assert current is not None, "the journal is written to before it was recovered"
        if number == self.numbers[-1]:
            return current
        # The next segment is created first: if the disk is full, nothing has changed yet.
        self._next = self._next or self._create(number)
        current.seal()
        current.close()
        return self._begin_next(number)

    def sync(self) -> None:
        if self._current is not None:
            self._current.sync()

    def prepare(self) -> None:
        """Create the next segment in advance, once the current one is half full, so that no client waits for it."""
        if self._next is None and self._current is not None and self._current.position > self._segment_limit // 2:
            self._next = self._create(self.numbers[-1] + 1)

    def drop(self, through: int) -> None:
        """Remove the segments up to number `through`, oldest first: no segment may outlive the settlements in a newer
        one.
        """
        while self.numbers[0] <= through:
            self._remove(self.numbers[0])
            del self.numbers[0]

    def _remove(self, number: int) -> None:
        self._found.pop(number, None)
        self._read_last = None
        if self._reading is not None and self._reading.number == number:
            self._stop_reading()
        if self._has_spare:
            self._disk.unlink(self._path(number))
        else:
            self._disk.rename(self._path(number), self._directory / SPARE)
            self._has_spare = True
        sync_directory(self._disk, self._directory)

    def seal(self) -> None:
        """Seal the current segment; nothing may be written afterwards."""
        if self._current is not None:
            self._current.seal()

    def close(self) -> None:
        self._stop_reading()
        for segment in (self._current, self._next):
            if segment is not None:
                segment.close()


def _journal_blocks(data: bytes, scan: Scan, found: ScannedSegment) -> Blocks:
    """The journal blocks of a scan, without the gaps."""
    starts: list[int] = []
    ends: list[int] = []
    for block_type, start, length in zip(scan.types, scan.starts, scan.lengths, strict=True):
        if start - BLOCK_HEAD_BYTES in found.gaps:
            continue
        if block_type == TYPE_JOURNAL:
            starts.append(start)
            ends.append(start + length)
    return Blocks(data, 0, starts, ends)
