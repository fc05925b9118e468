"""Deletion of many queues at once: nothing leads to them any more, and ticks drop their messages, a part in each."""

from typing import final

from mypy_extensions import i64

from flintmq.base.limits import DELETED_QUEUE_UNITS
from flintmq.base.work import WORK
from flintmq.broker.queue.base import Queue
from flintmq.broker.tick import SteppedWork


@final
class Deletion(SteppedWork):
    """Queues that nobody finds any more. They have no consumers, and nobody holds entries of them."""

    def __init__(self, queues: list[Queue]) -> None:
        self._queues = queues
        for queue in queues:
            # From now on, entries that expire or come back are dropped.
            queue.gone = True

    def outlasts_errors(self) -> bool:
        return bool(self._queues)

    def step(self, most: i64) -> bool:
        """Delete queues until `most` units of work are spent. Returns whether queues are left."""
        enough = WORK.spent + most
        while self._queues and WORK.spent < enough:
            WORK.spent += DELETED_QUEUE_UNITS
            self._queues.pop().delete()
        return bool(self._queues)
