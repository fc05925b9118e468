"""What clients of a cluster were told, and when: what is lost, what came twice, and how long nothing came.

A message is known by its name, `<publisher>.<connection>-<number>`; numbers of one connection grow.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import pairwise


class Ledger:
    """Each message of these publishers goes to each of the queues."""

    def __init__(self, publishers: Iterable[str], queues: Iterable[str]) -> None:
        queues = list(queues)
        self.confirmed: set[str] = set()
        self.delivered: dict[str, set[str]] = {queue: set() for queue in queues}
        self.refused: list[str] = []
        # Delivered again, and not marked as redelivered.
        self.unflagged: list[str] = []
        # Not marked as redelivered, and behind a later message of the same connection.
        self.out_of_order: list[str] = []
        # Of each publisher, and of each queue; they grow.
        self._confirm_times: dict[str, list[float]] = {publisher: [] for publisher in publishers}
        self._delivery_times: dict[str, list[float]] = {queue: [] for queue in queues}
        self._highest: dict[tuple[str, str], int] = {}

    def confirm(self, name: str, now: float) -> None:
        self.confirmed.add(name)
        self._confirm_times[publisher_of(name)].append(now)

    def refuse(self, name: str) -> None:
        """The broker has said that it does not take the message."""
        self.refused.append(name)

    def deliver(self, queue: str, name: str, is_redelivered: bool, now: float) -> None:
        self._delivery_times[queue].append(now)
        if not is_redelivered:
            if name in self.delivered[queue]:
                self.unflagged.append(name)
            connection, _, number = name.rpartition("-")
            highest = self._highest.get((queue, connection), 0)
            if int(number) < highest:
                self.out_of_order.append(name)
            self._highest[queue, connection] = max(int(number), highest)
        self.delivered[queue].add(name)

    @property
    def lost(self) -> set[str]:
        """Confirmed, and not delivered from each queue."""
        return {name for delivered in self.delivered.values() for name in self.confirmed - delivered}

    def last_delivery(self, queue: str) -> float:
        """When the queue delivered something; 0 if it never did."""
        return max(self._delivery_times[queue], default=0.0)

    def confirms_since(self, since: float) -> int:
        """How many messages were confirmed, of the publisher with the fewest."""
        return min(len(times) - bisect_right(times, since) for times in self._confirm_times.values())

    def without_confirms(self, since: float, until: float) -> dict[str, float]:
        """The longest time in this span for which each publisher got no confirm."""
        return {publisher: longest_gap(times, since, until) for publisher, times in self._confirm_times.items()}

    def without_deliveries(self, queue: str, since: float, until: float) -> float:
        """The longest time in this span for which the queue delivered nothing."""
        return longest_gap(self._delivery_times[queue], since, until)


def publisher_of(name: str) -> str:
    return name.rpartition(".")[0]


def longest_gap(times: list[float], since: float, until: float) -> float:
    """The longest part of the span without any of these sorted times."""
    points = [since, *times[bisect_left(times, since) : bisect_right(times, until)], until]
    return max(later - earlier for earlier, later in pairwise(points))
