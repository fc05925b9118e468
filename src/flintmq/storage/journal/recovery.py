"""Recovery: finds the messages that are left on the queues, in two passes over the journal. It never accesses the disk.

The first pass goes from the newest record to the oldest. So when it reaches a message record, it knows whether a later
record has settled the message, or is the same message moved by compaction: a bit per sequence number says so, and a bit
per slot stores the result. The second pass goes forward, segment by segment, and creates entries for the live slots.

Sequence numbers are not reused after a restart: a queue continues after the highest seq that any surviving record
mentions, in a message or a settlement. Removing segments may forget seqs, but that is harmless: a reused seq could only
hurt a message if a surviving record mentioned the seq, and no such record exists. (Records that a crash tore off are
truncated before the journal continues, so they do not come back either.)
"""

from collections.abc import Collection, Iterator
from typing import Final, final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i64_be
from mypy_extensions import i32, i64

from flintmq.broker.message import ContentCodec, Entry, Message
from flintmq.storage.content import ContentReader
from flintmq.storage.journal.bits import Bits, Counts
from flintmq.storage.journal.checkpoint import Checkpoint
from flintmq.storage.journal.merge import Runs
from flintmq.storage.journal.occupancy import Occupancy, Segment
from flintmq.storage.journal.records import (
    ENTRIES_AT,
    ENTRY_BYTES,
    MOVED_ENTRY_BYTES,
    RANGE_BYTES,
    RANGES_AT,
    RECORD_CHECKPOINT,
    RECORD_MESSAGE,
    RECORD_MOVED,
    RECORD_RETURN,
    RECORD_SETTLEMENT,
    RECORD_UNDELIVERED,
    content_position,
    record_end,
)
from flintmq.storage.journal.source import Blocks, BlockSource

# Sequence numbers of a queue are stored in parts of this size: 8 KiB as bits, 1 KiB as counts of returns. Queues are
# long, but what happened to their messages happened close together.
_CHUNK_SEQS: Final = 1 << 16
_CHUNK_RETURNS: Final = 1 << 10
_HIGHEST: Final = (1 << 62) - 1


