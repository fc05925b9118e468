"""The course of a few counts, for charts: fine for an hour, coarse for a day."""

from collections import deque
from collections.abc import Callable
from typing import Final, final

from flintmq.management.stats.counts import Counts
from flintmq.management.stats.rates import growth

SAMPLE_MS: Final = 5_000
_FINE_SAMPLES: Final = 3_600_000 // SAMPLE_MS
_COARSE_MS: Final = 60_000
_COARSE_SAMPLES: Final = 86_400_000 // _COARSE_MS
# What one answer holds at most, whatever increments are asked for.
_POINTS_MAX: Final = 2_000

Point = tuple[int, Counts]


@final
class Series:
    def __init__(self) -> None:
        self._fine: deque[Point] = deque(maxlen=_FINE_SAMPLES)
        self._coarse: deque[Point] = deque(maxlen=_COARSE_SAMPLES)

    def add(self, now_ms: int, counts: Counts) -> None:
        self._fine.append((now_ms, counts))
        if not self._coarse or now_ms - self._coarse[-1][0] >= _COARSE_MS:
            self._coarse.append((now_ms, counts))

    @property
    def rates(self) -> tuple[float, ...]:
        """Between the last two looks."""
        if len(self._fine) < 2:
            return (0.0,) * (len(self._fine[0][1]) if self._fine else 0)
        (before_ms, before), (now_ms, now) = self._fine[-2], self._fine[-1]
        return growth(before, now, now_ms - before_ms)

    @property
    def latest(self) -> Counts:
        return self._fine[-1][1] if self._fine else ()

    def points(self, of: Callable[[Counts], float], age_s: int, increment_s: int) -> list[dict[str, float]]:
        """The newest first, as RabbitMQ has them: one per increment, none older than the age."""
        kept = self._fine if age_s * 1000 <= _FINE_SAMPLES * SAMPLE_MS else self._coarse
        step_ms = max(increment_s * 1000, 1)
        shown: list[dict[str, float]] = []
        oldest = due = None
        for at_ms, counts in reversed(kept):
            if oldest is None:
                oldest, due = at_ms - age_s * 1000, at_ms
            assert due is not None
            if at_ms < oldest or len(shown) >= _POINTS_MAX:
                break
            if at_ms <= due:
                shown.append({"sample": of(counts), "timestamp": at_ms})
                due = at_ms - step_ms
        return shown


def course(
    series: Series, of: Callable[[Counts], float], rate: float, age_s: int, increment_s: int
) -> dict[str, object]:
    """What RabbitMQ calls details: a rate, and samples with their average where they are asked for."""
    details: dict[str, object] = {"rate": rate}
    if age_s <= 0 or increment_s <= 0:
        return details
    points = series.points(of, age_s, increment_s)
    details["samples"] = points
    if points:
        newest, oldest = points[0], points[-1]
        ms = newest["timestamp"] - oldest["timestamp"]
        details["avg"] = round(sum([point["sample"] for point in points]) / len(points), 3)
        details["avg_rate"] = round((newest["sample"] - oldest["sample"]) * 1000 / ms, 3) if ms else 0.0
    return details
