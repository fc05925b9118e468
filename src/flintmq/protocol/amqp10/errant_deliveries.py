"""Deliveries of links that were detached for a fault of the peer. The peer must not refer to them (part 2 §2.6.5)."""

from collections.abc import Sequence
from typing import Final, final

from mypy_extensions import i64

from flintmq.protocol.amqp10.delivery import Delivery
from flintmq.protocol.amqp10.serial import after, distance

# The unsettled deliveries of a link are a few runs of consecutive ids. Above this number of runs in a session, the
# oldest are forgotten. A disposition of those then does nothing, as for settled deliveries.
_RUNS_MAX: Final = 256


@final
class ErrantDeliveries:
    """The ids of the deliveries of one direction, as runs of consecutive ids."""

    def __init__(self) -> None:
        self._firsts: list[i64] = []
        self._lasts: list[i64] = []

    def add(self, deliveries: Sequence[Delivery]) -> None:
        """Add deliveries, the oldest first."""
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

    def overlaps(self, first: i64, last: i64) -> bool:
        """Return whether one of the ids is between `first` and `last`, inclusive."""
        for at in range(len(self._firsts)):
            if distance(self._firsts[at], last) >= 0 and distance(first, self._lasts[at]) >= 0:
                return True
        return False
