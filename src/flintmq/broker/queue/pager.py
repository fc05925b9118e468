"""The pager: the storage packs the middle of a deep queue, page by page, so that it leaves memory.

Packed entries are no objects any more, so nothing else may hold one. Those with an expiry leave the queue's `Expiry`.
A page is read when the first of its entries expires, and expired ones go back to the `Expiry`. If many pages have
expired entries, reading them is spread over time, and more so if each has few of them. Until then the queue still
counts these entries, but it never delivers them.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from flintmq.base.errors import InternalError, StorageError
from flintmq.broker.message import ACQUIRED, READY, Entry
from flintmq.broker.ports import JournalRanges, Page, Pages
from flintmq.broker.queue.expiry import Expiry
from flintmq.broker.timers import NEVER

if TYPE_CHECKING:
    from flintmq.broker.queue.ready import Fifo

# Reading a page takes half a millisecond, which is as long as expiring so many entries.
_PAGE_UNITS: Final = 256
# Pages with few expired entries that are read in one turn, and the pause after that.
_READS_MAX: Final = 4
_FRUITFUL_DIVISOR: Final = 4
_PAUSE_MS: Final = 50
# The heap is cleaned of pages that are gone when there are more of them than this, and than others.
_GONE_PAGES_MAX: Final = 64


@final
class Pager:
    """The pages of one queue. `left` is called with the store and the number of entries that expired in a page."""

    def __init__(self, pages: Pages, left: "Callable[[Fifo, int], None]") -> None:
        self.pages = pages
        # The expiry of the entries that are in memory.
        self.expiry: Expiry | None = None
        # Off while a feature knows the queue's entries as objects.
        self.is_on = True
        self._left = left
        # For each page with an expiry: when to read it, a number to break ties, the page, and its store.
        self._heap: list[tuple[int, int, Page, Fifo]] = []
        self._number = 0
        # How many pages in the heap are gone.
        self._gone: i64 = 0

    def pack(self, block: list[Entry], fifo: "Fifo") -> Page | None:
        """Pack the ready entries of a block as a page of this store; None if there are none."""
        entries = [entry for entry in block if entry.state == READY]
        if not entries:
            return None
        if self.expiry is not None:
            for entry in entries:
                if entry.expires_ms != 0:
                    self.expiry.left(entry)
        page = self.pages.pack(entries)
        self._schedule(page, fifo)
        return page

    def unpack(self, page: Page) -> list[Entry]:
        """Return the entries of a page to memory. Raises InternalError if it cannot be read."""
        try:
            entries = self.pages.unpack(page)
        except StorageError as error:
            raise InternalError(str(error)) from error
        if page.expires_ms != 0 and self.expiry is not None:
            for entry in entries:
                if entry.expires_ms != 0:
                    self.expiry.add(entry)
            self._forget_gone()
        return entries

    def read(self, page: Page) -> list[Entry]:
        """Return copies of the entries of a page, to be read only. Raises InternalError if it cannot be read."""
        try:
            return self.pages.read(page)
        except StorageError as error:
            raise InternalError(str(error)) from error

    def ranges(self, page: Page) -> JournalRanges:
        """The places of a page's entries in the journal. Raises InternalError if the page cannot be read."""
        try:
            return self.pages.ranges(page)
        except StorageError as error:
            raise InternalError(str(error)) from error

    def drop(self, page: Page) -> None:
        self.pages.drop(page)
        if page.expires_ms != 0:
            self._forget_gone()

    def _forget_gone(self) -> None:
        """Count a page that is gone before it was due to be read."""
        self._gone += 1
        if self._gone > _GONE_PAGES_MAX and self._gone * 2 > len(self._heap):
            self._heap = [item for item in self._heap if not item[2].is_gone]
            heapify(self._heap)
            self._gone = 0

    def _schedule(self, page: Page, fifo: "Fifo") -> None:
        if page.expires_ms != 0 and self.expiry is not None:
            self._number += 1
            heappush(self._heap, (int(page.expires_ms), self._number, page, fifo))
            self.expiry.wake_at(page.expires_ms)

    def expire(self, now_ms: i64) -> i64:
        """Return entries that have expired to the `expiry`. Returns when to go on (Unix time in ms), or NEVER."""
        expiry = self.expiry
        assert expiry is not None
        reads: i64 = 0
        while self._heap and self._heap[0][0] <= now_ms:
            if reads >= _READS_MAX:
                return now_ms + _PAUSE_MS
            if not expiry.has_time:
                # The entries of pages that were read come first.
                return i64(self._heap[0][0])
            _, _, page, fifo = heappop(self._heap)
            try:
                if page.is_gone or fifo.bring_forward(page):
                    # A page that is gone needs nothing, and one in memory again expires there.
                    continue
                expiry.spend(_PAGE_UNITS)
                if not self._expire_page(page, fifo, now_ms):
                    reads += 1
            except InternalError:
                # The consumer that would get an entry of the page next is told the error.
                continue
        return self._heap[0][0] if self._heap else NEVER

    def _expire_page(self, page: Page, fifo: "Fifo", now_ms: i64) -> bool:
        """Read a page and return its expired entries to the `expiry`. Returns whether much of it has expired."""
        over: i64 = 0
        kept: list[Entry] = []
        for entry in self.read(page):
            if entry.expires_ms != 0 and entry.expires_ms <= now_ms:
                entry.state = ACQUIRED
                assert self.expiry is not None
                self.expiry.add(entry)
                over += 1
            else:
                kept.append(entry)
        if over > 0:
            self._left(fifo, over)
            if not kept:
                fifo.remove_page(page)
                self.pages.drop(page)
                return True
            self.pages.repack(page, kept)
        self._schedule(page, fifo)
        return over * _FRUITFUL_DIVISOR >= over + len(kept)

    def forget(self) -> None:
        """Forget all pages, because the queue is deleted."""
        self._heap = []
