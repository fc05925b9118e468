"""Publishers that wait for every confirm."""

import time

from tests.cluster.ledger import Ledger
from tests.cluster.with_others import BlockingPublisher
from tests.waiting import wait_until


class Confirmed(BlockingPublisher):
    """Each message is confirmed at once."""

    name = "quick"

    def _use(self, port: int) -> None:
        while name := self._next():
            self.ledger.confirm(name, time.monotonic())


def test_a_paused_publisher_publishes_nothing_when_it_ends() -> None:
    """What was confirmed after the queues were drained would be taken for lost."""
    ledger = Ledger([Confirmed.name], ["q"])
    publisher = Confirmed([1], ledger)
    publisher.start()
    wait_until(lambda: len(ledger.confirmed) > 10)
    publisher.is_paused = True
    wait_until(lambda: not publisher.is_waiting)
    time.sleep(0.1)
    count = len(ledger.confirmed)
    publisher.end()
    assert len(ledger.confirmed) == count
