"""What is left on the queues after the journal's blocks were read in order. Never touches the disk.

Seqs are not reused after a restart: a queue goes on behind the highest seq that any surviving record mentions, be it
a message or a settlement. Removed segments may make that forget seqs, and harmlessly so: what could hurt a message
that gets an old seq again is a surviving record which mentions that seq, and there is none by construction. (Records
that a crash tore off are truncated before the journal goes on, so they do not come back either.)
"""

from collections.abc import Iterator
from typing import final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from flintmq.broker.message import ContentCodec, Entry
from flintmq.storage.content import ContentReader
from flintmq.storage.journal.encoder import RECORD_MESSAGE, RECORD_RETURN, RECORD_SETTLEMENT
from flintmq.storage.journal.occupancy import Occupancy


@final
class QueueReplay:
    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        self.highest_seq: i64 = 0
        self.ordered = True

    def add(self, entry: Entry) -> None:
        """A later record of one seq is a copy that was moved forward: it replaces the earlier."""
        seq = entry.seq
        if seq > self.highest_seq:
            self.highest_seq = seq
        else:
            self.ordered = False
        self.entries[seq] = entry

    def settle(self, first: i64, length: i64) -> None:
        last = first + length - 1
        if last > self.highest_seq:
            self.highest_seq = last
        entries = self.entries
        if length > len(entries):
            for seq in [seq for seq in entries if first <= seq <= last]:
                del entries[seq]
            return
        seq64 = first
        while seq64 <= last:
            entries.pop(seq64, None)
            seq64 += 1


@final
class Replay:
    """Collects the unsettled entries of the queues that still exist. `begin_segment` comes before its blocks."""

    def __init__(self, codecs: dict[int, ContentCodec], queue_ids: set[int]) -> None:
        self._content = ContentReader(codecs)
        self._queues: dict[int, QueueReplay] = {}
        # The segment being read, and how many entries it brought, live or not.
        self._segment: i64 = 0
        self._total: i64 = 0
        for queue_id in queue_ids:
            self._queues[queue_id] = QueueReplay()

    def begin_segment(self, segment: int) -> None:
        self._segment = segment
        self._total = 0

    @property
    def segment_total(self) -> int:
        """How many entries the segment brought, live or not."""
        return self._total

    def read_block(self, data: bytes, start: int, length: int) -> bool:
        """Apply one block's records; False when they do not fill it exactly, which no intact block does."""
        position: i64 = start
        end: i64 = start + length
        while position < end:
            record = data[position]
            if record == RECORD_MESSAGE:
                position = self._read_message(data, position)
            elif record == RECORD_SETTLEMENT:
                position = self._read_settlement(data, position)
            elif record == RECORD_RETURN:
                position = self._read_return(data, position)
            else:
                return False
        return position == end

    def _read_message(self, data: bytes, position: i64) -> i64:
        count = i64(read_i32_be(data, position + 1))
        at = position + 5
        content_at = at + 16 * count
        wanted = False
        i: i64 = 0
        while i < count:
            if read_i64_be(data, at + 16 * i) in self._queues:
                wanted = True
                break
            i += 1
        slot = self._total
        self._total += count
        if not wanted:
            self._content.skip(data, content_at)
            return self._content.position
        message = self._content.read(data, content_at)
        while at < content_at:
            queue = self._queues.get(read_i64_be(data, at))
            if queue is not None:
                entry = Entry(message, read_i64_be(data, at + 8))
                entry.segment = self._segment
                entry.slot = slot
                entry.redelivered = True
                queue.add(entry)
            slot += 1
            at += 16
        return self._content.position

    def _read_settlement(self, data: bytes, position: i64) -> i64:
        queue = self._queues.get(read_i64_be(data, position + 1))
        count = i64(read_i32_be(data, position + 9))
        at = position + 13
        end = at + 12 * count
        if queue is not None:
            while at < end:
                queue.settle(read_i64_be(data, at), i64(read_i32_be(data, at + 8)))
                at += 12
        return end

    def _read_return(self, data: bytes, position: i64) -> i64:
        queue = self._queues.get(read_i64_be(data, position + 1))
        if queue is not None:
            entry = queue.entries.get(read_i64_be(data, position + 9))
            if entry is not None:
                entry.returns = read_i32_be(data, position + 17)
        return position + 21

    def occupy(self, occupancy: Occupancy) -> None:
        """Enter what was found into the segments it was found in."""
        for queue_id, queue in self._queues.items():
            for entry in queue.entries.values():
                occupancy.use(entry.segment).restore(queue_id, entry)

    def next_seqs(self) -> dict[int, int]:
        return {queue_id: queue.highest_seq + 1 for queue_id, queue in self._queues.items()}

    def entries(self) -> Iterator[tuple[int, Entry]]:
        """In order per queue; forgets what it has given."""
        for queue_id in sorted(self._queues):
            queue = self._queues.pop(queue_id)
            if queue.ordered:
                for entry in queue.entries.values():
                    yield queue_id, entry
            else:
                for seq in sorted(queue.entries):
                    yield queue_id, queue.entries[seq]
