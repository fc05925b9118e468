"""The messages that are left on queues, computed from the records of a journal."""

from typing import final

from mypy_extensions import i64

from flintmq.storage.inspection.ranges import Ranges
from flintmq.storage.inspection.records import entries_of, queue_of, return_of, settled_ranges


@final
class LiveMessages:
    """Collects records; its memory grows with ranges of sequence numbers, not with messages.

    Only the queues of `queue_ids` count, and their notes (queue -n has the notes of queue n).
    """

    def __init__(self, queue_ids: set[int]) -> None:
        # How often a message came back to its queue, by queue id and sequence number; only for those that did.
        self.returns: dict[tuple[int, int], int] = {}
        # How many records of an entry have a later record in the same segment, by segment, queue id and sequence
        # number.
        self.replaced: dict[tuple[str, int, int], int] = {}
        # The highest id that any record mentions.
        self.highest_id: i64 = 0
        self._queue_ids = queue_ids
        self._settled: dict[int, Ranges] = {}
        # Written sequence numbers by segment, in the order of the journal, and queue id.
        self._written: dict[str, dict[int, Ranges]] = {}

    def message(self, segment: str, data: bytes, position: int) -> int:
        """Add a message record; return its number of entries, one per queue."""
        written = self._written.setdefault(segment, {})
        count = 0
        for queue_id, seq in entries_of(data, position):
            count += 1
            self.highest_id = max(self.highest_id, queue_id, -queue_id)
            if queue_id in self._queue_ids or -queue_id in self._queue_ids:
                ranges = written.get(queue_id)
                if ranges is None:
                    ranges = written[queue_id] = Ranges()
                if seq in ranges:
                    key = segment, queue_id, seq
                    self.replaced[key] = self.replaced.get(key, 0) + 1
                ranges.add(seq, seq + 1)
        return count

    def settlement(self, data: bytes, position: int) -> None:
        queue_id = queue_of(data, position)
        if queue_id in self._queue_ids or -queue_id in self._queue_ids:
            settled = self._settled.setdefault(queue_id, Ranges())
            for first, length in settled_ranges(data, position):
                settled.add(first, first + length)

    def returned(self, data: bytes, position: int) -> None:
        queue_id = queue_of(data, position)
        if queue_id in self._queue_ids:
            seq, count = return_of(data, position)
            self.returns[queue_id, seq] = count

    def live(self) -> dict[str, dict[int, Ranges]]:
        """The sequence numbers of live messages, by segment and queue id. May be called once.

        A settled sequence number stays settled, wherever the settlement is. If a sequence number is in several
        segments, the message was moved or replaced, and the last record counts.
        """
        gone = self._settled
        found: dict[str, dict[int, Ranges]] = {}
        for segment in reversed(self._written):
            found[segment] = {}
            for queue_id, written in self._written[segment].items():
                before = gone.setdefault(queue_id, Ranges())
                found[segment][queue_id] = written.without(before)
                before.add_all(written)
        return found
