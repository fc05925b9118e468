"""What a journal block holds: records, told apart by their first byte.

- message: count u32 of queues; then queue id i64 and seq i64 of each; then the content (see content.py);
- moved, a message written again so that its segment can go: count u32; then queue id i64, seq i64 and home slot u32 of
  each; then the home segment i64, and the content. Home is where these entries were when the broker last started, or
  first, if that was later: they are known by it until it starts again;
- settlement: queue id i64, count u32, then first i64 and length u32 of each range of seqs;
- return: queue id i64, seq i64, and u32 how often that entry has come back to its queue;
- checkpoint: bytes u32 of all behind the next fields; first segment i64 of this life of the broker, highest seq i64,
  count u32; then of each segment what lives (see checkpoint.py);
- definitions: bytes u32 of the text; identity i64, generation i64, 1 (u8) if it is about all of them; then what there
  is, as JSON (see definitions/catalogue.py). It is a block of its own;
- undelivered: as a settlement, the places whose messages nobody had had when the broker stopped.
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

# Where the entries of a message begin in its record, and the bytes of each.
ENTRIES_AT: Final = 5
ENTRY_BYTES: Final = 16
MOVED_ENTRY_BYTES: Final = 20
HOME_BYTES: Final = 8
# The same of a settlement's ranges; a return has one length.
RANGES_AT: Final = 13
RANGE_BYTES: Final = 12
RETURN_BYTES: Final = 21
CHECKPOINT_HEAD_BYTES: Final = 25
# Of definitions: all but the text.
DEFINITIONS_HEAD: Final = struct.Struct(">BIqqB")
DEFINITIONS_HEAD_BYTES: Final = 22


def content_position(data: bytes, position: i64) -> i64:
    """Where the content of a message begins that is at `position`, moved or not."""
    count = i64(read_i32_be(data, position + 1))
    if data[position] == RECORD_MESSAGE:
        return position + ENTRIES_AT + ENTRY_BYTES * count
    return position + ENTRIES_AT + MOVED_ENTRY_BYTES * count + HOME_BYTES


def record_end(data: bytes, position: i64) -> i64:
    """Where the record at `position` ends; 0 when it is none that is known."""
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
