"""Timers: expiry, delays, retries. The broker has no clock; the time is a parameter."""

from abc import abstractmethod
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

NEVER: Final = 0
_NO_LIMIT: Final = 2**62
# Cancelled and superseded entries of the heap are removed once there are more of them than this, and than valid ones.
_STALE_TIMES_MAX: Final = 64


@mypyc_attr(allow_interpreted_subclasses=True)
class Timed:
    """An object with one timer, set to the earliest time that it asked for."""

    def __init__(self) -> None:
        # Unix time in ms; NEVER while no timer is set.
        self.due_ms: i64 = NEVER

    @abstractmethod
    def on_due(self, now_ms: i64) -> None:
        """The timer has fired. Set it again for later work."""


@final
class CallbackTimer(Timed):
    """A timer that calls `callback` with the time when it is due (Unix time in ms)."""

    def __init__(self, callback: Callable[[int], None]) -> None:
        super().__init__()
        self._callback = callback

    def on_due(self, now_ms: i64) -> None:
        self._callback(int(now_ms))


@final
class Timers:
    """A heap of all timers, the earliest first.

    `left` is the work that is left of the present run, in units of those who do it, or negative. A timer whose work is
    not done sets itself again.
    """

    def __init__(self) -> None:
        self.left: i64 = _NO_LIMIT
        self._heap: list[tuple[int, int, Timed]] = []
        self._count = 0
        # The number of heap entries that are cancelled or superseded.
        self._stale: i64 = 0

    def __len__(self) -> int:
        """Return the number of heap entries, cancelled ones included."""
        return len(self._heap)

    def at(self, due_ms: i64, timed: Timed) -> None:
        """Set the timer of `timed` to `due_ms` (Unix time in ms), unless it is set to an earlier time."""
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
        """Remove cancelled entries if there are many: they must not keep their queue or channel in memory."""
        if self._stale <= _STALE_TIMES_MAX or self._stale * 2 <= len(self._heap):
            return
        # A timer that was cancelled and set again to the same time is in the heap twice.
        kept = {id(item[2]): item for item in self._heap if item[2].due_ms == item[0]}
        self._heap = list(kept.values())
        heapify(self._heap)
        self._stale = 0

    def _pop(self) -> Timed | None:
        """Remove the earliest entry. Returns None if it was cancelled or superseded."""
        due_ms, _, timed = heappop(self._heap)
        if timed.due_ms == due_ms:
            return timed
        self._stale -= 1
        return None

    @property
    def next_ms(self) -> int:
        """The time at which `run` has work (Unix time in ms), NEVER if there is none."""
        while self._heap and self._heap[0][2].due_ms != self._heap[0][0]:
            self._pop()
        return self._heap[0][0] if self._heap else NEVER

    def run(self, now_ms: i64, most: i64 = _NO_LIMIT) -> None:
        """Fire the timers that are due, as long as they have done less than `most` units of work."""
        self.left = most
        while self.left > 0 and self._heap and self._heap[0][0] <= now_ms:
            timed = self._pop()
            if timed is not None:
                timed.due_ms = NEVER
                timed.on_due(now_ms)
