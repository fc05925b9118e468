"""Messages that live for a time: which of a queue's ready entries expires next, wherever it stands."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final, final

from mypy_extensions import i64

from flintmq.broker.message import READY, Entry
from flintmq.broker.timers import Timed, Timers

# Entries that left before their time are forgotten once there are more of them than this, and than others.
_LEFT_ENTRIES_MAX: Final = 1024


@final
class Expiry(Timed):
    """The ready entries of a queue that will expire. `expired` is called for each whose time has come."""

    def __init__(self, timers: Timers, expired: Callable[[Entry], None]) -> None:
        super().__init__()
        self._timers = timers
        self._expired = expired
        self._heap: list[tuple[int, int, Entry]] = []
        self._left: i64 = 0
        # Of two items with one time the first added goes first; an entry that came back is in there twice.
        self._added = 0

    def add(self, entry: Entry) -> None:
        self._added += 1
        heappush(self._heap, (int(entry.expires_ms), self._added, entry))
        self._timers.at(entry.expires_ms, self)

    def left(self) -> None:
        """An entry was taken, or removed. What comes back is added again."""
        self._left += 1
        if self._left > _LEFT_ENTRIES_MAX and self._left * 2 > len(self._heap):
            self._heap = [item for item in self._heap if item[2].state == READY]
            heapify(self._heap)
            self._left = 0

    def on_due(self, now_ms: i64) -> None:
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            entry = heappop(heap)[2]
            if entry.state == READY:
                self._expired(entry)
        if heap:
            self._timers.at(heap[0][0], self)
