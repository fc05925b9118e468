"""Browsing: consumers that see what a queue has and take nothing (consumer argument x-browse).

They consume from a view beside the queue. It gives out copies, and settles, takes back and rejects nothing, so neither
the queue nor its other consumers notice anything. A browser sees what is ready when it comes, in order, and then what
becomes ready for the first time; what others took before its turn came it does not see, unless it is back.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from flintmq.base.limits import DISPATCH_BURST_MESSAGES, MESSAGE_WORK_UNITS
from flintmq.base.work import WORK
from flintmq.broker.message import ACQUIRED, READY, Entry, Message, Table
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.consumer import Consumer
from flintmq.broker.queue.features import COMING, LEAVING, Feature

# Entries that left the queue are forgotten once there are more of them than this, and than others.
_LEFT_ENTRIES_MAX: Final = 1024


@final
class _Browser:
    """A consumer, and where in its log the first entry is that it is yet to see."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.at: i64 = 0


@final
class _Log:
    """Entries in the order in which browsers see them; some may have left the queue.

    `size` is how many there were in the beginning, when `left` had left before. `is_fresh`: it still is what one who
    comes now is to see, but for entries that left the queue, or came back to it.
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
        """Let go of what all have seen, once that is half of it."""
        seen: i64 = len(self.entries)
        for browser in self.browsers:
            seen = min(seen, browser.at)
        if seen > 0 and seen * 2 >= len(self.entries):
            del self.entries[:seen]
            for browser in self.browsers:
                browser.at -= seen
            self.is_fresh = False

    def tidy(self) -> None:
        """Let go of what has left the queue."""
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
    """`contents` tells what is ready on the queue; `ended` is called when the last browser has gone."""

    def __init__(self, queue: Queue, contents: Callable[[], list[Entry]], ended: Callable[[], None]) -> None:
        super().__init__(queue.id, queue.vhost, queue.name, queue.kind, False, False, None, {}, queue.tick)
        # How often a message came back is worth knowing to whoever looks.
        self.adds_headers = True
        self._queue = queue
        self._contents = contents
        self._ended = ended
        # Browsers that came together share one; the last is the youngest.
        self._logs: list[_Log] = []
        # Entries that have left the queue, ever; and how many of them when the logs were tidied last.
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
            # Entries that came back are counted beside those that were there and have not left.
            if youngest.is_fresh and youngest.size - (self._left - youngest.left) == self._queue.message_count:
                return youngest
        log = _Log(self._contents(), self._left)
        self._logs.append(log)
        return log

    # -- consumers ----------------------------------------------------------------------------------------------

    def subscribe(self, consumer: Consumer, arguments: Table) -> None:
        """Nobody is excluded by a consumer that takes nothing, so `exclusive` says nothing here."""
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
        """What it is yet to see, among which some may have left the queue."""
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
        burst: i64 = DISPATCH_BURST_MESSAGES
        while browser.at < len(entries) and burst > 0:
            entry = entries[browser.at]
            spent: i64 = WORK.spent
            burst -= 1
            if entry.state == READY and (seen is None or not seen.has(entry.seq)):
                if not consumer.can_take():
                    return False
                if not consumer.is_filtered or self._suits(consumer, entry.message):
                    if consumer.has_byte_window and not consumer.is_within_window(entry.message):
                        return False
                    # One that cannot be sent is passed over: who browses takes nothing, and gives nothing up.
                    consumer.deliver(self, _copy(entry))
                burst -= WORK.spent - spent
            browser.at += 1
        return browser.at < len(entries)

    def _suits(self, consumer: Consumer, message: Message) -> bool:
        before = WORK.begin(MESSAGE_WORK_UNITS)
        try:
            return consumer.matches(message)
        finally:
            WORK.end(before)

    # -- what would change the queue ----------------------------------------------------------------------------

    def enqueue(self, message: Message) -> Entry | None:
        """Nothing is routed here."""
        return None

    @property
    def message_count(self) -> int:
        return 0

    def get(self, context: object | None = None) -> Entry | None:
        """basic.get has no argument to browse by."""
        return None

    def settle(self, entry: Entry) -> None:
        """It was a copy."""

    def reject(self, entry: Entry) -> None:
        """It was a copy."""

    def requeue(self, entries: list[Entry]) -> None:
        """They were copies."""

    def purge(self) -> int:
        return 0

    def discard(self) -> None:
        self._logs = []


def _copy(entry: Entry) -> Entry:
    made = Entry(entry.message, entry.seq)
    made.state = ACQUIRED
    made.returns = entry.returns
    made.redelivered = entry.redelivered
    return made
