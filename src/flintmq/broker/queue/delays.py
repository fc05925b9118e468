"""Messages that a queue holds back until a time: delayed and scheduled publishes, and retries with a pause."""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import final

from mypy_extensions import i64

from flintmq.broker.message import Entry
from flintmq.broker.timers import Timed, Timers


@final
class Delays(Timed):
    """Entries of a queue that are not ready yet. `due` is called for each whose time has come, in order of time."""

    def __init__(self, timers: Timers, due: Callable[[Entry], None]) -> None:
        super().__init__()
        self._timers = timers
        self._due = due
        self._heap: list[tuple[int, int, Entry]] = []

    def hold(self, entry: Entry, until_ms: i64) -> None:
        heappush(self._heap, (int(until_ms), int(entry.seq), entry))
        self._timers.at(until_ms, self)

    def on_due(self, now_ms: i64) -> None:
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            self._due(heappop(heap)[2])
        if heap:
            self._timers.at(heap[0][0], self)

    def __len__(self) -> int:
        return len(self._heap)

    def entries(self) -> list[Entry]:
        """The next due first."""
        return [entry for _, _, entry in sorted(self._heap, key=_time_of)]

    def take_all(self) -> list[Entry]:
        """Everything, for a queue that is purged or deleted."""
        entries = self.entries()
        self._heap = []
        return entries

    def remove(self, entry: Entry) -> None:
        """Costs the number of what is held: for what a user asks for by hand."""
        self._heap = sorted([item for item in self._heap if item[2] is not entry], key=_time_of)


def _time_of(item: tuple[int, int, Entry]) -> tuple[int, int]:
    return item[0], item[1]
