"""Browsing: consumers that see what a queue has and take nothing (consumer argument x-browse).

They consume from a view beside the queue. It gives out copies, and settles, takes back and rejects nothing, so neither
the queue nor its other consumers notice anything. A browser sees what is ready when it comes, in order, and then what
becomes ready for the first time; what others took before its turn came it does not see.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from flintmq.base.limits import DISPATCH_BURST_MESSAGES
from flintmq.broker.consumer import Consumer
from flintmq.broker.message import ACQUIRED, READY, Entry, Message, Table
from flintmq.broker.queue.base import Queue

# Entries that left the queue are forgotten once there are more of them than this, and than others.
_LEFT_ENTRIES_MAX: Final = 1024


@final
class _Browser:
    """A consumer, and the entries it is yet to see; some of these may have left the queue."""

    def __init__(self, consumer: Consumer, entries: list[Entry]) -> None:
        self.consumer = consumer
        self.ahead = deque(entries)


@final
class View(Queue):
    """`contents` tells what is ready on the queue; `ended` is called when the last browser has gone."""

    def __init__(self, queue: Queue, contents: Callable[[], list[Entry]], ended: Callable[[], None]) -> None:
        super().__init__(queue.id, queue.vhost, queue.name, queue.kind, False, False, None, {}, queue.agenda)
        # How often a message came back is worth knowing to whoever looks.
        self.adds_headers = True
        self._contents = contents
        self._ended = ended
        self._browsers: list[_Browser] = []
        self._left: i64 = 0

    def came(self, entry: Entry) -> None:
        """An entry has become ready."""
        for browser in self._browsers:
            browser.ahead.append(entry)
        self.touch()

    def left(self) -> None:
        """An entry is not ready any more."""
        self._left += 1
        if self._left <= _LEFT_ENTRIES_MAX:
            return
        longest = max([0, *[len(browser.ahead) for browser in self._browsers]])
        if self._left * 2 > longest:
            for browser in self._browsers:
                browser.ahead = deque([entry for entry in browser.ahead if entry.state == READY])
            self._left = 0

    # -- consumers ----------------------------------------------------------------------------------------------

    def subscribe(self, consumer: Consumer, arguments: Table) -> None:
        """Nobody is excluded by a consumer that takes nothing, so `exclusive` says nothing here."""
        self.consumers.append(consumer)
        self._browsers.append(_Browser(consumer, self._contents()))
        self.touch()

    def unsubscribe(self, consumer: Consumer) -> None:
        if consumer in self.consumers:
            self.consumers.remove(consumer)
            self._browsers = [browser for browser in self._browsers if browser.consumer is not consumer]
            if not self._browsers and not self.gone:
                self._ended()

    def dispatch(self) -> bool:
        more = False
        for browser in self._browsers[:]:
            more |= self._show(browser)
        return more

    def _show(self, browser: _Browser) -> bool:
        consumer = browser.consumer
        ahead = browser.ahead
        burst: i64 = DISPATCH_BURST_MESSAGES
        while ahead and burst > 0:
            entry = ahead[0]
            burst -= 1
            if entry.state == READY:
                if not consumer.can_take():
                    return False
                if not consumer.is_choosy or consumer.suits(entry.message):
                    if consumer.is_measured and not consumer.fits(entry.message):
                        return False
                    consumer.deliver(self, _copy(entry))
                burst -= consumer.suiting_cost
            ahead.popleft()
        return len(ahead) > 0

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
        self._browsers = []


def _copy(entry: Entry) -> Entry:
    made = Entry(entry.message, entry.seq)
    made.state = ACQUIRED
    made.returns = entry.returns
    made.redelivered = entry.redelivered
    return made
