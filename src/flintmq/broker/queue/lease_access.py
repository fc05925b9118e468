"""Access of leases to their queue: they acquire entries packed, page by page, and settle them page by page."""

from typing import final

from mypy_extensions import i64

from flintmq.base.errors import AccessRefused, InternalError, PreconditionFailed, StorageError
from flintmq.base.limits import STEP_UNITS
from flintmq.base.work import WORK
from flintmq.broker.ports import JournalRanges, Page, Pages
from flintmq.broker.queue.acquired import Acquired
from flintmq.broker.queue.entries import EntryQueue


def check_leasable(queue: EntryQueue) -> None:
    """Refuse a queue that cannot be leased.

    Raises PreconditionFailed if the queue gives out no batches, AccessRefused if a consumer has it exclusively.
    """
    where = f"queue '{queue.name}' in vhost '{queue.vhost}'"
    if not queue.survives:
        raise PreconditionFailed(
            f"{where} does not survive a restart, and a batch of it could not be read again: lease from a durable queue"
        )
    if queue.groups is not None:
        raise PreconditionFailed(
            f"{where} gives out one message of a group at a time (x-group-header): it cannot be leased"
        )
    if queue.settings.single_active:
        raise PreconditionFailed(f"{where} is for one active consumer (x-single-active-consumer): it cannot be leased")
    if queue.consumers and queue.consumers[0].exclusive:
        raise AccessRefused(f"{where} in exclusive use")


@final
class LeaseAccess:
    """Acquires and settles entries of `queue` as pages of `pages`."""

    def __init__(self, queue: EntryQueue, pages: Pages) -> None:
        self.queue = queue
        self.pages = pages

    def acquire(self, max_messages: i64, max_bytes: i64) -> Acquired:
        """Take ready entries from the head of the queue, at least one if there is any, unless the queue `is_behind`.

        `max_bytes` limits the sum of their bodies. Raises InternalError if not even the first can be read.
        """
        queue = self.queue
        queue.used()
        acquired = Acquired(self.pages)
        if not queue.serve_consumers() or queue.settings.paused:
            return acquired
        queue.expire_due()
        enough: i64 = WORK.spent + STEP_UNITS
        try:
            while acquired.count < max_messages and acquired.body_bytes < max_bytes:
                room = max_bytes - acquired.body_bytes
                page = self._take_page(max_messages - acquired.count, room)
                if page is not None:
                    acquired.add_page(page)
                    continue
                entry = queue.take_next(None, room if acquired.count > 0 else -1, enough)
                if entry is None:
                    break
                acquired.add(entry)
        except InternalError:
            if acquired.count == 0:
                raise
        acquired.end()
        queue.delivered += acquired.count
        queue.unacked += acquired.count
        queue.unacked_bytes += acquired.body_bytes
        return acquired

    def _take_page(self, max_count: i64, max_bytes: i64) -> Page | None:
        """Acquire the next entries as a page; None if they are not packed, or exceed the limits."""
        queue = self.queue
        if queue.exclusions is not None and queue.exclusions.withheld_count > 0:
            return None
        page = queue.store.take_page(max_count, max_bytes)
        if page is not None:
            queue.left_packed(page.body_bytes)
        return page

    def journal_ranges(self, page: Page) -> JournalRanges | None:
        """The places in the journal of the entries of a page that is to be settled.

        None if the journal does not have them, or if features have to hear of each entry. Raises StorageError if the
        page cannot be read.
        """
        queue = self.queue
        return self.pages.ranges(page) if queue.settles_by_page and queue.survives else None

    def settle_page(self, page: Page, ranges: JournalRanges | None) -> None:
        """Settle all entries of an acquired page; `ranges` is what `journal_ranges` returned. Raises StorageError."""
        queue = self.queue
        if ranges is not None:
            queue.journal.settle_runs(queue.id, ranges.seqs, ranges.slots)
            queue.page_settled(page)
        elif not queue.settles_by_page:
            for entry in self.pages.read(page):
                queue.drop(entry)
        queue.acked += page.count
        queue.unacked -= page.count
        queue.unacked_bytes -= page.body_bytes
        self.pages.drop(page)

    def abandon_page(self, page: Page) -> None:
        """Settle all entries of an acquired page, because the queue is deleted."""
        try:
            self.settle_page(page, self.journal_ranges(page))
        except StorageError:
            # A restart restores nothing of a deleted queue, even if the journal still has entries of it.
            self.pages.drop(page)
