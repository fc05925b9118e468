"""The history of a few counts, for charts: five seconds apart for an hour, a minute apart for a day."""

from collections import deque
from collections.abc import Iterator
from typing import Final, final

from flintmq.management.stats.counts import Counts, Point
from flintmq.management.stats.history import Range
from flintmq.management.stats.rates import growth

SAMPLE_MS: Final = 5_000
_FINE_SAMPLES: Final = 3_600_000 // SAMPLE_MS
_COARSE_MS: Final = 60_000
_COARSE_SAMPLES: Final = 86_400_000 // _COARSE_MS


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
        """The rates between the last two samples."""
        if len(self._fine) < 2:
            return (0.0,) * (len(self._fine[0][1]) if self._fine else 0)
        (before_ms, before), (now_ms, now) = self._fine[-2], self._fine[-1]
        return growth(before, now, now_ms - before_ms)

    @property
    def latest(self) -> Counts:
        return self._fine[-1][1] if self._fine else ()

    def newest_first(self, span: Range) -> Iterator[Point]:
        return reversed(self._fine if span.age_ms <= _FINE_SAMPLES * SAMPLE_MS else self._coarse)
