"""A histogram of durations, in the form that Prometheus uses."""

from bisect import bisect_left
from typing import Final, final

# Upper bounds in seconds: from an empty tick to a disk that hangs.
BOUNDS_SECONDS: Final = (
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
)  # fmt: skip


@final
class Histogram:
    """Counts of durations. `counts` has one number per bound, for durations up to the bound and above the previous one,
    and a last one for longer durations. One thread writes it; others may read it at any time.
    """

    def __init__(self) -> None:
        self.counts: list[int] = [0] * (len(BOUNDS_SECONDS) + 1)
        self.total_seconds: float = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS_SECONDS, seconds)] += 1
        self.total_seconds += seconds
