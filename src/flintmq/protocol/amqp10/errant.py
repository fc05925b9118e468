"""Deliveries of links that were detached for a fault of the peer, which must not speak of them (part 2 §2.6.5)."""

from collections.abc import Sequence
from typing import Final, final

from mypy_extensions import i64

from flintmq.protocol.amqp10.delivery import Delivery
from flintmq.protocol.amqp10.serial import after, distance

# What is unsettled on a link is a few runs of numbers. Beyond so many of a session the oldest are forgotten, and a
# word about those is taken as one about deliveries that are settled: it does nothing.
_RUNS_MAX: Final = 256


@final
class ErrantDeliveries:
    """Their numbers, of one direction."""

    def __init__(self) -> None:
        self._firsts: list[i64] = []
        self._lasts: list[i64] = []

    def add(self, deliveries: Sequence[Delivery]) -> None:
        """The oldest come first."""
        firsts, lasts = self._firsts, self._lasts
        for delivery in deliveries:
            if lasts and delivery.id == after(lasts[-1], 1):
                lasts[-1] = delivery.id
            else:
                firsts.append(delivery.id)
                lasts.append(delivery.id)
        if len(firsts) > _RUNS_MAX:
            del firsts[:-_RUNS_MAX]
            del lasts[:-_RUNS_MAX]

    def meet(self, first: i64, last: i64) -> bool:
        """Whether one of them is among the deliveries from `first` to `last`."""
        for at in range(len(self._firsts)):
            if distance(self._firsts[at], last) >= 0 and distance(first, self._lasts[at]) >= 0:
                return True
        return False
