"""Scan of a whole stream segment, if it has no index."""

from typing import final

from flintmq.storage.block import BLOCK_HEAD_BYTES, HEADER_BYTES, TYPE_STREAM, Damage
from flintmq.storage.content import ContentReader
from flintmq.storage.files import DiskFile
from flintmq.storage.segment_reader import SegmentReader
from flintmq.storage.stream.encoder import BLOCK_FIELDS_BYTES, RECORD_MIN_BYTES, block_fields
from flintmq.storage.stream.index import SegmentIndex


@final
class SegmentScan:
    """The result of a scan: `index` has the blocks. `sealed` says that the file ends with a seal; `synced` is the
    synced position according to its last mark.
    """

    def __init__(self, index: SegmentIndex, synced: int, damage: list[Damage], sealed: bool) -> None:
        self.index = index
        self.synced = synced
        self.damage = damage
        self.sealed = sealed

    @property
    def found_nothing(self) -> bool:
        return self.index.next_offset == self.index.first_offset and not self.damage


def scan_segment(file: DiskFile, first_offset: int, synced_whole: bool, content: ContentReader) -> SegmentScan:
    """Scan a segment.

    `synced_whole` says that the whole file is known to have been synced, because a later one holds blocks. In the last
    segment, the first broken block in the unsynced part is where a crash tore the file, and the scan ends there. If the
    index has no magic, the blocks cannot be found, and the whole file is damaged.
    """
    reader = SegmentReader(file, str(file.path))
    header = reader.header
    index = SegmentIndex(reader.magic, first_offset, 0 if header is None else header.extra)
    last_block = b""
    last_end = reader.end
    is_unreadable = not reader.magic
    synced = reader.size if synced_whole or is_unreadable else reader.synced_position()
    for block in reader.blocks(synced):
        if block.type != TYPE_STREAM:
            continue
        offset, highest_before, count = block_fields(block.data, block.at)
        if header is None and not last_block:
            index.highest_before = highest_before
        index.add(block.start - BLOCK_HEAD_BYTES, offset, highest_before)
        index.next_offset = offset + count
        last_block = block.data[block.at : block.at + block.length]
        last_end = reader.end
    index.end = reader.size if is_unreadable else reader.end
    index.highest = _highest_in(last_block, content) if last_block else index.highest_before
    if any(damage.position >= last_end for damage in reader.damage):
        # Readers have seen the offsets of records that are unreadable now. These offsets must not be used again: those
        # readers would skip the new records.
        index.next_offset += max(index.end - last_end, 0) // RECORD_MIN_BYTES
    return SegmentScan(index, max(synced, HEADER_BYTES), reader.damage, reader.sealed)


def _highest_in(payload: bytes, content: ContentReader) -> int:
    """The highest receive time of all records up to the end of a block."""
    _, highest, count = block_fields(payload, 0)
    position = BLOCK_FIELDS_BYTES
    for _ in range(count):
        highest = max(highest, content.read(payload, position).timestamp_ms)
        position = content.position
    return highest


def next_intact_block(file: DiskFile, position: int, end: int) -> int:
    """The position of the next intact block of records after a damaged one; `end` if there is none before that."""
    reader = SegmentReader(file, str(file.path))
    reader.end = position
    block = next(reader.blocks(reader.size), None)
    return end if block is None else min(block.start - BLOCK_HEAD_BYTES, end)
