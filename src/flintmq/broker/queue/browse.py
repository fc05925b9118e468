"""Browsing: consumers that see the messages of a queue without taking them (consumer argument x-browse).

They consume from a view beside the queue. The view delivers copies, and settling, returning or rejecting one does
nothing, so the queue and its other consumers are not affected. A browser sees the entries that are ready when it
subscribes, in order, and then those that become ready for the first time. It misses entries that others hold when its
turn for them comes.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from flintmq.base.limits import MESSAGE_WORK_UNITS
from flintmq.base.work import WORK
from flintmq.broker.message import ACQUIRED, READY, Entry, Message, Table
from flintmq.broker.queue.base import Consumer, Queue
from flintmq.broker.queue.features import COMING, LEAVING, Feature

# Logs are cleaned of entries that left the queue when there are more of these than this, and than others.
_LEFT_ENTRIES_MAX: Final = 1024


@final
class _Browser:
    """A browsing consumer; `at` is the index in its log of the first entry that it has not seen."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.at: i64 = 0


@final
class _Log:
    """Entries in the order in which browsers see them; some may have left the queue.

    `size` is the number of entries at the beginning, and `left` how many had ever left the queue by then. `is_fresh`:
    a new browser could use this log, apart from entries that have left the queue or come back since.
    """

    def __init__(self, entries: list[Entry], left: i64) -> None:
        self.entries = entries
        self.browsers: list[_Browser] = []
        self.size: i64 = len(entries)
        self.left: i64 = left
        self.is_fresh = True

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.is_fresh = False

    def trim(self) -> None:
        """Remove the entries that all browsers have seen, once they are half of the log."""
        seen: i64 = len(self.entries)
        for browser in self.browsers:
            seen = min(seen, browser.at)
        if seen > 0 and seen * 2 >= len(self.entries):
            del self.entries[:seen]
            for browser in self.browsers:
                browser.at -= seen
            self.is_fresh = False

    def tidy(self) -> None:
        """Remove the entries that have left the queue."""
        kept: list[Entry] = []
        moved: list[int] = []
        for entry in self.entries:
            moved.append(len(kept))
            if entry.state == READY:
                kept.append(entry)
        moved.append(len(kept))
        for browser in self.browsers:
            browser.at = moved[browser.at]
        self.entries = kept


@final
class View(Queue, Feature):
    """The view that browsers of a queue consume from.

    `contents` returns the ready entries of the queue in order; `ended` is called when the last browser unsubscribes.
    """

    def __init__(self, queue: Queue, contents: Callable[[], list[Entry]], ended: Callable[[], None]) -> None:
        super().__init__(queue.id, queue.vhost, queue.name, queue.kind, False, False, None, {}, queue.tick)
        # Browsers are shown how often a message came back.
        self.adds_headers = True
        self._queue = queue
        self._contents = contents
        self._ended = ended
        # Browsers that subscribed at about the same time share a log; the last log is the youngest.
        self._logs: list[_Log] = []
        # The number of entries that have ever left the queue, and that number when the logs were last tidied.
        self._left: i64 = 0
        self._tidied: i64 = 0

    def hears(self) -> int:
        return COMING | LEAVING

    def ready(self, entry: Entry) -> bool:
        for log in self._logs:
            log.add(entry)
        self.touch()
        return True

    def left(self, entry: Entry) -> None:
        self._left += 1
        gone = self._left - self._tidied
        if gone > _LEFT_ENTRIES_MAX and gone * 2 > max([0, *[len(log.entries) for log in self._logs]]):
            for log in self._logs:
                log.tidy()
            self._tidied = self._left

    def _log_for_newcomer(self) -> _Log:
        if self._logs:
            youngest = self._logs[-1]
            # The log is complete if the queue has as many entries as have not left: none of them came back.
            if youngest.is_fresh and youngest.size - (self._left - youngest.left) == self._queue.message_count:
                return youngest
        log = _Log(self._contents(), self._left)
        self._logs.append(log)
        return log

    # -- consumers ----------------------------------------------------------------------------------------------

    def subscribe(self, consumer: Consumer, arguments: Table) -> None:
        """Add a browser. `exclusive` is ignored, because a browser takes nothing from others."""
        self.consumers.append(consumer)
        self._log_for_newcomer().browsers.append(_Browser(consumer))
        self.touch()

    def unsubscribe(self, consumer: Consumer) -> None:
        if consumer in self.consumers:
            self.consumers.remove(consumer)
            for log in self._logs:
                log.browsers = [browser for browser in log.browsers if browser.consumer is not consumer]
            self._logs = [log for log in self._logs if log.browsers]
            if not self._logs and not self.gone:
                self._ended()

    def available_to(self, consumer: Consumer) -> int:
        """The number of entries that a browser has not seen; some of them may have left the queue."""
        for log in self._logs:
            for browser in log.browsers:
                if browser.consumer is consumer:
                    return min(len(log.entries) - int(browser.at), self._queue.message_count)
        return 0

    def dispatch(self) -> bool:
        more = False
        for log in self._logs[:]:
            for browser in log.browsers[:]:
                more |= self._show(browser, log.entries)
            log.trim()
        return more

    def _show(self, browser: _Browser, entries: list[Entry]) -> bool:
        consumer = browser.consumer
        seen = consumer.seen
        burst: i64 = self.tick.dispatch.burst
        while browser.at < len(entries) and burst > 0:
            entry = entries[browser.at]
            spent: i64 = WORK.spent
            burst -= 1
            if entry.state == READY and (seen is None or not seen.has(entry.seq)):
                if not consumer.can_take():
                    return False
                if not consumer.is_filtered or self._matches(consumer, entry.message):
                    if consumer.has_byte_window and not consumer.is_within_window(entry.message):
                        return False
                    # An entry that cannot be sent is skipped; a browser does not dead-letter it.
                    consumer.deliver(self, _copy(entry))
                burst -= WORK.spent - spent
            browser.at += 1
        return browser.at < len(entries)

    def _matches(self, consumer: Consumer, message: Message) -> bool:
        before = WORK.begin(MESSAGE_WORK_UNITS)
        try:
            return consumer.matches(message)
        finally:
            WORK.end(before)

    # -- what would change the queue ----------------------------------------------------------------------------

    def enqueue(self, message: Message) -> Entry | None:
        """Never called: no message is routed to a view."""
        return None

    @property
    def message_count(self) -> int:
        return 0

    def settle(self, entry: Entry) -> None:
        """Nothing to do: the entry is a copy."""

    def reject(self, entry: Entry) -> None:
        """Nothing to do: the entry is a copy."""

    def requeue(self, entries: list[Entry]) -> None:
        """Nothing to do: the entries are copies."""

    def discard(self) -> None:
        self._logs = []


def _copy(entry: Entry) -> Entry:
    made = Entry(entry.message, entry.seq)
    made.state = ACQUIRED
    made.returns = entry.returns
    made.redelivered = entry.redelivered
    return made
