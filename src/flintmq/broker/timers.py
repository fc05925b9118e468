"""What has to happen at a time: expiry, delays, retries. The broker is told the time; it has no clock."""

from abc import ABC, abstractmethod
from heapq import heappop, heappush
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

NEVER: Final = 0


@mypyc_attr(allow_interpreted_subclasses=True)
class Timed(ABC):
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

    def at(self, due_ms: i64, timed: Timed) -> None:
        """Call it then, or earlier where it asked for an earlier time before."""
        if timed.due_ms != NEVER and timed.due_ms <= due_ms:
            return
        timed.due_ms = due_ms
        self._count += 1
        heappush(self._heap, (int(due_ms), self._count, timed))

    def cancel(self, timed: Timed) -> None:
        timed.due_ms = NEVER

    @property
    def next_ms(self) -> int:
        """When `run` has something to do next (Unix time in ms), NEVER when there is nothing."""
        heap = self._heap
        while heap and heap[0][2].due_ms != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else NEVER

    def run(self, now_ms: i64) -> None:
        """Call all that is due by now."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            due_ms, _, timed = heappop(heap)
            # Superseded by an earlier time, or cancelled.
            if timed.due_ms == due_ms:
                timed.due_ms = NEVER
                timed.on_due(now_ms)
