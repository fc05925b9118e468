"""Entries that a queue has too many of, because its limit was lowered: ticks drop them, a part in each."""

from collections.abc import Callable
from typing import final

from mypy_extensions import i64

from flintmq.base.limits import TRIMMED_MESSAGE_UNITS
from flintmq.broker.tick import SteppedWork


@final
class Excess(SteppedWork):
    """The excess of one queue. `trim` drops at most so many entries, and returns whether there are still too many."""

    def __init__(self, trim: Callable[[int], bool]) -> None:
        self._trim = trim

    def step(self, most: i64) -> bool:
        return self._trim(int(most) // TRIMMED_MESSAGE_UNITS)
