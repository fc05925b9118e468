"""Rates: how fast counts grow, by what they were when they were looked at before."""

from typing import Final, Generic, TypeVar, final

from flintmq.management.http.slices import each
from flintmq.management.stats.counts import Counts

K = TypeVar("K")

Rates = tuple[float, ...]
_RATE_DIGITS: Final = 3


def growth(before: Counts, now: Counts, ms: int) -> Rates:
    """By how much each of them grew per second."""
    if ms <= 0:
        return (0.0,) * len(now)
    return tuple([round((b - a) * 1000 / ms, _RATE_DIGITS) for a, b in zip(before, now, strict=True)])


@final
class _Sample:
    def __init__(self, number: int, at_ms: int, counts: Counts, rates: Rates) -> None:
        # Of the round that came by last.
        self.round = number
        self.at_ms = at_ms
        self.counts = counts
        self.rates = rates


@final
class Meters(Generic[K]):
    """The rates of many objects with the same counts, each as of the last two rounds that came by it."""

    def __init__(self, width: int) -> None:
        self._still: Rates = (0.0,) * width
        self._samples: dict[K, _Sample] = {}
        self._round = 0

    @property
    def kept(self) -> int:
        """How many objects it knows."""
        return len(self._samples)

    def rates(self, of: K) -> Rates:
        found = self._samples.get(of)
        return self._still if found is None else found.rates

    def take(self, of: K, counts: Counts, now_ms: int) -> None:
        last = self._samples.get(of)
        if last is None:
            self._samples[of] = _Sample(self._round, now_ms, counts, self._still)
        elif last.counts == counts:
            # Most objects do nothing most of the time: nothing new is made for them.
            last.round = self._round
            last.at_ms = now_ms
            last.rates = self._still
        else:
            self._samples[of] = _Sample(self._round, now_ms, counts, growth(last.counts, counts, now_ms - last.at_ms))

    async def end_round(self) -> None:
        """What this round did not come by is gone, and forgotten."""
        number = self._round
        # What is new by the time it is looked at is of the next round.
        self._round += 1

        def look(of: K) -> None:
            if self._samples[of].round < number:
                del self._samples[of]

        await each(list(self._samples), look)
