"""What clients of a cluster were told, and when: what is lost, what came twice, and how long nothing came.

A message is known by its name, `<publisher>-<number>`; numbers of one publisher grow.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from itertools import pairwise


class Ledger:
    """Each message goes to each of these queues."""

    def __init__(self, *queues: str) -> None:
        self.confirmed: set[str] = set()
        self.delivered: dict[str, set[str]] = {queue: set() for queue in queues}
        self.refused: list[str] = []
        # Delivered again, and not marked as redelivered.
        self.unflagged: list[str] = []
        # Not marked as redelivered, and behind a later message of the same publisher.
        self.out_of_order: list[str] = []
        # Of each publisher, and of each queue; they grow.
        self._confirm_times: dict[str, list[float]] = defaultdict(list)
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
            number = int(name.rpartition("-")[2])
            highest = self._highest.get((queue, publisher_of(name)), 0)
            if number < highest:
                self.out_of_order.append(name)
            self._highest[queue, publisher_of(name)] = max(number, highest)
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
        return min((len(times) - bisect_right(times, since) for times in self._confirm_times.values()), default=0)

    def without_confirms(self, since: float, until: float) -> float:
        """The longest time in this span for which a publisher got no confirm."""
        return max((longest_gap(times, since, until) for times in self._confirm_times.values()), default=until - since)

    def without_deliveries(self, queue: str, since: float, until: float) -> float:
        """The longest time in this span for which the queue delivered nothing."""
        return longest_gap(self._delivery_times[queue], since, until)


def publisher_of(name: str) -> str:
    return name.rpartition("-")[0]


def longest_gap(times: list[float], since: float, until: float) -> float:
    """The longest part of the span without any of these sorted times."""
    points = [since, *times[bisect_left(times, since) : bisect_right(times, until)], until]
    return max(later - earlier for earlier, later in pairwise(points))
