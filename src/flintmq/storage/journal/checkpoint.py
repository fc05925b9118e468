"""Checkpoints: at the beginning of a segment, a checkpoint lists the live slots of the earlier segments.

So a restart can skip segments without live slots, even if older segments still hold messages that were settled only in
the skipped ones. A checkpoint is only a shortcut: segments stay until nothing before them lives. If a checkpoint, or
anything that it covers, is damaged, all segments are read as if there were no checkpoint. Its slots are those that the
broker counted: in a segment that lost a block they would be the slots of other messages.
"""

from typing import Final, final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from flintmq.storage.journal.bits import Bits
from flintmq.storage.journal.occupancy import Occupancy, Segment
from flintmq.storage.journal.records import CHECKPOINT_HEAD_BYTES, RECORD_CHECKPOINT

# A sixteenth of a full segment, which is enough for the bits of some 30 segments of small messages. If more segments
# live in part, no checkpoint is written, and a restart reads everything: at most four times what lives, because
# compaction ensures that.
CHECKPOINT_MAX_BYTES: Final = 4 * 1024 * 1024

# The form of a segment's live slots: none, all, a bitmap of the settled slots, or a list of the live slots.
_NOTHING: Final = 0
_ALL: Final = 1
_BITS: Final = 2
_LIST: Final = 3
# Number and size i64, whether the file is needed u8, form u8, length of the bitmap or list u32.
_COVERED_BYTES: Final = 22
_SLOT_BYTES: Final = 4


def encode_checkpoint(occupancy: Occupancy, highest_seq: i64) -> bytes:
    """Encode a checkpoint of all segments except the current one; empty if it would save a restart nothing, or would be
    too long.

    `highest_seq` is the highest sequence number that the covered segments settle.
    """
    current = occupancy.current
    if not any(not segment.is_needed for segment in occupancy.segments() if segment is not current):
        return b""
    writer = BytesWriter()
    count: i64 = 0
    first_own: i64 = current.number
    for segment in occupancy.homes():
        if segment is current:
            continue
        if segment.is_own and segment.number < first_own:
            first_own = segment.number
        _write_covered(writer, segment)
        count += 1
        if len(writer) > CHECKPOINT_MAX_BYTES:
            return b""
    record = BytesWriter()
    record.append(RECORD_CHECKPOINT)
    write_i32_be(record, i32(len(writer)))
    write_i64_be(record, first_own)
    write_i64_be(record, highest_seq)
    write_i32_be(record, i32(count))
    record.write(writer.getvalue())
    return record.getvalue()


def _write_covered(writer: BytesWriter, segment: Segment) -> None:
    write_i64_be(writer, segment.number)
    write_i64_be(writer, segment.size)
    writer.append(1 if segment.is_needed else 0)
    if segment.live == 0:
        form = _NOTHING
        slots = b""
    elif segment.live == segment.total:
        form = _ALL
        slots = b""
    elif segment.is_listed:
        form = _LIST
        listed = BytesWriter()
        for slot in segment.listed():
            write_i32_be(listed, i32(slot))
        slots = listed.getvalue()
    else:
        form = _BITS
        slots = segment.settled_bits()
    writer.append(form)
    write_i32_be(writer, i32(len(slots)))
    writer.write(slots)


@final
class CoveredSegment:
    """A segment in a checkpoint: its size in bytes, whether its file is needed, and its live slots."""

    def __init__(self, size: i64, is_needed: bool, form: i64) -> None:
        self.size = size
        self.is_needed = is_needed
        self.form = form
        self.settled = Bits()
        self.listed: set[int] = set()

    def is_live(self, slot: i64) -> bool:
        if self.form == _BITS:
            return not self.settled.has(slot)
        return self.form == _ALL or (self.form == _LIST and slot in self.listed)


@final
class Checkpoint:
    """A decoded checkpoint.

    `first_own` is the first segment that the broker had begun since its start. Records before the checkpoint mention no
    sequence number above `highest_seq`, except those of live messages.
    """

    def __init__(self, data: bytes, position: i64) -> None:
        self.first_own = read_i64_be(data, position + 5)
        self.highest_seq = read_i64_be(data, position + 13)
        self.covered: dict[int, CoveredSegment] = {}
        # The home segment of the last query is cached: slots are queried in order.
        self._home: i64 = 0
        self._recent: CoveredSegment | None = None
        count = i64(read_i32_be(data, position + 21))
        at = position + CHECKPOINT_HEAD_BYTES
        while count > 0:
            form = i64(data[at + 17])
            covered = CoveredSegment(read_i64_be(data, at + 8), data[at + 16] != 0, form)
            end = at + _COVERED_BYTES + i64(read_i32_be(data, at + 18))
            if form == _BITS:
                covered.settled.add_bits(data[at + _COVERED_BYTES : end])
            elif form == _LIST:
                slot_at = at + _COVERED_BYTES
                while slot_at < end:
                    covered.listed.add(i64(read_i32_be(data, slot_at)))
                    slot_at += _SLOT_BYTES
            self.covered[read_i64_be(data, at)] = covered
            at = end
            count -= 1

    def is_needed(self, number: i64) -> bool:
        """Tell whether a segment has live messages. A segment that the checkpoint does not mention was about to be
        removed.
        """
        covered = self.covered.get(number)
        return covered is not None and covered.is_needed

    def size(self, number: i64) -> i64:
        covered = self.covered.get(number)
        return 0 if covered is None else covered.size

    def is_live(self, home: i64, slot: i64) -> bool:
        if home != self._home:
            self._home = home
            self._recent = self.covered.get(home)
        covered = self._recent
        return covered is not None and covered.is_live(slot)
