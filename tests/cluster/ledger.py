"""What clients of a cluster were told, and when: what is lost, what came twice, and how long nothing came.

A message is known by its name, `<publisher>.<connection>-<number>`; numbers of one connection grow.
"""

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import pairwise


class Ledger:
    """Each message of these publishers goes to each of the queues. From those of `once` it may come a single time, with
    the flag or without it.
    """

    def __init__(self, publishers: Iterable[str], queues: Iterable[str], once: Iterable[str] = ()) -> None:
        once = frozenset(once)
        queues = {*queues, *once}
        self.confirmed: set[str] = set()
        self.delivered: dict[str, set[str]] = {queue: set() for queue in queues}
        self.refused: list[str] = []
        # Delivered again, and not marked as redelivered.
        self.unflagged: list[str] = []
        # Not marked as redelivered, and behind a later message of the same connection.
        self.out_of_order: list[str] = []
        # Delivered again from a queue from which it may come once.
        self.twice: list[str] = []
        self._once = once
        # Confirmed, and not delivered from the queue.
        self._missing: dict[str, set[str]] = {queue: set() for queue in queues}
        # Of each publisher, and of each queue; they grow.
        self._confirm_times: dict[str, list[float]] = {publisher: [] for publisher in publishers}
        self._delivery_times: dict[str, list[float]] = {queue: [] for queue in queues}
        self._highest: dict[tuple[str, str], int] = {}
        # Publishers with threads of their own confirm, while others consume.
        self._lock = threading.Lock()

    def confirm(self, name: str, now: float) -> None:
        with self._lock:
            self.confirmed.add(name)
            for queue, delivered in self.delivered.items():
                if name not in delivered:
                    self._missing[queue].add(name)
        self._confirm_times[publisher_of(name)].append(now)

    def refuse(self, name: str) -> None:
        """The broker has said that it does not take the message."""
        self.refused.append(name)

    def deliver(self, queue: str, name: str, is_redelivered: bool, now: float) -> None:
        self._delivery_times[queue].append(now)
        if queue in self._once:
            if name in self.delivered[queue]:
                self.twice.append(name)
        elif not is_redelivered:
            if name in self.delivered[queue]:
                self.unflagged.append(name)
            connection, _, number = name.rpartition("-")
            highest = self._highest.get((queue, connection), 0)
            if int(number) < highest:
                self.out_of_order.append(name)
            self._highest[queue, connection] = max(int(number), highest)
        with self._lock:
            self.delivered[queue].add(name)
            self._missing[queue].discard(name)

    @property
    def lost(self) -> set[str]:
        """Confirmed, and not delivered from each queue."""
        with self._lock:
            return set().union(*self._missing.values())

    @property
    def last_delivery(self) -> float:
        """When a queue delivered something; 0 if none ever did."""
        return max(times[-1] if times else 0.0 for times in self._delivery_times.values())

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
