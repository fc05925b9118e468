"""Rates of counters, from the difference between two rounds of sampling, and the history of the counters."""

from collections import deque
from operator import sub
from typing import Final, Generic, TypeVar, final

from flintmq.management.slices import each
from flintmq.management.stats.changes import COUNTS_MAX, REACH_MAX, Changes
from flintmq.management.stats.counts import Counts, Point

K = TypeVar("K")

Rates = tuple[float, ...]
_RATE_DIGITS: Final = 3


def growth(before: Counts, now: Counts, ms: int) -> Rates:
    """The growth of each count per second; `ms` is the time between the two samples."""
    return _per_second(tuple(map(sub, now, before)), ms)


def _per_second(deltas: Counts, ms: int) -> Rates:
    if ms <= 0:
        return (0.0,) * len(deltas)
    # Most counts do not change; they share one float.
    return tuple([round(delta * 1000 / ms, _RATE_DIGITS) if delta else 0.0 for delta in deltas])


@final
class _Sample:
    __slots__ = ("at_ms", "began", "changed_ms", "changes", "counts", "rates", "round")

    def __init__(self, number: int, at_ms: int, counts: Counts, rates: Rates) -> None:
        # The first and the last round in which the object was sampled.
        self.began = self.round = number
        self.at_ms = self.changed_ms = at_ms
        self.counts = counts
        self.rates = rates
        # None if no count has changed within the remembered rounds.
        self.changes: Changes | None = None


@final
class Meters(Generic[K]):
    """The rates of many objects with the same kinds of counts, each from the last two rounds that sampled it.

    `width` is the number of counts, `reach` the number of rounds for which their history is kept.
    """

    def __init__(self, width: int, reach: int = 0) -> None:
        assert width <= COUNTS_MAX
        assert reach <= REACH_MAX
        self._still: Rates = (0.0,) * width
        self._samples: dict[K, _Sample] = {}
        self._round = 0
        self._reach = reach
        # The times of the last rounds, including the present one (Unix time in ms).
        self._times: deque[int] = deque(maxlen=reach)

    @property
    def kept(self) -> int:
        """The number of sampled objects."""
        return len(self._samples)

    @property
    def remembered_bytes(self) -> int:
        """The memory of all stored changes in bytes."""
        return sum([sample.changes.size_bytes for sample in self._samples.values() if sample.changes is not None])

    def rates(self, of: K) -> Rates:
        found = self._samples.get(of)
        return self._still if found is None else found.rates

    def unchanged_since_ms(self, of: K, counts: Counts) -> int:
        """The time since which an object has these counts (Unix ms); 0 if the last round had others."""
        found = self._samples.get(of)
        return found.changed_ms if found is not None and found.counts == counts else 0

    def begin_round(self, now_ms: int) -> None:
        """Begin a round; the previous one need not have been completed."""
        self._round += 1
        self._times.append(now_ms)

    def take(self, of: K, counts: Counts, now_ms: int) -> None:
        last = self._samples.get(of)
        if last is None:
            self._samples[of] = _Sample(self._round, now_ms, counts, self._still)
            return
        if last.counts == counts:
            # Most objects are idle most of the time, so no new objects are created for them.
            last.rates = self._still
            if last.changes is not None and self._round - last.changes.latest >= self._reach:
                last.changes = None
        else:
            deltas = tuple(map(sub, counts, last.counts))
            last.rates = _per_second(deltas, now_ms - last.at_ms)
            if self._reach:
                if last.changes is None:
                    last.changes = Changes()
                last.changes.add(self._round, deltas, self._reach)
            last.counts = counts
            last.changed_ms = now_ms
        last.round = self._round
        last.at_ms = now_ms

    async def end_round(self) -> None:
        """End a round: objects that it did not sample are gone, and are dropped."""
        number = self._round

        def look(of: K) -> None:
            if self._samples[of].round < number:
                del self._samples[of]

        await each(list(self._samples), look)

    def points(self, of: K) -> list[Point]:
        """The counts of an object in each remembered round, the newest first."""
        found = self._samples.get(of)
        if found is None:
            return []
        counts, times = found.counts, list(self._times)
        points = [(found.at_ms, counts)]
        changes = [] if found.changes is None else found.changes.newest_first(len(counts))
        undone = 0
        first = self._round + 1 - len(times)
        for number in range(found.round - 1, max(found.began, first) - 1, -1):
            while undone < len(changes) and changes[undone][0] > number:
                counts = tuple(map(sub, counts, changes[undone][1]))
                undone += 1
            points.append((times[number - first], counts))
        return points
