"""Purge: all messages of a queue are dropped, or, before it is deleted, dead-lettered, because a client wants that."""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import AmqpError, InternalError
from flintmq.base.work import WORK
from flintmq.broker.message import Entry
from flintmq.broker.queue.contents import Contents, settle_page
from flintmq.broker.queue.entries import EntryQueue
from flintmq.broker.queue.ready import BLOCK_ENTRIES, Fifo
from flintmq.broker.tick import DELETED, SteppedWork


@final
class Purge(SteppedWork):
    """The messages of a queue that are ready or held back when the purge begins: ticks drop them, a part in each.

    Meanwhile consumers may take some of them. Of the messages that are published meanwhile, those may be dropped that
    share a page with older ones, and those that are held back or withheld from some of the consumers.

    Attributes:
        count: The number of messages when the purge began.
        is_over: Whether all of them are gone. The batch of the same tick has the last of them.
        fault: What ended the purge before; None if nothing did.
        on_end: Called when the purge is over, or a fault has ended it, unless that is in the first step.
    """

    def __init__(self, queue: EntryQueue) -> None:
        self.count: Final = queue.message_count + queue.held_count
        self.is_over = False
        self.fault: AmqpError | None = None
        self.on_end: Callable[[], None] | None = None
        self._queue = queue
        # Messages have this sequence number or a higher one if they come from now on, and this position or a lower one
        # if they were there before.
        self._next: i64 = queue.next_seq
        self._held: i64 = queue.held_count
        self._unfiltered: i64 = queue.store.count
        withheld = [] if queue.exclusions is None else queue.exclusions.take_all()
        dedup = None if queue.dedup is None else queue.dedup.give_away()
        self._given_away = Contents(queue, queue.journal, None, None, withheld, dedup, None)

    @property
    def has_ended(self) -> bool:
        return self.is_over or self.fault is not None

    def result(self) -> int:
        """The number of messages that the queue had. Raises the fault that ended the purge, if any."""
        if self.fault is not None:
            raise self.fault
        return self.count

    def step(self, most: i64) -> bool:
        try:
            self.is_over = not self._drop(WORK.spent + most)
        except AmqpError as error:
            self.fault = error
        except Exception as error:
            self.fault = InternalError(f"{type(error).__name__} during a purge; see the broker log")
            raise
        finally:
            if self.has_ended and self.on_end is not None:
                self.on_end()
        return not self.has_ended

    def _drop(self, enough: i64) -> bool:
        """Drop messages until the work meter reads `enough`. Returns whether some are left."""
        while WORK.spent < enough:
            is_left = (
                self._drop_packed(enough)
                or self._drop_ordered(enough)
                or self._drop_filtered(enough)
                or self._drop_held()
                or self._given_away.step(enough - WORK.spent)
            )
            if not is_left:
                return False
        return True

    def _drop_packed(self, enough: i64) -> bool:
        """Drop pages without unpacking them. Returns False if there are none."""
        queue = self._queue
        if not queue.settles_by_page:
            return False
        for part in queue.store.parts():
            pager = part.pager
            while pager is not None and part.pages and part.pages[0].first < self._next:
                if WORK.spent >= enough:
                    return True
                page = part.pages[0]
                settle_page(queue, queue.journal, pager, page)
                queue.page_settled(page)
                part.pages.popleft()
                queue.store.left_packed(part, page.count)
                queue.left_packed(page.body_bytes)
                pager.drop(page)
        return False

    def _drop_ordered(self, enough: i64) -> bool:
        """Drop entries that are in an order. Returns False if there are none."""
        for part in self._queue.store.parts():
            while self._drop_first(part):
                if WORK.spent >= enough:
                    return True
        return False

    def _drop_first(self, part: Fifo) -> bool:
        first = part.peek()
        if first is None or first.position > self._next or first.seq >= self._next:
            return False
        self._remove(first)
        return True

    def _drop_filtered(self, enough: i64) -> bool:
        """Drop entries that not every consumer may have. Returns False if there are none."""
        store = self._queue.store
        while self._unfiltered > 0 and store.loose_count > 0:
            if WORK.spent >= enough:
                return True
            first = store.drop_candidate()
            if first is None:
                return False
            self._unfiltered -= 1
            self._remove(first)
        return False

    def _remove(self, entry: Entry) -> None:
        WORK.spent += 1
        self._queue.remove(entry)
        self._queue.drop(entry)

    def _drop_held(self) -> bool:
        """Drop some entries that are held back. Returns False if there are none."""
        delays = self._queue.delays
        if delays is None or self._held <= 0:
            return False
        entries = delays.take_some(BLOCK_ENTRIES)
        self._held -= len(entries)
        WORK.spent += len(entries)
        for entry in entries:
            self._queue.drop(entry)
        return bool(entries)


def dead_letter_all(queue: EntryQueue) -> int:
    """Dead-letter all ready entries, because the queue is about to be deleted. Returns how many there were."""
    queue.expire_due()
    withheld = [] if queue.exclusions is None else queue.exclusions.take_all()
    count = len(withheld) + queue.store.count
    WORK.spent += count
    for entry in withheld:
        queue.make_dead_letter(entry, DELETED)
    while queue.store.count > 0:
        queue.make_dead_letter(queue.take(), DELETED)
    return count
