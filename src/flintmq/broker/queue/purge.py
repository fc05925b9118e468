"""Purge: all messages of a queue are dropped, or, before it is deleted, dead-lettered, because a client wants that."""

from flintmq.base.work import WORK
from flintmq.broker.ports import Page
from flintmq.broker.queue.contents import PAGE_UNITS
from flintmq.broker.queue.entries import EntryQueue
from flintmq.broker.queue.pager import Pager
from flintmq.broker.tick import DELETED


def drop_all(queue: EntryQueue) -> int:
    """Drop all messages that are ready or held back. Returns how many."""
    if queue.dedup is not None:
        queue.dedup.clear()
    count = queue.message_count + queue.held_count
    if queue.exclusions is not None:
        for entry in queue.exclusions.take_all():
            queue.drop(entry)
    if queue.settles_by_page:
        _drop_pages(queue)
    # Dropping pages took less work; the remaining entries are dropped one by one.
    WORK.spent += queue.store.count
    while True:
        first = queue.store.drop_candidate()
        if first is None:
            break
        queue.remove(first)
        queue.drop(first)
    if queue.delays is not None:
        for entry in queue.delays.take_all():
            queue.drop(entry)
    return count


def _drop_pages(queue: EntryQueue) -> None:
    """Drop the messages in pages without unpacking them."""
    store = queue.store
    for part in store.parts():
        pager = part.pager
        while pager is not None and part.pages:
            page = part.pages[0]
            WORK.spent += PAGE_UNITS
            if queue.survives:
                _settle(queue, page, pager)
            part.pages.popleft()
            store.left_packed(part, page.count)
            queue.left_packed(page.body_bytes)
            pager.drop(page)


def _settle(queue: EntryQueue, page: Page, pager: Pager) -> None:
    ranges = pager.ranges(page)
    queue.journal.settle_runs(queue.id, ranges.seqs, ranges.slots)
    queue.page_settled(page)


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
