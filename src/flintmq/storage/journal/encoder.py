"""The journal as the broker sees it: records are staged in memory, batch by batch. This module never accesses the disk.

A group (for example, a transaction) is one block, whose checksum makes it all or nothing.
"""

from collections import deque
from typing import Final, final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from flintmq.broker.message import Entry, Message
from flintmq.broker.ports import Journal
from flintmq.storage.content import BLOCK_BYTES, AddressEncoder, write_content_head
from flintmq.storage.journal.checkpoint import encode_checkpoint
from flintmq.storage.journal.compaction import STEP_BYTES, Chunk, Compaction, CompactionRequest, LiveEntries
from flintmq.storage.journal.occupancy import Occupancy
from flintmq.storage.journal.records import (
    RANGE_BYTES,
    RECORD_MESSAGE,
    RECORD_MOVED,
    RECORD_RETURN,
    RECORD_SETTLEMENT,
    RECORD_UNDELIVERED,
    content_position,
    record_end,
)

# No queue has this id.
_NO_QUEUE: Final = 0
# The approximate size of a record without its properties and body.
_RECORD_WEIGHT: Final = 64


def _weight(message: Message) -> i64:
    """The approximate size in bytes of a record with one slot."""
    return _RECORD_WEIGHT + len(message.properties) + len(message.body)


@final
class SettledRanges:
    """The sequence numbers of one queue that were settled in the present batch: an open range, and closed ranges if
    there are gaps.
    """

    def __init__(self, queue_id: i64, first: i64, last: i64) -> None:
        self.queue_id: i64 = queue_id
        self.first: i64 = first
        self.last: i64 = last
        self.closed_count: i64 = 0
        self.closed: BytesWriter | None = None

    def add(self, first: i64, last: i64) -> None:
        if first == self.last + 1:
            self.last = last
            return
        closed = self.closed
        if closed is None:
            closed = BytesWriter()
            self.closed = closed
        write_i64_be(closed, self.first)
        write_i32_be(closed, i32(self.last - self.first + 1))
        self.closed_count += 1
        self.first = first
        self.last = last

    def write(self, writer: BytesWriter) -> i64:
        """Write the settlement record; return the highest settled sequence number."""
        highest = self.last
        writer.append(RECORD_SETTLEMENT)
        write_i64_be(writer, self.queue_id)
        write_i32_be(writer, i32(self.closed_count + 1))
        closed = self.closed
        if closed is not None:
            ranges = closed.getvalue()
            writer.write(ranges)
            at: i64 = 0
            while at < len(ranges):
                highest = max(highest, read_i64_be(ranges, at) + i64(read_i32_be(ranges, at + 8)) - 1)
                at += RANGE_BYTES
        write_i64_be(writer, self.first)
        write_i32_be(writer, i32(self.last - self.first + 1))
        return highest


@final
class JournalBatch:
    """The blocks that one batch adds to the journal, all in one segment; sizes are in bytes."""

    def __init__(
        self,
        segment: int,
        blocks: list[tuple[bytes, ...]],
        size: int,
        messages: int,
        drop_through: int,
        compaction_request: CompactionRequest | None,
    ) -> None:
        self.segment = segment
        self.blocks = blocks
        self.size = size
        self.messages = messages
        # Segments up to this one hold nothing live. They are removed when the batch is synced, not before: the
        # settlement that emptied them, or the copy of a moved message, may be in this very batch.
        self.drop_through = drop_through
        # The chunk to read for compaction once the batch is synced.
        self.compaction_request = compaction_request


