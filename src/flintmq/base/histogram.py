"""Histograms of durations, in the form that Prometheus uses, and their last minute."""

from bisect import bisect_left
from collections import deque
from typing import Final, final

# Upper bounds in seconds: from an empty tick to a disk that hangs.
BOUNDS_SECONDS: Final = (
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
)  # fmt: skip
# The last minute is known to a twelfth.
PERIOD_SECONDS: Final = 5.0
_PERIODS: Final = 12


@final
class Histogram:
    """Counts of durations. `counts` has one number per bound, for durations up to the bound and above the previous one,
    and a last one for longer durations. One thread writes it; others may read it at any time.
    """

    def __init__(self) -> None:
        self.counts: list[int] = [0] * (len(BOUNDS_SECONDS) + 1)
        self.total_seconds: float = 0.0
        self._longest_seconds: float = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS_SECONDS, seconds)] += 1
        self.total_seconds += seconds
        if seconds > self._longest_seconds:
            self._longest_seconds = seconds

    def take_longest(self) -> float:
        """Return the longest duration in seconds since the last call. For the thread that writes."""
        longest = self._longest_seconds
        self._longest_seconds = 0.0
        return longest


@final
class LastMinute:
    """What a histogram has counted in the last minute. `turn` must be called every PERIOD_SECONDS."""

    def __init__(self, histogram: Histogram) -> None:
        self._histogram = histogram
        self._longest_seconds: float = 0.0
        # The counts at the start of each period, and the longest durations of the periods that have ended.
        self._starts: deque[list[int]] = deque([list(histogram.counts)], _PERIODS)
        self._longest: deque[float] = deque(maxlen=_PERIODS - 1)

    def note_longest(self, seconds: float) -> None:
        """Note what `Histogram.take_longest` has returned."""
        if seconds > self._longest_seconds:
            self._longest_seconds = seconds

    def turn(self) -> None:
        """Begin the next period, and forget the oldest one."""
        self._starts.append(list(self._histogram.counts))
        self._longest.append(self._longest_seconds)
        self._longest_seconds = 0.0

    @property
    def longest_seconds(self) -> float:
        """The longest duration in seconds, 0 if there was none."""
        return max([self._longest_seconds, *self._longest])

    def quantile_seconds(self, part: float) -> float:
        """The duration in seconds that a `part` of all durations did not exceed, as a bound of the histogram.

        A duration above all bounds counts as the longest one. 0 if there was no duration.
        """
        counts = [now - then for now, then in zip(self._histogram.counts, self._starts[0], strict=True)]
        left = part * sum(counts)
        for bound, count in zip(BOUNDS_SECONDS, counts, strict=False):
            left -= count
            if count > 0 and left <= 0:
                return bound
        return self.longest_seconds
