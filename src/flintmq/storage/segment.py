"""A file of blocks being written: by the sync thread, or by start-up before that thread runs."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import final

from flintmq.storage.block import (
    HEADER_BYTES,
    TYPE_MARK,
    TYPE_SEAL,
    FileHeader,
    encode_header,
    frame_block,
    mark_payload,
)
from flintmq.storage.failure import sync_failed
from flintmq.storage.files import Disk, DiskFile, sync_file

# The parts of one block's payload.
Block = tuple[bytes, ...]


@final
class SegmentFile:
    """Appends blocks, and marks in the file what is known to be synced, and which file it is.

    A write that raises counts as not made: the next one goes to the same place, so it can be made again where a disk
    was full. `write_through` may then have failed to sync; but it writes again all that it was to sync, and nothing
    else is to be synced with it. `sync` raises SyncFailed, after which nothing may be tried again.
    """

    def __init__(self, file: DiskFile, magic: bytes, number: int, position: int) -> None:
        self.file = file
        self.magic = magic
        self.position = position
        self._number = number
        self._synced = position
        # The first block of all is a mark; and so is that before the seal of a file that was cut.
        self._marked = 0

    def write(self, block_type: int, blocks: Sequence[Block]) -> list[int]:
        """Write blocks at the end with one call; returns where each begins."""
        parts, begins, end = self._frame(block_type, blocks)
        self.file.write_at(self.position, parts)
        self._marked = self._synced
        self.position = end
        return begins

    def write_through(self, block_type: int, blocks: Sequence[Block]) -> None:
        """Write blocks at the end; they and all before them are synced then."""
        if self._synced != self.position:
            self.write(block_type, blocks)
            self.sync()
            return
        parts, _, end = self._frame(block_type, blocks)
        self.file.write_through(self.position, parts)
        self._marked = self._synced
        self.position = end
        self._synced = end

    def _frame(self, block_type: int, blocks: Sequence[Block]) -> tuple[list[bytes], list[int], int]:
        """What to write, where each block will begin, and where the last will end."""
        parts = self._mark()
        position = self.position + sum(map(len, parts))
        begins: list[int] = []
        for block in blocks:
            begins.append(position)
            framed = frame_block(self.magic, block_type, block)
            parts += framed
            position += sum(map(len, framed))
        return parts, begins, position

    def sync(self) -> None:
        if self._synced != self.position:
            written = self.position
            sync_file(self.file)
            self._synced = written

    def seal(self) -> None:
        """Sync, and end the file with the proof that all of it was synced."""
        self.sync()
        parts = self._mark() + frame_block(self.magic, TYPE_SEAL, ())
        self.file.write_at(self.position, parts)
        self.position += sum(map(len, parts))
        self.sync()

    def close(self) -> None:
        self.file.close()

    def _mark(self) -> list[bytes]:
        if self._marked == self._synced:
            return []
        return frame_block(self.magic, TYPE_MARK, (mark_payload(self._synced, self._number),))


def create_segment(disk: Disk, draft: Path, path: Path, kind: int, number: int, extra: int) -> SegmentFile:
    """Make a segment file under its final name, durably.

    The header is synced under the name `draft` (a file there is overwritten), so that no crash can leave a segment
    whose header is not its own. A draft that a backup still holds under another name is left to it.
    """
    if disk.is_shared(draft):
        disk.unlink(draft)
    file = disk.create(draft)
    try:
        magic = disk.random_bytes(4)
        file.write_at(0, [encode_header(FileHeader(kind, number, extra, magic))])
        file.sync()
        disk.rename(draft, path)
        file.path = path
        sync_directory(disk, path.parent)
    except OSError:
        file.close()
        # Nothing is at stake yet: the next try makes another file, since this one may not be what it seems.
        with suppress(OSError):
            disk.unlink(draft)
        raise
    return SegmentFile(file, magic, number, HEADER_BYTES)


def end_tail(file: DiskFile, magic: bytes, number: int, synced: int, end: int, *, sealed: bool) -> int:
    """End a last segment at `end`, durably: nothing that stands behind may ever be found again. Returns its size then.

    What is behind `synced`, which its last mark says, is written once more: after a sync that failed, a system may go
    on showing it to readers without ever writing it to the disk.
    """
    synced = min(synced, end)
    file.truncate(end)
    file.write_at(synced, [file.read_at(synced, end - synced)])
    file.sync()
    tail = SegmentFile(file, magic, number, end)
    if not sealed:
        tail.seal()
    return tail.position


def sync_directory(disk: Disk, directory: Path) -> None:
    """Raises SyncFailed."""
    try:
        disk.sync_directory(directory)
    except OSError as error:
        raise sync_failed(error) from error