@final
class JournalEncoder(Journal):
    """Encodes the changes that the broker stages, and knows which slots of each segment live.

    `chunks` are the chunks that the sync thread has read for compaction. `segment_limit` and `step_bytes` are in bytes.
    """

    def __init__(self, segment_limit: int, chunks: deque[Chunk], step_bytes: int = STEP_BYTES) -> None:
        self.occupancy = Occupancy()
        self._compaction = Compaction(self.occupancy, chunks, step_bytes)
        self._segment = self.occupancy.current
        self._segment_limit: i64 = segment_limit
        self._writer = BytesWriter()
        self._blocks: list[tuple[bytes, ...]] = []
        self._batch_bytes: i64 = 0
        self._is_over = False
        self._messages: i64 = 0
        self._addresses = AddressEncoder()
        self._pending: dict[int, SettledRanges] = {}
        # The parts of the open group; its settlements are written with it, not at the end of the batch.
        self._group: list[bytes] | None = None
        self._group_bytes: i64 = 0
        # The number of groups within the open one; they are part of it.
        self._inner_groups: i64 = 0
        self._outside: dict[int, SettledRanges] = {}
        # The settled ranges of the last queue are cached: acknowledgements come in runs.
        self._settled = SettledRanges(_NO_QUEUE, -2, -2)
        # The last run of settled slots, which `occupancy` does not know yet: settlements come in runs.
        self._run_segment: i64 = 0
        self._run_first: i64 = 0
        self._run_end: i64 = 0
        self._run_weight: i64 = 0
        # The highest sequence number that was settled on any queue.
        self._highest_seq: i64 = 0
        # The checkpoint for a segment that was just begun; empty once it is written, or if there is none.
        self._checkpoint = b""
        # True if a segment was begun that has no copy of the definitions yet.
        self.wants_definitions = False
        # The number of definitions records in the present batch.
        self._definitions_blocks: i64 = 0

    def start(self, segment: int, highest_seq: int = 0) -> None:
        """Begin a new segment after those that recovery added to `occupancy`. `highest_seq` is the highest sequence
        number that recovery found.
        """
        self._highest_seq = highest_seq
        self._begin(segment)

    def _begin(self, segment: i64) -> None:
        self._segment = self.occupancy.open(segment)
        self._checkpoint = encode_checkpoint(self.occupancy, self._highest_seq)
        self.wants_definitions = True

    def append_definitions(self, definitions: bytes) -> None:
        """Add a definitions record as a block of its own, before everything else in the batch."""
        self._blocks.insert(0, (definitions,))
        self._batch_bytes += len(definitions)
        self._definitions_blocks += 1

    def append(self, message: Message, queue_ids: list[int], entries: list[Entry]) -> None:
        # The address is encoded first, because it can be refused.
        address = self._addresses.encode(message.address)
        # No client waits for notes of deduplication; their queues have negative ids.
        if queue_ids[0] > 0:
            self._messages += 1
        self._write_message(message, address, queue_ids, entries)

    def _write_message(self, message: Message, address: bytes, queue_ids: list[int], entries: list[Entry]) -> None:
        writer = self._writer
        segment = self._segment
        number = segment.number
        slot = segment.total
        count: i64 = len(queue_ids)
        writer.append(RECORD_MESSAGE)
        write_i32_be(writer, i32(count))
        i: i64 = 0
        while i < count:
            entry = entries[i]
            entry.segment = number
            entry.slot = slot + i
            write_i64_be(writer, queue_ids[i])
            write_i64_be(writer, entry.seq)
            i += 1
        segment.add(count, _weight(message))
        write_content_head(writer, message, address)
        body = message.body
        if self._group is not None:
            self._add_to_group(body)
            return
        if len(body) >= BLOCK_BYTES:
            self._add_block((writer.getvalue(), body), len(writer) + len(body))
            return
        writer.write(body)
        if len(writer) >= BLOCK_BYTES:
            self._add_block((writer.getvalue(),), len(writer))

    def settle(self, queue_id: i64, entry: Entry) -> None:
        segment = entry.segment
        if segment == 0:
            return
        entry.segment = 0
        slot = entry.slot
        if slot != self._run_end or segment != self._run_segment:
            self._end_run()
            self._run_segment = segment
            self._run_first = slot
        self._run_end = slot + 1
        self._run_weight += _weight(entry.message)
        seq = entry.seq
        if self._settled.queue_id == queue_id:
            self._settled.add(seq, seq)
        else:
            self._settle_other(queue_id, seq, seq)

    def settle_runs(self, queue_id: i64, seq_runs: list[int], slot_runs: list[int]) -> None:
        i: i64 = 0
        while i < len(slot_runs):
            slot: i64 = slot_runs[i + 1]
            self.occupancy.settle(slot_runs[i], slot, slot + slot_runs[i + 2])
            i += 3
        i = 0
        while i < len(seq_runs):
            first: i64 = seq_runs[i]
            self._settle_other(queue_id, first, first + seq_runs[i + 1] - 1)
            i += 2

    def _settle_other(self, queue_id: i64, first: i64, last: i64) -> None:
        """Settle a range of a queue that need not be the queue settled last."""
        found = self._pending.get(queue_id)
        if found is None:
            found = SettledRanges(queue_id, first, last)
            self._pending[queue_id] = found
        else:
            found.add(first, last)
        self._settled = found

    def _write_settled(self, settled: SettledRanges) -> None:
        self._highest_seq = max(self._highest_seq, settled.write(self._writer))

    def _end_run(self) -> None:
        if self._run_end > self._run_first:
            self.occupancy.settle(self._run_segment, self._run_first, self._run_end, self._run_weight)
        self._run_weight = 0
        self._run_first = 0
        self._run_end = 0

    def replace(self, queue_id: i64, entry: Entry, message: Message) -> None:
        """Write a new record for an entry. The later record counts (recovery.py), so the entry is not settled in
        between.
        """
        address = self._addresses.encode(message.address)
        self.occupancy.settle(entry.segment, entry.slot, entry.slot + 1, _weight(entry.message))
        if entry.returns == 0:
            self._write_message(message, address, [int(queue_id)], [entry])
            return
        # Recovery expects the return record after the message. Both are in one group: a tear between them would lose
        # the count.
        self.begin_group()
        self._write_message(message, address, [int(queue_id)], [entry])
        self.returned(queue_id, entry)
        self.end_group()

    def returned(self, queue_id: i64, entry: Entry) -> None:
        if entry.segment != 0:
            self.occupancy.returned(entry.segment, entry.slot, i64(entry.returns))
            self._write_return(queue_id, entry.seq, entry.returns)
            if self._group is None and len(self._writer) >= BLOCK_BYTES:
                self._add_block((self._writer.getvalue(),), len(self._writer))

    def undelivered(self, queue_id: i64, runs: list[int]) -> None:
        writer = self._writer
        writer.append(RECORD_UNDELIVERED)
        write_i64_be(writer, queue_id)
        write_i32_be(writer, i32(len(runs) // 2))
        i: i64 = 0
        while i < len(runs):
            write_i64_be(writer, runs[i])
            write_i32_be(writer, i32(runs[i + 1]))
            i += 2
        if len(writer) >= BLOCK_BYTES:
            self._add_block((writer.getvalue(),), len(writer))

    def _write_return(self, queue_id: i64, seq: i64, returns: i32) -> None:
        self._segment.has_returns = True
        writer = self._writer
        writer.append(RECORD_RETURN)
        write_i64_be(writer, queue_id)
        write_i64_be(writer, seq)
        write_i32_be(writer, returns)

    def begin_group(self) -> None:
        if self._group is not None:
            self._inner_groups += 1
            return
        if len(self._writer) > 0:
            self._add_block((self._writer.getvalue(),), len(self._writer))
        self._group = []
        self._group_bytes = 0
        self._outside = self._pending
        self._pending = {}
        self._settled = SettledRanges(_NO_QUEUE, -2, -2)

    def _add_to_group(self, body: bytes) -> None:
        """Add a record to the open group. Large bodies are not copied; the records between them are collected."""
        writer = self._writer
        group = self._group
        if group is None or len(body) < BLOCK_BYTES:
            writer.write(body)
            return
        self._group_bytes += len(writer) + len(body)
        group.append(writer.getvalue())
        group.append(body)
        writer.truncate(0)

    def end_group(self) -> None:
        if self._inner_groups > 0:
            self._inner_groups -= 1
            return
        group = self._group
        assert group is not None
        writer = self._writer
        for settled in self._pending.values():
            self._write_settled(settled)
        if len(writer) > 0:
            self._group_bytes += len(writer)
            group.append(writer.getvalue())
        if group:
            self._add_block(tuple(group), self._group_bytes)
        self._group = None
        self._pending = self._outside
        self._settled = SettledRanges(_NO_QUEUE, -2, -2)

    def _add_block(self, block: tuple[bytes, ...], size: i64) -> None:
        self._blocks.append(block)
        self._batch_bytes += size
        self._writer.truncate(0)

    @property
    def staged(self) -> bool:
        if self._is_over:
            return False
        if len(self._writer) > 0 or len(self._blocks) > 0 or len(self._pending) > 0:
            return True
        return self._compaction.has_work

    def take(self) -> JournalBatch:
        """End the batch. Settlements are last, so that they never reach the disk before a message of the same batch."""
        self._end_run()
        self._move()
        writer = self._writer
        for settled in self._pending.values():
            self._write_settled(settled)
            if len(writer) >= BLOCK_BYTES:
                self._add_block((writer.getvalue(),), len(writer))
        if len(writer) > 0:
            self._add_block((writer.getvalue(),), len(writer))
        segment = self._segment
        # A checkpoint is written before all message records, together with the first of them.
        if self._checkpoint and len(self._blocks) > self._definitions_blocks:
            self._batch_bytes += len(self._checkpoint)
            self._blocks.insert(0, (self._checkpoint,))
            self._checkpoint = b""
        segment.size += self._batch_bytes
        dead = self.occupancy.drop_dead()
        request = self._compaction.next_request(self._batch_bytes)
        batch = JournalBatch(segment.number, self._blocks, self._batch_bytes, self._messages, dead, request)
        self._clear()
        if segment.size >= self._segment_limit:
            self._begin(segment.number + 1)
        return batch

    def discard(self) -> None:
        """Drop the staged records, and accept no more: `occupancy` counts settlements as done that will never reach the
        disk.
        """
        self._clear()
        self._is_over = True
        self.wants_definitions = False

    def _clear(self) -> None:
        self._writer.truncate(0)
        self._blocks = []
        self._batch_bytes = 0
        self._definitions_blocks = 0
        self._messages = 0
        self._pending.clear()
        self._settled = SettledRanges(_NO_QUEUE, -2, -2)

    # -- compaction ---------------------------------------------------------------------------------------------

    def _move(self) -> None:
        """Write the live entries of some blocks of the segment that is being emptied again.

        A message may then be on the disk twice: recovery takes the later copy, and the old segment is removed only when
        the batch with the new copy is synced.
        """
        blocks = self._compaction.blocks(self._batch_bytes + len(self._writer))
        if blocks is None:
            return
        data = blocks.data
        for start, end in zip(blocks.starts, blocks.ends, strict=True):
            position: i64 = start
            while position < end:
                following = record_end(data, position)
                if data[position] == RECORD_MESSAGE or data[position] == RECORD_MOVED:
                    live_entries = self._compaction.live_entries(data, position)
                    if live_entries is not None:
                        self._write_again(live_entries, data[content_position(data, position) : following])
                position = following
        self._compaction.finish_blocks()

    def _write_again(self, live_entries: LiveEntries, content: bytes) -> None:
        """Write live entries again, as one record even if they are on several queues."""
        writer = self._writer
        home = live_entries.home
        count: i64 = len(live_entries.slots)
        writer.append(RECORD_MOVED)
        write_i32_be(writer, i32(count))
        weight: i64 = _RECORD_WEIGHT + len(content)
        self._segment.add_moved(count, weight)
        i: i64 = 0
        while i < count:
            slot: i64 = live_entries.slots[i]
            write_i64_be(writer, live_entries.queue_ids[i])
            write_i64_be(writer, live_entries.seqs[i])
            write_i32_be(writer, i32(slot))
            self._compaction.moved(home, slot, self._segment, weight)
            i += 1
        write_i64_be(writer, home.number)
        is_large = len(content) >= BLOCK_BYTES
        head = b""
        if is_large:
            head = writer.getvalue()
            writer.truncate(0)
        else:
            writer.write(content)
        returns = home.returns
        if returns is not None:
            # Returns are in the same block as the message: a tear between them would lose the count.
            i = 0
            while i < count:
                times = returns.get(live_entries.slots[i])
                if times > 0:
                    self._write_return(live_entries.queue_ids[i], live_entries.seqs[i], i32(times))
                i += 1
        if is_large:
            size = len(head) + len(content) + len(writer)
            self._add_block((head, content, writer.getvalue()), size)
        elif len(writer) >= BLOCK_BYTES:
            self._add_block((writer.getvalue(),), len(writer))
