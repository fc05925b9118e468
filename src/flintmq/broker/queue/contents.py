"""What a queue has given away, because it is deleted or purged: nobody finds it, and ticks drop it, a part in each."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import InternalError
from flintmq.base.work import WORK
from flintmq.broker.message import Entry
from flintmq.broker.ports import Journal, Page
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.dedup import Dedup
from flintmq.broker.queue.delays import Delays
from flintmq.broker.queue.expiry import Expiry
from flintmq.broker.queue.pager import Pager
from flintmq.broker.queue.ready import BLOCK_ENTRIES, Ready
from flintmq.broker.tick import SteppedWork

# Units of work for dropping a page of messages, whose places in the journal are one range if nothing else was written
# there; and the numbers that are read in one more unit if they are not.
_PAGE_UNITS: Final = 64
_RANGES_PER_UNIT: Final = 8


def settle_page(queue: Queue, journal: Journal, pager: Pager, page: Page) -> None:
    """Settle all entries of a page without unpacking it.

    Raises InternalError if the page cannot be read, unless the queue is deleted: a restart restores nothing of it then,
    even if the journal still has entries of it.
    """
    WORK.spent += _PAGE_UNITS
    if not queue.survives:
        return
    try:
        ranges = pager.ranges(page)
    except InternalError:
        if not queue.gone:
            raise
        return
    WORK.spent += len(ranges.slots) // _RANGES_PER_UNIT
    journal.settle_runs(queue.id, ranges.seqs, ranges.slots)


@final
class Contents(SteppedWork):
    """Messages, and what was kept about messages. The queue itself does not have them any more.

    A crash restores none of a deleted queue, because its definition is deleted with the batch of the first step.
    """

    def __init__(
        self,
        queue: Queue,
        journal: Journal,
        store: Ready | None,
        delays: Delays | None,
        withheld: list[Entry],
        dedup: Dedup | None,
        expiry: Expiry | None,
    ) -> None:
        self._queue = queue
        self._journal = journal
        self._store = store
        self._parts = [] if store is None else store.parts()[:]
        self._delays = delays
        self._withheld = withheld
        self._dedup = dedup
        self._expiry = expiry

    def outlasts_errors(self) -> bool:
        # What is being dropped is out of the store.
        return True

    def step(self, most: i64) -> bool:
        enough = WORK.spent + most
        queue = self._queue
        while WORK.spent < enough:
            if self._drop_page():
                continue
            entries = self._next_entries()
            if entries:
                WORK.spent += len(entries)
                for entry in entries:
                    queue.drop(entry)
            elif not self._forget_some():
                return False
        return True

    def _drop_page(self) -> bool:
        """Drop a page without unpacking it. Returns False if there is none."""
        while self._parts and not self._parts[-1].pages:
            self._parts.pop()
        if not self._parts:
            return False
        part = self._parts[-1]
        page = part.pages.pop()
        pager = part.pager
        assert pager is not None
        settle_page(self._queue, self._journal, pager, page)
        pager.drop(page)
        return True

    def _next_entries(self) -> list[Entry]:
        entries = [] if self._store is None else self._store.shed()
        if not entries and self._delays is not None:
            entries = self._delays.take_some(BLOCK_ENTRIES)
        if not entries:
            entries = self._withheld[-BLOCK_ENTRIES:]
            del self._withheld[-BLOCK_ENTRIES:]
        return entries

    def _forget_some(self) -> bool:
        """Forget a part of what was kept about the messages. Returns False if nothing was left."""
        count = 0
        if self._dedup is not None:
            count += self._dedup.forget_some(BLOCK_ENTRIES)
        if self._expiry is not None:
            count += self._expiry.forget_some(BLOCK_ENTRIES)
        WORK.spent += count
        return count > 0
