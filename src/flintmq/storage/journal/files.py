"""The journal's files: <data>/journal/<segment>.journal, and at most one `spare`.

Start-up reads them on the calling thread; from then on the sync thread owns them. A segment whose entries are all
settled becomes the spare, and the next segment is written over it: writing into blocks a file already has syncs in
little more than half the time of growing one (140 against 240 µs per 50 KB on ext4).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, final

from flintmq.base.errors import StorageError
from flintmq.storage.block import (
    HEADER_BYTES,
    KIND_JOURNAL,
    TYPE_JOURNAL,
    Damage,
    decode_header,
    find_magic,
    next_block,
    scan_blocks,
)
from flintmq.storage.files import Disk
from flintmq.storage.journal.occupancy import Occupancy
from flintmq.storage.journal.recovery import Replay
from flintmq.storage.segment import Block, SegmentFile, create_segment, end_tail

SUFFIX: Final = ".journal"
SPARE: Final = "spare"


@final
class JournalFiles:
    def __init__(self, disk: Disk, directory: Path, segment_limit: int) -> None:
        self.damage: list[Damage] = []
        # The segments there are, oldest first; the last is being written.
        self.numbers: list[int] = []
        self._disk = disk
        self._directory = directory
        self._segment_limit = segment_limit
        self._has_spare = False
        self._current: SegmentFile | None = None
        self._next: SegmentFile | None = None

    def recover(self, replay: Replay, occupancy: Occupancy) -> int:
        """Feed all segments to `replay`, end the last one where it was torn, and open a new one: its number.

        The old tail is never continued: blocks behind the cut would be found again once new ones reached them.
        """
        self._disk.make_directory(self._directory)
        names = self._disk.list_directory(self._directory)
        self._has_spare = SPARE in names
        numbers = [int(name.removesuffix(SUFFIX)) for name in names if name.endswith(SUFFIX)]
        highest = numbers[-1] if numbers else 0
        # Files that were made ahead hold nothing yet; the last one that holds blocks is the tail.
        while numbers and not self._holds_blocks(numbers[-1]):
            self._remove(numbers.pop())
        for number in numbers:
            use = occupancy.restore(number)
            replay.begin_segment(number)
            use.size = self._read_segment(number, replay, number == numbers[-1])
            use.total = replay.segment_total
        replay.occupy(occupancy)
        self.numbers = numbers
        self._open(highest + 1)
        return highest + 1

    def _path(self, number: int) -> Path:
        return self._directory / f"{number:020d}{SUFFIX}"

    def _load(self, number: int) -> tuple[bytes, bytes, bool]:
        """The content of a segment, its block magic, and whether the header is intact."""
        path = self._path(number)
        file = self._disk.open(path)
        try:
            data = file.read_at(0, file.size())
        finally:
            file.close()
        header = decode_header(data, str(path))
        if header is None:
            return data, find_magic(data), False
        if header.kind != KIND_JOURNAL or header.number != number:
            raise StorageError(f"{path} is not segment {number} of a journal: put back the file that was")
        return data, header.block_magic, True

    def _holds_blocks(self, number: int) -> bool:
        data, magic, _ = self._load(number)
        return len(magic) == 4 and next_block(data, HEADER_BYTES, magic) >= 0

    def _read_segment(self, number: int, replay: Replay, is_tail: bool) -> int:
        """Returns the bytes that are in use."""
        path = self._path(number)
        data, magic, header_intact = self._load(number)
        if not header_intact:
            # The magic was found in the blocks instead.
            self.damage.append(Damage(str(path), 0, "the file's header does not match its checksum"))
        found = scan_blocks(data, magic, str(path), not is_tail)
        self.damage += found.damage
        for block_type, start, length in zip(found.types, found.starts, found.lengths, strict=True):
            if block_type != TYPE_JOURNAL or not replay.read_block(data, start, length):
                self.damage.append(Damage(str(path), start, "the block's records do not fill it"))
        if is_tail:
            file = self._disk.open(path)
            end_tail(file, magic, found.synced, found.end, sealed=found.sealed)
            file.close()
        return found.end

    def _open(self, number: int) -> SegmentFile:
        self._current = self._next or self._create(number)
        self._next = None
        self.numbers.append(number)
        return self._current

    def _create(self, number: int) -> SegmentFile:
        self._has_spare = False
        return create_segment(self._disk, self._directory / SPARE, self._path(number), KIND_JOURNAL, number, 0)

    def write(self, number: int, blocks: Sequence[Block]) -> None:
        """Write blocks of a segment: the present one, or the one after it, which then begins."""
        self._writer(number).write(TYPE_JOURNAL, blocks)

    def write_through(self, number: int, blocks: Sequence[Block]) -> None:
        """The same, and sync all that was written."""
        self._writer(number).write_through(TYPE_JOURNAL, blocks)

    def _writer(self, number: int) -> SegmentFile:
        current = self._current
        assert current is not None, "the journal is written to before it was recovered"
        if number == self.numbers[-1]:
            return current
        current.seal()
        self._current = None
        current.close()
        return self._open(number)

    def sync(self) -> None:
        if self._current is not None:
            self._current.sync()

    def prepare(self) -> None:
        """Make the next segment while nobody waits, once the present one is half full."""
        if self._next is None and self._current is not None and self._current.position > self._segment_limit // 2:
            self._next = self._create(self.numbers[-1] + 1)

    def drop(self, through: int) -> None:
        """Remove the segments up to this one, oldest first: none may outlive the settlements in a newer one."""
        while self.numbers[0] <= through:
            self._remove(self.numbers.pop(0))

    def _remove(self, number: int) -> None:
        if self._has_spare:
            self._disk.unlink(self._path(number))
        else:
            self._disk.rename(self._path(number), self._directory / SPARE)
            self._has_spare = True
        self._disk.sync_directory(self._directory)

    def seal(self) -> None:
        """End the present segment in order: nothing is written any more."""
        if self._current is not None:
            self._current.seal()

    def close(self) -> None:
        for segment in (self._current, self._next):
            if segment is not None:
                segment.close()