@final
class SeqSet:
    """A set of sequence numbers, most of which are adjacent."""

    def __init__(self) -> None:
        self._chunks: dict[int, Bits] = {}
        # This object stands for each part that was added completely.
        self._full = Bits()
        self._index: i64 = -1
        self._recent = self._full

    def add(self, seq: i64) -> bool:
        """Add a sequence number; return whether it is new."""
        if seq // _CHUNK_SEQS != self._index:
            self._find(seq // _CHUNK_SEQS)
        return self._recent is not self._full and self._recent.add(seq % _CHUNK_SEQS)

    def add_run(self, first: i64, end: i64) -> None:
        while first < end:
            index = first // _CHUNK_SEQS
            stop = min(end, (index + 1) * _CHUNK_SEQS)
            if stop - first == _CHUNK_SEQS:
                self._chunks[index] = self._full
                self._index = -1
            else:
                self._find(index)
                if self._recent is not self._full:
                    self._recent.add_run(first % _CHUNK_SEQS, first % _CHUNK_SEQS + stop - first)
            first = stop

    def has(self, seq: i64) -> bool:
        if seq // _CHUNK_SEQS != self._index:
            chunk = self._chunks.get(seq // _CHUNK_SEQS)
            if chunk is None:
                return False
            self._recent = chunk
            self._index = seq // _CHUNK_SEQS
        return self._recent is self._full or self._recent.has(seq % _CHUNK_SEQS)

    def _find(self, index: i64) -> None:
        chunk = self._chunks.get(index)
        if chunk is None:
            chunk = Bits()
            self._chunks[index] = chunk
        self._recent = chunk
        self._index = index


@final
class QueueReplay:
    """The state of one queue, computed from its records, the newest first."""

    def __init__(self, notes: list[Entry] | None = None) -> None:
        self.highest_seq: i64 = 0
        # For a queue of notes, its live notes, the newest first: they are few, and needed before the second pass.
        self.notes = notes
        # The live messages, if their records are not in queue order.
        self.runs: Runs | None = None
        self.is_ordered = True
        # Sequence numbers that are settled, or that a later record has.
        self._done = SeqSet()
        self._lowest_live: i64 = _HIGHEST
        self._returns: dict[int, Counts] = {}
        # Messages that were never delivered; None if no record lists them.
        self.undelivered: SeqSet | None = None

    def was_delivered(self, seq: i64) -> bool:
        """Tell whether the message may have been delivered before."""
        undelivered = self.undelivered
        return undelivered is None or not undelivered.has(seq)

    def add(self, seq: i64) -> bool:
        """Add a message record; return whether this record is the live one of its message."""
        if seq > self.highest_seq:
            self.highest_seq = seq
        if not self._done.add(seq):
            return False
        if seq > self._lowest_live:
            self.is_ordered = False
        else:
            self._lowest_live = seq
        return True

    def settle(self, first: i64, length: i64) -> None:
        if first + length - 1 > self.highest_seq:
            self.highest_seq = first + length - 1
        self._done.add_run(first, first + length)

    def add_returns(self, seq: i64, returns: i64) -> None:
        counts = self._returns.get(seq // _CHUNK_RETURNS)
        if counts is None:
            counts = Counts()
            self._returns[seq // _CHUNK_RETURNS] = counts
        # Records are read backwards, so the first count found is the newest.
        if counts.get(seq % _CHUNK_RETURNS) == 0:
            counts.set(seq % _CHUNK_RETURNS, returns)

    def returns(self, seq: i64) -> i64:
        if not self._returns:
            return 0
        counts = self._returns.get(seq // _CHUNK_RETURNS)
        return 0 if counts is None else counts.get(seq % _CHUNK_RETURNS)


@final
class Replay:
    """Finds the unsettled entries of the queues that still exist.

    `read_segment` is called for each segment, from the newest to the oldest, except those that a checkpoint makes
    unnecessary; then `entries` is called.
    """

    def __init__(
        self, codecs: dict[int, ContentCodec], queue_ids: set[int], note_ids: Collection[int] = frozenset()
    ) -> None:
        # The newest checkpoint that was found.
        self.checkpoint: Checkpoint | None = None
        # The segment that a clean stop ended, if nothing was delivered since; 0 if there is none.
        self.ended: i64 = 0
        self._goes_by_checkpoints = True
        self._codecs = codecs
        self._content = ContentReader(codecs)
        self._queues: dict[int, QueueReplay] = {}
        for queue_id in queue_ids:
            self._queues[queue_id] = QueueReplay()
        for queue_id in note_ids:
            self._queues[queue_id] = QueueReplay([])
        # The highest id that records mention and that is not one of these queues.
        self.highest_unknown_id: i64 = 0
        # The queue of the last record is cached.
        self._queue_id: i64 = 0
        self._queue: QueueReplay | None = None

    def _find(self, queue_id: i64) -> QueueReplay | None:
        if queue_id != self._queue_id:
            self._queue = self._queues.get(queue_id)
            self._queue_id = queue_id
            if self._queue is None:
                # Queue -n has the notes of queue n, or its staged copies.
                self.highest_unknown_id = max(self.highest_unknown_id, queue_id if queue_id > 0 else -queue_id)
        return self._queue

    def restart(self) -> None:
        """Start again: all segments are read once more, and checkpoints are ignored."""
        self.checkpoint = None
        self._goes_by_checkpoints = False
        for queue_id, queue in self._queues.items():
            self._queues[queue_id] = QueueReplay(None if queue.notes is None else [])
        self._queue_id = 0
        self._queue = None

    # -- the first pass -----------------------------------------------------------------------------------------

    def read_segment(self, segment: Segment, blocks: Blocks) -> list[int]:
        """Read a segment; return the indexes of the damaged blocks: their records do not fill them exactly."""
        data = blocks.data
        positions = BytesWriter()
        total: i64 = 0
        weight: i64 = 0
        strange: list[int] = []
        for i in range(len(blocks.starts)):
            position: i64 = blocks.starts[i]
            end: i64 = blocks.ends[i]
            known: i64 = len(positions)
            slots: i64 = 0
            found: i64 = 0
            while position < end:
                write_i64_be(positions, position)
                count: i64 = 0
                if data[position] == RECORD_MESSAGE or data[position] == RECORD_MOVED:
                    count = i64(read_i32_be(data, position + 1))
                following = record_end(data, position)
                if following <= position:
                    break
                slots += count
                found += count * (following - position)
                position = following
            if position == end:
                total += slots
                weight += found
            else:
                positions.truncate(known)
                strange.append(i)
        segment.restore_all_settled(total, weight)
        self._read_back(segment, data, positions.getvalue())
        return strange

    def _read_back(self, segment: Segment, data: bytes, positions: bytes) -> None:
        """Read the records at these positions in reverse order."""
        slot = segment.total
        at: i64 = len(positions)
        while at > 0:
            at -= 8
            position = read_i64_be(positions, at)
            record = data[position]
            if record == RECORD_MESSAGE or record == RECORD_MOVED:
                slot -= i64(read_i32_be(data, position + 1))
                self._read_message(segment, data, position, slot)
            elif record == RECORD_SETTLEMENT:
                self._read_settlement(data, position)
            elif record == RECORD_UNDELIVERED:
                if segment.number == self.ended:
                    self._read_undelivered(data, position)
            elif record == RECORD_RETURN:
                queue = self._find(read_i64_be(data, position + 1))
                segment.has_returns = True
                if queue is not None:
                    queue.add_returns(read_i64_be(data, position + 9), i64(read_i32_be(data, position + 17)))
            elif record == RECORD_CHECKPOINT and self._goes_by_checkpoints and self.checkpoint is None:
                # A checkpoint is the first record of its segment.
                self.checkpoint = Checkpoint(data, position)

    def _read_message(self, segment: Segment, data: bytes, position: i64, slot: i64) -> None:
        stride: i64 = ENTRY_BYTES if data[position] == RECORD_MESSAGE else MOVED_ENTRY_BYTES
        at = position + ENTRIES_AT
        end = at + stride * i64(read_i32_be(data, position + 1))
        weight: i64 = -1
        checkpoint = self.checkpoint
        home = segment.number
        has_slots = False
        if checkpoint is not None and data[position] == RECORD_MOVED and home >= checkpoint.first_own:
            has_slots = True
            home = read_i64_be(data, end)
        while at < end:
            queue = self._find(read_i64_be(data, at))
            if checkpoint is not None:
                home_slot = i64(read_i32_be(data, at + 16)) if has_slots else slot
                if not checkpoint.is_live(home, home_slot):
                    queue = None
            if queue is not None:
                seq = read_i64_be(data, at + 8)
                if queue.add(seq):
                    if weight < 0:
                        weight = record_end(data, position) - position
                    segment.restore_live(slot, weight)
                    returns = queue.returns(seq)
                    if returns > 0:
                        segment.set_returns(slot, returns)
                    if queue.notes is not None:
                        note = Entry(self._content.read(data, content_position(data, position)), seq)
                        note.segment = segment.number
                        note.slot = slot
                        queue.notes.append(note)
            slot += 1
            at += stride

    def _read_settlement(self, data: bytes, position: i64) -> None:
        queue = self._find(read_i64_be(data, position + 1))
        if queue is None:
            return
        at = position + RANGES_AT
        end = at + RANGE_BYTES * i64(read_i32_be(data, position + 9))
        while at < end:
            queue.settle(read_i64_be(data, at), i64(read_i32_be(data, at + 8)))
            at += RANGE_BYTES

    def _read_undelivered(self, data: bytes, position: i64) -> None:
        queue = self._find(read_i64_be(data, position + 1))
        if queue is None:
            return
        if queue.undelivered is None:
            queue.undelivered = SeqSet()
        at = position + RANGES_AT
        end = at + RANGE_BYTES * i64(read_i32_be(data, position + 9))
        while at < end:
            first = read_i64_be(data, at)
            queue.undelivered.add_run(first, first + i64(read_i32_be(data, at + 8)))
            at += RANGE_BYTES

    def next_seqs(self) -> dict[int, int]:
        """The next sequence number of each queue: no surviving record mentions it, not even in a segment that was not
        read.
        """
        unread: i64 = 0 if self.checkpoint is None else self.checkpoint.highest_seq
        return {queue_id: max(queue.highest_seq, unread) + 1 for queue_id, queue in self._queues.items()}

    # -- the second pass ----------------------------------------------------------------------------------------

    def entries(self, source: BlockSource, occupancy: Occupancy) -> Iterator[tuple[int, list[Entry]]]:
        """All live entries, in runs of entries of one queue with its id: notes first, then messages in queue order.

        Meanwhile segments may be added, and entries that were already returned may be settled.
        """
        for queue_id, queue in self._queues.items():
            if queue.notes is not None:
                yield queue_id, sorted(queue.notes, key=_seq_of)
                queue.notes = []
            elif not queue.is_ordered:
                queue.runs = Runs(queue_id)
        for segment in occupancy.segments():
            if segment.live == 0 or segment.is_own:
                continue
            blocks = source.load(segment.number)
            slot: i64 = 0
            for i in range(len(blocks.starts)):
                found: list[tuple[int, list[Entry]]] = []
                slot = self._read_block(segment, blocks, i, slot, found)
                yield from found
            blocks = Blocks(b"", 0, [], [])
        for queue_id, queue in self._queues.items():
            if queue.runs is not None:
                for _, entry in queue.runs.entries(source, occupancy, self._codecs):
                    entry.redelivered = queue.was_delivered(entry.seq)
                    yield queue_id, [entry]
                queue.runs = None

    def _read_block(
        self, segment: Segment, blocks: Blocks, index: int, first_slot: i64, found: list[tuple[int, list[Entry]]]
    ) -> i64:
        """Add the live entries of a block to `found`, in runs of entries of one queue; return the slot of the first
        entry in the next block.
        """
        run: list[Entry] = []
        run_id: i64 = 0
        data = blocks.data
        start: i64 = blocks.starts[index]
        end: i64 = blocks.ends[index]
        returns = segment.returns
        slot = first_slot
        position = start
        while position < end:
            if data[position] == RECORD_MESSAGE or data[position] == RECORD_MOVED:
                stride: i64 = ENTRY_BYTES if data[position] == RECORD_MESSAGE else MOVED_ENTRY_BYTES
                content_at = content_position(data, position)
                at = position + ENTRIES_AT
                last = at + stride * i64(read_i32_be(data, position + 1))
                message: Message | None = None
                while at < last:
                    if segment.is_live(slot):
                        queue = self._find(read_i64_be(data, at))
                        assert queue is not None
                        seq = read_i64_be(data, at + 8)
                        if queue.notes is not None:
                            pass
                        elif queue.runs is not None:
                            queue.runs.add(seq, segment.number, blocks.offset + start, blocks.offset + end, first_slot)
                        else:
                            if message is None:
                                message = self._content.read(data, content_at)
                            entry = Entry(message, seq)
                            entry.segment = segment.number
                            entry.slot = slot
                            entry.redelivered = queue.was_delivered(seq)
                            if returns is not None:
                                entry.returns = i32(returns.get(slot))
                            if not found or self._queue_id != run_id:
                                run = []
                                run_id = self._queue_id
                                found.append((run_id, run))
                            run.append(entry)
                    slot += 1
                    at += stride
                position = record_end(data, position) if message is None else self._content.position
            else:
                position = record_end(data, position)
        return slot


def _seq_of(entry: Entry) -> int:
    return entry.seq
