"""Segment files that are being written: by the sync thread, or at start-up before that thread runs."""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, final

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
from flintmq.storage.files import Disk, DiskFile, leave_to_backup, sync_file

# The parts of one block's payload.
Block = tuple[bytes, ...]
# Framing so many blocks takes a few milliseconds. Then other threads get the interpreter lock if they wait for it:
# compiled code does not release it by itself.
BLOCKS_AT_ONCE: Final = 2_048


@final
class SegmentFile:
    """Appends blocks to a segment file, and writes marks with the synced position and the file's number.

    A write that raises counts as not made: the next write goes to the same place, so it can be repeated after a full
    disk. `write_through` may also raise because its sync failed; a repeated call writes everything again that it had to
    sync, and nothing else depends on that sync. `sync` raises SyncFailed, after which nothing may be tried again.

    What is not synced is written once more together with blocks that are to be synced, if it is at most `again_bytes`.
    The system can write and sync in one call, but syncs only what that call writes. A further call takes longer than
    writing a little, because the thread waits for the interpreter lock afterwards.
    """

    def __init__(self, file: DiskFile, magic: bytes, number: int, position: int, again_bytes: int = 0) -> None:
        self.file = file
        self.magic = magic
        self.position = position
        self._number = number
        self._synced = position
        self._again_bytes = again_bytes
        # What was written since the last sync; empty if it has more than `again_bytes`.
        self._unsynced = b""
        # 0 makes the first block a mark, as it does before the seal of a file that was cut.
        self._marked = 0

    def write(self, block_type: int, blocks: Sequence[Block]) -> list[int]:
        """Write blocks at the end with one system call; return the position of each."""
        parts, begins, end = self._frame(block_type, blocks)
        self.file.write_at(self.position, parts)
        self._marked = self._synced
        self.position = end
        if end - self._synced <= self._again_bytes:
            self._unsynced += b"".join(parts)
        else:
            self._unsynced = b""
        return begins

    def write_through(self, block_type: int, blocks: Sequence[Block]) -> None:
        """Write blocks at the end, and sync them and everything before them."""
        if self.position - self._synced > self._again_bytes:
            self.write(block_type, blocks)
            self.sync()
            return
        parts, _, end = self._frame(block_type, blocks)
        self.file.write_through(self._synced, [self._unsynced, *parts] if self._unsynced else parts)
        self._marked = self._synced
        self.position = end
        self._note_synced(end)

    def _frame(self, block_type: int, blocks: Sequence[Block]) -> tuple[list[bytes], list[int], int]:
        """The buffers to write, the position of each block, and the position after the last."""
        parts = self._mark()
        position = self.position + _size(parts)
        begins: list[int] = []
        for block in blocks:
            begins.append(position)
            framed = frame_block(self.magic, block_type, block)
            parts += framed
            position += _size(framed)
            if len(begins) % BLOCKS_AT_ONCE == 0:
                time.sleep(0)
        return parts, begins, position

    def sync(self) -> None:
        if self._synced != self.position:
            written = self.position
            sync_file(self.file)
            self._note_synced(written)

    def _note_synced(self, position: int) -> None:
        self._synced = position
        self._unsynced = b""

    def seal(self) -> None:
        """Sync the file, and end it with a seal, which proves that all of it was synced."""
        self.sync()
        parts = self._mark() + frame_block(self.magic, TYPE_SEAL, ())
        self.file.write_at(self.position, parts)
        self.position += _size(parts)
        self.sync()

    def close(self) -> None:
        self.file.close()

    def _mark(self) -> list[bytes]:
        if self._marked == self._synced:
            return []
        return frame_block(self.magic, TYPE_MARK, (mark_payload(self._synced, self._number),))


def _size(parts: list[bytes]) -> int:
    size = 0
    for part in parts:
        size += len(part)
    return size


def create_segment(
    disk: Disk, draft: Path, path: Path, kind: int, number: int, extra: int, again_bytes: int = 0
) -> SegmentFile:
    """Create a segment file under its final name, and sync it.

    The header is synced under the name `draft` (a file there is overwritten), so that no crash can leave a segment with
    a foreign header. A draft that a backup has linked is left to the backup.
    """
    leave_to_backup(disk, draft)
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
        # The file may be in an unknown state. Nothing depends on it yet, so the next try creates another one.
        with suppress(OSError):
            disk.unlink(draft)
        raise
    return SegmentFile(file, magic, number, HEADER_BYTES, again_bytes)


def end_tail(file: DiskFile, magic: bytes, number: int, synced: int, end: int, *, sealed: bool) -> int:
    """Cut the last segment at `end`, seal it, and sync it, so that nothing after the cut is ever found again; return
    its size.

    The bytes after `synced`, the position in its last mark, are written once more: after a failed sync, the system may
    show readers bytes that it will never write to the disk.
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
    """Sync a directory. Raises SyncFailed if that fails, because a failed sync cannot be retried."""
    try:
        disk.sync_directory(directory)
    except OSError as error:
        raise sync_failed(error) from error
