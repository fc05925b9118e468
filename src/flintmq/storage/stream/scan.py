"""Reading a whole segment to find out what is in it: where no index says so. Never holds more than a window of it."""

from collections.abc import Iterator
from typing import Final, final

from flintmq.storage.block import (
    BLOCK_HEAD_BYTES,
    HEADER_BYTES,
    TYPE_MARK,
    TYPE_SEAL,
    TYPE_STREAM,
    Damage,
    block_end,
    find_magic,
)
from flintmq.storage.content import ContentReader
from flintmq.storage.files import DiskFile
from flintmq.storage.stream.encoder import BLOCK_FIELDS_BYTES, RECORD_MIN_BYTES, block_fields
from flintmq.storage.stream.index import SegmentIndex

WINDOW_BYTES: Final = 1024 * 1024
_MAGIC_BYTES: Final = 4


@final
class SegmentScan:
    """What was found: the blocks are in `index`. `sealed` says that the file ends with the proof that it was synced.

    `synced` is what the last mark says: up to there the file was synced before.
    """

    def __init__(self, index: SegmentIndex) -> None:
        self.index = index
        self.damage: list[Damage] = []
        self.sealed = False
        self.synced = HEADER_BYTES

    @property
    def found_nothing(self) -> bool:
        return self.index.next_offset == self.index.first_offset and not self.damage


def guess_magic(file: DiskFile) -> bytes:
    """The block magic of a file whose header is damaged: of what is at its start and its end."""
    size = file.size()
    data = file.read_at(0, WINDOW_BYTES)
    if size > WINDOW_BYTES:
        data += file.read_at(max(WINDOW_BYTES, size - WINDOW_BYTES), WINDOW_BYTES)
    return find_magic(data)


def intact_blocks(file: DiskFile, position: int, end: int, magic: bytes) -> Iterator[tuple[int, bytes]]:
    """Positions of intact blocks found by their magic from `position` on, with their bytes."""
    while end - position >= BLOCK_HEAD_BYTES:
        window = file.read_at(position, min(WINDOW_BYTES, end - position))
        at = window.find(magic)
        while at >= 0:
            block = read_block(file, position + at, end)
            if block_end(block, 0, magic):
                yield position + at, block
            at = window.find(magic, at + 1)
        # The magic may lie across the edge.
        position += max(len(window) - _MAGIC_BYTES + 1, 1)


def read_block(file: DiskFile, position: int, end: int) -> bytes:
    """The bytes of a block by what its head says of its length; fewer where that cannot be."""
    head = file.read_at(position, min(BLOCK_HEAD_BYTES, end - position))
    length = BLOCK_HEAD_BYTES + int.from_bytes(head[4:8], "big")
    return file.read_at(position, length) if length <= end - position else head


def scan_segment(file: DiskFile, index: SegmentIndex, synced_whole: bool, content: ContentReader) -> SegmentScan:
    """Fill `index`, which knows the file's magic.

    `synced_whole` says that all of the file is known to have been synced, because a later one holds blocks. A broken
    block where the file was synced is damage; behind that the first one is where a crash tore the file, and the scan
    ends there.
    """
    found = SegmentScan(index)
    size = file.size()
    position = HEADER_BYTES
    last_block = b""
    last_end = HEADER_BYTES
    while not found.sealed and len(index.magic) == _MAGIC_BYTES:
        window = file.read_at(position, min(WINDOW_BYTES, size - position))
        if not block_end(window, 0, index.magic):
            window = read_block(file, position, size)
        at = 0
        while not found.sealed and (end := block_end(window, at, index.magic)):
            kind = window[at + BLOCK_HEAD_BYTES - 1]
            if kind == TYPE_STREAM:
                first_offset, highest_before, count = block_fields(window, at + BLOCK_HEAD_BYTES)
                index.add(position + at, first_offset, highest_before)
                index.next_offset = first_offset + count
                last_block = window[at:end]
                last_end = position + end
            elif kind == TYPE_MARK:
                found.synced = _mark(window, at)
            found.sealed = kind == TYPE_SEAL
            at = end
        position += at
        if at == 0:
            if not synced_whole and not _was_synced(file, position, size, index.magic):
                break
            following = next(intact_blocks(file, position + 1, size, index.magic), None)
            if following is None:
                found.damage.append(Damage(str(file.path), position, "the file ends without its seal"))
                break
            reason = f"{following[0] - position} bytes do not match their checksum"
            found.damage.append(Damage(str(file.path), position, reason))
            position = following[0]
    index.end = position
    if last_block:
        index.highest = max(index.highest, _highest_in(last_block, content))
    if any(damage.position >= last_end for damage in found.damage):
        # Readers have seen offsets of records that are now unreadable: none of them may be given to another record, or
        # those readers would skip it.
        index.next_offset += (position - last_end) // RECORD_MIN_BYTES
    return found


def _was_synced(file: DiskFile, position: int, size: int, magic: bytes) -> bool:
    """Whether a mark behind says that this position was on the disk."""
    for at, block in intact_blocks(file, position + 1, size, magic):
        if block[BLOCK_HEAD_BYTES - 1] == TYPE_MARK:
            synced = _mark(block, 0)
            if position < synced <= at:
                return True
    return False


def _mark(data: bytes, at: int) -> int:
    """What the mark at a place says."""
    return int.from_bytes(data[at + BLOCK_HEAD_BYTES : at + BLOCK_HEAD_BYTES + 8], "big")


def _highest_in(block: bytes, content: ContentReader) -> int:
    """The highest receive time of the records up to the end of a block."""
    _, highest, count = block_fields(block, BLOCK_HEAD_BYTES)
    position = BLOCK_HEAD_BYTES + BLOCK_FIELDS_BYTES
    for _ in range(count):
        highest = max(highest, content.read(block, position).timestamp_ms)
        position = content.position
    return highest
