"""The records of journal blocks, which are distinguished by their first byte.

- message: number of queues u32; then queue id i64 and seq i64 for each; then the content (see content.py);
- moved, a message that compaction wrote again: count u32; then queue id i64, seq i64 and home slot u32 for each; then
  the home segment i64, and the content. The home is the position of these entries when the broker last started, or
  their first one, if they are younger: it identifies them until the next start;
- settlement: queue id i64, count u32, then first i64 and length u32 of each range of seqs;
- return: queue id i64, seq i64, and u32 how often that entry has come back to its queue;
- checkpoint: length u32 of everything after the next fields; first segment i64 that the broker began since its start,
  highest seq i64, count u32; then the live slots of each segment (see checkpoint.py);
- definitions: length u32 of the text; identity i64, generation i64, 1 (u8) if it contains all definitions; then the
  text, as JSON (see definitions/catalogue.py). It is a block of its own;
- undelivered: as a settlement, the seqs of messages that were never delivered when the broker stopped.
"""

import struct
from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

from flintmq.storage.content import content_end

RECORD_MESSAGE: Final = 1
RECORD_SETTLEMENT: Final = 2
RECORD_RETURN: Final = 3
RECORD_MOVED: Final = 4
RECORD_CHECKPOINT: Final = 5
RECORD_DEFINITIONS: Final = 6
RECORD_UNDELIVERED: Final = 7

# The position of the entries in a message record, and the bytes of each entry.
ENTRIES_AT: Final = 5
ENTRY_BYTES: Final = 16
MOVED_ENTRY_BYTES: Final = 20
HOME_BYTES: Final = 8
# The position of the ranges in a settlement record, and the bytes of each range. A return record has a fixed length.
RANGES_AT: Final = 13
RANGE_BYTES: Final = 12
RETURN_BYTES: Final = 21
CHECKPOINT_HEAD_BYTES: Final = 25
# A definitions record without its text.
DEFINITIONS_HEAD: Final = struct.Struct(">BIqqB")
DEFINITIONS_HEAD_BYTES: Final = 22


def content_position(data: bytes, position: i64) -> i64:
    """The position of the content of the message record at `position`, which may be a moved one."""
    count = i64(read_i32_be(data, position + 1))
    if data[position] == RECORD_MESSAGE:
        return position + ENTRIES_AT + ENTRY_BYTES * count
    return position + ENTRIES_AT + MOVED_ENTRY_BYTES * count + HOME_BYTES


def record_end(data: bytes, position: i64) -> i64:
    """The position after the record at `position`; 0 if its type is unknown."""
    record = data[position]
    if record == RECORD_MESSAGE or record == RECORD_MOVED:
        return content_end(data, content_position(data, position))
    if record == RECORD_SETTLEMENT or record == RECORD_UNDELIVERED:
        return position + RANGES_AT + RANGE_BYTES * i64(read_i32_be(data, position + 9))
    if record == RECORD_RETURN:
        return position + RETURN_BYTES
    if record == RECORD_CHECKPOINT:
        return position + CHECKPOINT_HEAD_BYTES + i64(read_i32_be(data, position + 1))
    if record == RECORD_DEFINITIONS:
        return position + DEFINITIONS_HEAD_BYTES + i64(read_i32_be(data, position + 1))
    return 0
