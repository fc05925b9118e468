"""Times to live: finds the ready entries of a queue that expire next, at any position."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final, final

from mypy_extensions import i64

from flintmq.base.limits import EXPIRY_STEP_MESSAGES
from flintmq.broker.message import Entry
from flintmq.broker.queue.features import LEAVING, Feature
from flintmq.broker.timers import NEVER, Timed, Timers

# The heap is cleaned when it has this many times of entries that have left, and more of these than others.
_STALE_TIMES_MAX: Final = 1024


@final
class Expiry(Timed, Feature):
    """The ready entries of a queue that will expire. `expired` is called for each whose time has come.

    An entry that leaves is forgotten at once; only its time stays in the heap for a while. `expire_pages` is called
    with the time: it adds packed entries that have expired by then, and returns when to call it again, or NEVER.

    A run of the timers expires some entries, of all queues together, and the next run continues. Until then the queue
    still counts the others, but it does not deliver them.
    """

    def __init__(
        self, timers: Timers, expired: Callable[[Entry], None], expire_pages: Callable[[int], int] | None
    ) -> None:
        super().__init__()
        self._expire_pages = expire_pages
        self._timers = timers
        self._expired = expired
        # Pairs of expiry time and sequence number.
        self._heap: list[tuple[int, int]] = []
        self._entries: dict[int, Entry] = {}
        # Whether the last run left entries that had expired.
        self.is_behind = False

    def __len__(self) -> int:
        return len(self._entries)

    def hears(self) -> int:
        return LEAVING

    def add(self, entry: Entry) -> None:
        self._entries[int(entry.seq)] = entry
        heappush(self._heap, (int(entry.expires_ms), int(entry.seq)))
        self._timers.at(entry.expires_ms, self)

    def left(self, entry: Entry) -> None:
        # An entry that comes back is added again.
        self._entries.pop(int(entry.seq), None)
        if len(self._heap) > 2 * len(self._entries) + _STALE_TIMES_MAX:
            self._heap = [(int(kept.expires_ms), seq) for seq, kept in self._entries.items()]
            heapify(self._heap)

    def forget_some(self, most: int) -> int:
        """Forget `most` entries and times of a deleted queue, or all if there are fewer. Returns how many."""
        times = min(most, len(self._heap))
        # With a count of 0, the slice would be the whole list.
        if times > 0:
            del self._heap[-times:]
        count = min(most, len(self._entries))
        for _ in range(count):
            self._entries.popitem()
        return times + count

    def wake_at(self, due_ms: i64) -> None:
        """Have `on_due` called at a time (Unix time in ms), because packed entries expire then."""
        self._timers.at(due_ms, self)

    @property
    def has_time(self) -> bool:
        """Whether this run of the timers may expire more entries."""
        return self._timers.left > 0

    def spend(self, units: i64) -> None:
        """Count work that takes as long as expiring so many entries."""
        self._timers.left -= units

    def expire_by(self, now_ms: i64) -> None:
        """Expire entries whose time is over by now, as many as in a run of the timers."""
        self._timers.left = EXPIRY_STEP_MESSAGES
        self.on_due(now_ms)

    def on_due(self, now_ms: i64) -> None:
        if self.is_behind:
            self._expire(now_ms)
        pages_ms = NEVER
        if self._expire_pages is not None:
            # Entries of pages that were read before come first, or all pages would be in memory at once.
            pages_ms = self._expire_pages(int(now_ms)) if self.has_time else now_ms
        self._expire(now_ms)
        self.is_behind = bool(self._heap) and self._heap[0][0] <= now_ms
        # Looking at pages may have set times that are over by now.
        self._timers.cancel(self)
        if self._heap:
            self._timers.at(self._heap[0][0], self)
        if pages_ms != NEVER:
            self._timers.at(pages_ms, self)

    def _expire(self, now_ms: i64) -> None:
        """Expire entries in memory as long as there is time."""
        timers = self._timers
        while timers.left > 0 and self._heap and self._heap[0][0] <= now_ms:
            timers.left -= 1
            # An entry that came back is in the heap twice, but expires once.
            entry = self._entries.pop(heappop(self._heap)[1], None)
            if entry is not None:
                self._expired(entry)
