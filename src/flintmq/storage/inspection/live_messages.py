"""Which places of queues hold a message still: what a journal comes to."""

from typing import final

from mypy_extensions import i64

from flintmq.storage.inspection.ranges import Ranges
from flintmq.storage.inspection.records import entries_of, queue_of, return_of, settled_ranges


@final
class LiveMessages:
    """Is told of all records. What it takes is by runs of places, not by messages.

    Only the queues of `queue_ids` count, and their notes (queue -n has those of queue n).
    """

    def __init__(self, queue_ids: set[int]) -> None:
        # How often the messages came back that did, by queue and place.
        self.returns: dict[tuple[int, int], int] = {}
        # How many records of a place have a later one in the same segment: by that, queue and place.
        self.replaced: dict[tuple[str, int, int], int] = {}
        # The highest id that a record speaks of, whosever it is.
        self.highest_id: i64 = 0
        self._queue_ids = queue_ids
        self._settled: dict[int, Ranges] = {}
        # By segment, in order, and queue.
        self._written: dict[str, dict[int, Ranges]] = {}

    def message(self, segment: str, data: bytes, position: int) -> int:
        """Returns at how many places it was put."""
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
        """The places that hold a message, by the segment that has it, and queue. To be asked once.

        A place is settled for good, wherever the record says so. One that is in several segments was moved, or got
        another message: the last counts.
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
