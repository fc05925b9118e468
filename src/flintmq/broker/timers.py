"""What has to happen at a time: expiry, delays, retries. The broker is told the time; it has no clock."""

from abc import abstractmethod
from heapq import heapify, heappop, heappush
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

NEVER: Final = 0
# Times that were cancelled or brought forward are forgotten once there are more of them than this, and than others.
_STALE_TIMES_MAX: Final = 64


@mypyc_attr(allow_interpreted_subclasses=True)
class Timed:
    """Something that wants to be called at a time. It has one such time, the earliest it asked for."""

    def __init__(self) -> None:
        # Unix time in ms, NEVER while nothing is due.
        self.due_ms: i64 = NEVER

    @abstractmethod
    def on_due(self, now_ms: i64) -> None:
        """The time has come. Ask again for what is due later."""


@final
class Timers:
    """All that is due later, the earliest first."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timed]] = []
        self._count = 0
        # Of those in the heap, how many have another time by now, or none.
        self._stale: i64 = 0

    def __len__(self) -> int:
        """How many times are remembered, those that count for nothing any more among them."""
        return len(self._heap)

    def at(self, due_ms: i64, timed: Timed) -> None:
        """Call it then, or earlier where it asked for an earlier time before."""
        if timed.due_ms != NEVER:
            if timed.due_ms <= due_ms:
                return
            self._stale += 1
        timed.due_ms = due_ms
        self._count += 1
        heappush(self._heap, (int(due_ms), self._count, timed))
        self._tidy()

    def cancel(self, timed: Timed) -> None:
        if timed.due_ms != NEVER:
            timed.due_ms = NEVER
            self._stale += 1
            self._tidy()

    def _tidy(self) -> None:
        """What is cancelled must not hold its queue or channel in memory until it would have been due."""
        if self._stale <= _STALE_TIMES_MAX or self._stale * 2 <= len(self._heap):
            return
        # Cancelled and asked for again with the same time, one is in there twice.
        kept = {id(item[2]): item for item in self._heap if item[2].due_ms == item[0]}
        self._heap = list(kept.values())
        heapify(self._heap)
        self._stale = 0

    def _pop(self) -> Timed | None:
        """Take out the earliest; None where it counts for nothing any more."""
        due_ms, _, timed = heappop(self._heap)
        if timed.due_ms == due_ms:
            return timed
        self._stale -= 1
        return None

    @property
    def next_ms(self) -> int:
        """When `run` has something to do next (Unix time in ms), NEVER when there is nothing."""
        while self._heap and self._heap[0][2].due_ms != self._heap[0][0]:
            self._pop()
        return self._heap[0][0] if self._heap else NEVER

    def run(self, now_ms: i64) -> None:
        """Call all that is due by now."""
        while self._heap and self._heap[0][0] <= now_ms:
            timed = self._pop()
            if timed is not None:
                timed.due_ms = NEVER
                timed.on_due(now_ms)
