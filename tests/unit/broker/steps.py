"""A broker whose ticks do long work in steps: what each of them leaves in the journal."""

from itertools import pairwise

from flintmq.broker.broker import Broker
from tests.unit.broker.memory import MemoryStorage


class SteppingNode:
    """A broker with one virtual host, whose storage is in memory."""

    def __init__(self) -> None:
        self.storage = MemoryStorage()
        self.broker = Broker(self.storage)
        self.broker.now_ms = 1_000_000
        self.vhost = self.broker.add_vhost("/")

    @property
    def kept(self) -> int:
        """The messages in the journal, and notes about them."""
        return len(self.storage.memory_journal.kept)

    def finish(self) -> list[int]:
        """What is in the journal, now and after each tick."""
        counts = [self.kept]
        while self.broker.dispatch():
            counts.append(self.kept)
        return [*counts, self.kept]


def longest_step(before: int, counts: list[int]) -> int:
    """The most that one step has dropped, of those that were in the journal `before`."""
    return max(more - fewer for more, fewer in pairwise([before, *counts]))
