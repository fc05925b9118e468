"""What is far from its turn leaves memory: the middle of a deep queue is packed, page by page, by the storage.

Entries of a page are no objects any more, so nobody else may hold one. Those that expire leave the queue's `Expiry`,
and go back to it once they are over: a page is looked at when the first of its entries is. Where many pages have
something that is over and little of it, looking takes turns: what has expired may be counted a while longer then. It
is never delivered.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from flintmq.base.errors import InternalError, StorageError
from flintmq.broker.message import ACQUIRED, READY, Entry
from flintmq.broker.ports import Page, Pages, PlacesOfPage
from flintmq.broker.timers import NEVER

if TYPE_CHECKING:
    from flintmq.broker.queue.expiry import Expiry
    from flintmq.broker.queue.ready import Fifo

# Pages looked at in one turn, those apart of which much has expired: each costs half a millisecond.
_LOOKS_MAX: Final = 8
_FRUITFUL_LOOKS_MAX: Final = 64
_FRUITFUL_DIVISOR: Final = 4
_PAUSE_MS: Final = 100
# Pages that are gone are kept in mind until there are more of them than this, and than others.
_GONE_PAGES_MAX: Final = 64


@final
class Paging:
    """The pages of one queue. `left` is told how many entries of a page have left it because they expired."""

    def __init__(self, pages: Pages, left: "Callable[[Fifo, int], None]") -> None:
        self.pages = pages
        # The queue's entries that expire and are in memory.
        self.expiry: Expiry | None = None
        # Off where somebody knows the queue's entries by their objects.
        self.is_on = True
        self._left = left
        # When a page is to be looked at, a number that tells apart what is due at one time, and the page.
        self._heap: list[tuple[int, int, Page, Fifo]] = []
        self._number = 0
        # Pages that are in there, and of no use any more.
        self._gone: i64 = 0

    def pack(self, block: list[Entry], fifo: "Fifo") -> Page | None:
        """Entries of a block that are ready, as a page of this store; None where there are none."""
        entries = [entry for entry in block if entry.state == READY]
        if not entries:
            return None
        if self.expiry is not None:
            for entry in entries:
                if entry.expires_ms != 0:
                    self.expiry.left(entry)
        page = self.pages.pack(entries)
        self._look_later(page, fifo)
        return page

    def unpack(self, page: Page) -> list[Entry]:
        """Raises InternalError where it cannot be read."""
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
        """For a look only. Raises InternalError."""
        try:
            return self.pages.read(page)
        except StorageError as error:
            raise InternalError(str(error)) from error

    def places(self, page: Page) -> PlacesOfPage:
        """Raises InternalError."""
        try:
            return self.pages.places(page)
        except StorageError as error:
            raise InternalError(str(error)) from error

    def drop(self, page: Page) -> None:
        self.pages.drop(page)
        if page.expires_ms != 0:
            self._forget_gone()

    def _forget_gone(self) -> None:
        """A page has gone before it was to be looked at."""
        self._gone += 1
        if self._gone > _GONE_PAGES_MAX and self._gone * 2 > len(self._heap):
            self._heap = [item for item in self._heap if not item[2].is_gone]
            heapify(self._heap)
            self._gone = 0

    def _look_later(self, page: Page, fifo: "Fifo") -> None:
        if page.expires_ms != 0 and self.expiry is not None:
            self._number += 1
            heappush(self._heap, (int(page.expires_ms), self._number, page, fifo))
            self.expiry.wake_at(page.expires_ms)

    def look(self, expiry: "Expiry", now_ms: i64) -> i64:
        """Give back to `expiry` what is over by now; returns when to look again."""
        looks: i64 = 0
        fruitful: i64 = 0
        while self._heap and self._heap[0][0] <= now_ms:
            if looks >= _LOOKS_MAX:
                return now_ms + _PAUSE_MS
            if fruitful >= _FRUITFUL_LOOKS_MAX:
                return now_ms + 1
            _, _, page, fifo = heappop(self._heap)
            try:
                if page.is_gone or fifo.bring_forward(page):
                    # Entries in memory expire without it.
                    continue
                if self._look_at(page, fifo, expiry, now_ms):
                    fruitful += 1
                else:
                    looks += 1
            except InternalError:
                # Whoever it is delivered to is told.
                continue
        return self._heap[0][0] if self._heap else NEVER

    def _look_at(self, page: Page, fifo: "Fifo", expiry: "Expiry", now_ms: i64) -> bool:
        """Returns whether much of a page has expired."""
        over: i64 = 0
        kept: list[Entry] = []
        for entry in self.read(page):
            if entry.expires_ms != 0 and entry.expires_ms <= now_ms:
                entry.state = ACQUIRED
                expiry.add(entry)
                over += 1
            else:
                kept.append(entry)
        if over > 0:
            self._left(fifo, over)
            if not kept:
                fifo.emptied(page)
                self.pages.drop(page)
                return True
            self.pages.repack(page, kept)
        self._look_later(page, fifo)
        return over * _FRUITFUL_DIVISOR >= over + len(kept)

    def forget(self) -> None:
        """The queue is deleted."""
        self._heap = []
