"""Returns packed entries to their queue in steps."""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import StorageError
from flintmq.broker.message import ACQUIRED, Entry
from flintmq.broker.ports import Page
from flintmq.broker.queue.base import EntryHolder, Queue
from flintmq.broker.queue.lease_access import LeaseAccess
from flintmq.broker.timers import Timed

# Messages returned per step: about 10 ms of the event loop's time.
_STEP_MESSAGES: Final = 16_384


@final
class LeaseReturn(Timed, EntryHolder):
    """A pending return. `pages` are in the queue's order. After a crash all entries are on the queue at once."""

    def __init__(self, access: LeaseAccess, acquired: list[Page]) -> None:
        super().__init__()
        self._access = access
        self._queue = access.queue
        self._pages = access.pages
        self._left = deque(acquired)

    def begin(self) -> None:
        if self._left:
            self._queue.hold_for(self)
            self._step()

    def on_due(self, now_ms: i64) -> None:
        self._step()

    def _step(self) -> None:
        queue = self._queue
        count: i64 = 0
        while self._left and count < _STEP_MESSAGES:
            page = self._left.popleft()
            try:
                entries = self._pages.unpack(page)
            except StorageError:
                # The journal restores these messages with the next start.
                self._pages.drop(page)
                continue
            for entry in entries:
                entry.state = ACQUIRED
            queue.release(entries)
            count += len(entries)
        if self._left:
            queue.tick.timers.at(queue.tick.now_ms + 1, self)
        else:
            queue.hold_no_more_for(self)

    def claimed(self, queue: Queue, entry: Entry) -> None:
        """Do nothing: entries that were being returned are on their queue after a restart."""

    def queue_gone(self, queue: Queue) -> None:
        left = self._left
        self._left = deque()
        queue.tick.timers.cancel(self)
        for page in left:
            self._access.abandon_page(page)
