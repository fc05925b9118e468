"""Deletion of unused queues (x-expires): for that time there was no consumer, no basic.get, and no declaration."""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from flintmq.broker.timers import Timed

if TYPE_CHECKING:
    from flintmq.broker.queue.base import Queue


@final
class Unused(Timed):
    def __init__(self, queue: "Queue") -> None:
        super().__init__()
        self._queue = queue

    def watch(self) -> None:
        """Schedule the next check: the setting of the queue changed, or it was used."""
        queue = self._queue
        if queue.settings.expires_ms >= 0 and not queue.gone:
            queue.tick.timers.at(queue.used_ms + queue.settings.expires_ms, self)

    def on_due(self, now_ms: i64) -> None:
        queue = self._queue
        if queue.consumers:
            queue.used_ms = now_ms
        if queue.settings.expires_ms >= 0 and queue.used_ms + queue.settings.expires_ms <= now_ms:
            queue.tick.unused.append(queue)
        else:
            self.watch()
