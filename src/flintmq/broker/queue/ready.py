"""The store for the ready entries of a queue, in order. Entries far from their turn are packed into pages."""

from abc import abstractmethod
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator
from typing import Final, final

from mypy_extensions import i64

from flintmq.broker.message import ACQUIRED, READY, REMOVED, Entry
from flintmq.broker.ports import Page
from flintmq.broker.queue.pager import Pager

# Entries of a block: enough to make the overhead per entry small, and few enough to be reversed in microseconds.
BLOCK_ENTRIES: Final = 1024
# A block also ends when its bodies have this many bytes.
BLOCK_BYTES: Final = 256 * 1024
# Blocks behind the front that stay in memory. A queue whose consumers keep up never has more.
_LOOSE_BLOCKS: Final = 8
# Entries at each end that stay in memory when everything else is packed.
_KEPT_ENTRIES: Final = 4
# Up to this many returned entries are inserted one by one.
_FEW_ENTRIES: Final = 16
# A store is cleaned of removed entries when there are more of them than this, and than live ones.
_REMOVED_ENTRIES_MAX: Final = 1024


class Ready:
    """The ready entries of a queue. `count` is their number."""

    def __init__(self) -> None:
        self.count: i64 = 0

    @abstractmethod
    def append(self, entry: Entry) -> None: ...

    @abstractmethod
    def take(self) -> Entry:
        """Take the next entry to deliver out of the store, which must not be empty."""

    @abstractmethod
    def peek(self) -> Entry | None:
        """The entry that `take` would return; None if the store is empty."""

    def head(self) -> Entry | None:
        """The entry that `take` would return, if it is known without reading a page or sorting; None otherwise."""
        return None

    def take_page(self, max_count: i64, max_bytes: i64) -> Page | None:
        """Take out the next page of entries; None if the next entries are not packed, or exceed the limits.

        Its entries have consecutive numbers and no expiry, and either all or none of them were delivered before.
        """
        return None

    def first_in_line(self, entry: Entry) -> Entry | None:
        """The first entry of those with the same priority as this one; None if there is none."""
        return self.peek()

    @abstractmethod
    def drop_candidate(self) -> Entry | None:
        """The entry that a full queue drops first. It stays in the store."""

    @abstractmethod
    def put_back(self, entries: list[Entry]) -> None:
        """Return entries that were taken from here, and are marked ready again, to their places."""

    @abstractmethod
    def remove(self, entry: Entry) -> None:
        """Take out an entry at any position. Its state must say that it is ready."""

    @abstractmethod
    def shed(self) -> list[Entry]:
        """Take out some of the entries outside pages, about a block, in no order; empty if there are none.

        The queue is deleted: nothing else is done with the store any more.
        """

    @abstractmethod
    def entries(self) -> list[Entry]:
        """All entries in the order in which they would be taken. They stay in memory as long as the pager is off."""

    @abstractmethod
    def parts(self) -> "list[Fifo]":
        """The FIFO stores that this one consists of."""

    def loose(self) -> list[Entry]:
        """The entries that are in none of the parts."""
        return []

    @property
    def loose_count(self) -> int:
        """The number of entries that are in none of the parts."""
        return 0

    def each(self) -> Iterator[Entry]:
        """All entries in no order. They may be copies, to be read only."""
        yield from self.loose()
        for part in self.parts():
            for block in part.blocks():
                yield from block

    def left_packed(self, part: "Fifo", count: i64) -> None:
        """Note that `count` entries have left a page of this part."""
        part.count -= count
        if part is not self:
            self.count -= count

    def page_out(self) -> None:
        """Move as many entries as possible out of memory, because memory is low."""
        for part in self.parts():
            part.page_out()


@final
class Fifo(Ready):
    """Entries by age, the oldest first: `_front` backwards, then the blocks of `_middle`, then `pages`, then `_back`.

    The front is kept newest first, so that the oldest entry is popped from the end of a list. All its entries are older
    than the rest. Returned entries are therefore sorted into the front, after all blocks that begin with an older entry
    have been added to it. Without a `pager` everything stays in memory.
    """

    def __init__(self, pager: Pager | None = None) -> None:
        super().__init__()
        self.pager = pager
        self._front: list[Entry] = []
        self._middle: deque[list[Entry]] = deque()
        self.pages: deque[Page] = deque()
        self._back: list[Entry] = []
        self._back_bytes: i64 = 0
        # Returned entries that are not sorted into the front yet. One by one, sorting them would take quadratic time.
        self._returned: list[Entry] = []
        self._removed: i64 = 0

    def append(self, entry: Entry) -> None:
        # The new entry must not be in the block: it gets its place in the journal only when it is on all its queues,
        # and an entry that is packed without that place could never be settled.
        if len(self._back) >= BLOCK_ENTRIES or self._back_bytes >= BLOCK_BYTES:
            self._end_block()
        self._back.append(entry)
        self._back_bytes += len(entry.message.body)
        self.count += 1

    def _end_block(self) -> None:
        block = self._take_back()
        pager = self.pager
        # Blocks behind pages must be packed, too, to keep the order.
        if pager is None or (not self.pages and (not pager.is_on or len(self._middle) < _LOOSE_BLOCKS)):
            self._middle.append(block)
            return
        page = self._pack(pager, block)
        if page is not None:
            self.pages.append(page)

    def _take_back(self) -> list[Entry]:
        block = self._back
        self._back = []
        self._back_bytes = 0
        return block

    def _pack(self, pager: Pager, block: list[Entry]) -> Page | None:
        page = pager.pack(block, self)
        self._removed -= len(block) if page is None else len(block) - page.count
        return page

    def _unpack_first(self) -> list[Entry]:
        pager = self.pager
        assert pager is not None
        # The page stays in the store if it cannot be read.
        entries = pager.unpack(self.pages[0])
        self.pages.popleft()
        if self.pages:
            pager.pages.will_need(self.pages[0])
        return entries

    def take(self) -> Entry:
        while True:
            if self._returned:
                self._sort_in()
            while not self._front:
                self._advance()
            entry = self._front.pop()
            if entry.state == READY:
                entry.state = ACQUIRED
                self.count -= 1
                return entry
            self._removed -= 1

    def peek(self) -> Entry | None:
        if self.count == 0:
            return None
        while True:
            if self._returned:
                self._sort_in()
            while not self._front:
                self._advance()
            entry = self._front[-1]
            if entry.state == READY:
                return entry
            self._front.pop()
            self._removed -= 1

    def head(self) -> Entry | None:
        if self._returned:
            return None
        if self._front:
            entry = self._front[-1]
        elif self._middle:
            entry = self._middle[0][0]
        elif self.pages or not self._back:
            return None
        else:
            entry = self._back[0]
        # A removed entry is rarely the first, and not for long.
        return entry if entry.state == READY else None

    def take_page(self, max_count: i64, max_bytes: i64) -> Page | None:
        if self._returned or self._front or self._middle or not self.pages:
            return None
        page = self.pages[0]
        if page.count > max_count or page.body_bytes > max_bytes or page.expires_ms != 0 or not page.is_sequence:
            return None
        if page.redelivered != 0 and page.redelivered != page.count:
            return None
        self.pages.popleft()
        self.count -= page.count
        return page

    def drop_candidate(self) -> Entry | None:
        return self.peek()

    def _sort_in(self) -> None:
        returned = self._returned
        if _ascends(returned):
            # What a client returns together comes back in the order of its deliveries.
            returned.reverse()
        else:
            returned.sort(key=_position_downwards)
        newest = returned[0].position
        # The front may be empty after entries expired, and returned entries may come from the middle of the store.
        older: list[list[Entry]] = []
        try:
            self._find_older(newest, older)
        finally:
            # If a page cannot be read, the returned entries keep waiting, and the blocks found so far stay.
            if older:
                self._pull(older)
        self._returned = []
        front = self._front
        at: i64 = bisect_left(front, -newest, key=_position_downwards)
        if at == len(front):
            front += returned
            return
        if len(returned) <= _FEW_ENTRIES:
            # The front may be long, and a client may return and take one entry again and again.
            for entry in returned:
                insort(front, entry, at, key=_position_downwards)
            return
        # Entries that are newer than all of these stay where they are.
        mixed = front[at:]
        mixed += returned
        mixed.sort(key=_position_downwards)
        del front[at:]
        front += mixed

    def _find_older(self, newest: i64, older: list[list[Entry]]) -> None:
        """Take out the blocks that begin with an older entry."""
        while self._middle and self._middle[0][0].position < newest:
            older.append(self._middle.popleft())
        while not self._middle and self.pages and self.pages[0].first < newest:
            older.append(self._unpack_first())
        if not self._middle and not self.pages and self._back and self._back[0].position < newest:
            older.append(self._take_back())

    def _pull(self, blocks: list[list[Entry]]) -> None:
        """Make these blocks, oldest first, a part of the front."""
        front: list[Entry] = []
        for block in reversed(blocks):
            block.reverse()
            front += block
        front += self._front
        self._front = front

    def _advance(self) -> None:
        if self._middle:
            self._front = self._middle.popleft()
        elif self.pages:
            self._front = self._unpack_first()
        else:
            self._front = self._take_back()
        self._front.reverse()

    def put_back(self, entries: list[Entry]) -> None:
        self._returned.extend(entries)
        self.count += len(entries)

    def remove(self, entry: Entry) -> None:
        entry.state = REMOVED
        self.count -= 1
        self._removed += 1
        if self._removed > _REMOVED_ENTRIES_MAX and self._removed > self.count:
            self._remove_marked()

    def _remove_marked(self) -> None:
        """Remove the entries that are marked as removed. Pages have none of them."""
        if self._returned:
            self._sort_in()
        front = _ready(self._front)
        middle: deque[list[Entry]] = deque()
        for block in self._middle:
            live = _ready(block)
            if live:
                middle.append(live)
        self._front = front
        self._middle = middle
        self._back = _ready(self._back)
        self._back_bytes = 0
        for entry in self._back:
            self._back_bytes += len(entry.message.body)
        self._removed = 0

    def shed(self) -> list[Entry]:
        while True:
            if self._middle:
                block = self._middle.popleft()
            else:
                rest = self._front or self._returned or self._back
                block = rest[-BLOCK_ENTRIES:]
                del rest[-BLOCK_ENTRIES:]
                if not block:
                    return []
            found = _ready(block)
            if found:
                self.count -= len(found)
                return found

    def entries(self) -> list[Entry]:
        if self._returned:
            self._sort_in()
        while self.pages:
            self._middle.append(self._unpack_first())
        found = _ready(self._front)
        found.reverse()
        for block in self._middle:
            found += _ready(block)
        found += _ready(self._back)
        return found

    def parts(self) -> "list[Fifo]":
        return [self]

    # -- peeking ------------------------------------------------------------------------------------------------

    def peek_behind(self, after: i64) -> tuple[list[Entry], Page | None, list[Entry]]:
        """The next entries behind a position, at most a block; the page that they are in, if any; and all its entries.

        The lists are empty if nothing is behind the position. Raises InternalError if a page cannot be read.
        """
        if self._returned:
            self._sort_in()
        front = self._front
        end: i64 = bisect_left(front, -after, key=_position_downwards)
        while end > 0:
            start: i64 = max(0, end - BLOCK_ENTRIES)
            found = _ready(front[start:end])
            if found:
                found.reverse()
                return found, None, []
            end = start
        for block in self._middle:
            if block[-1].position > after:
                found = _behind(block, after)
                if found:
                    return found, None, []
        pager = self.pager
        if pager is not None:
            before: Page | None = None
            for page in [*self.pages, None]:
                # All entries of a page are before the first one of the next page.
                if before is not None and (page is None or page.first > after + 1):
                    paged = pager.read(before)
                    found = _behind(paged, after)
                    if found:
                        return found, before, paged
                before = page
        return _behind(self._back, after), None, []

    def keep_in_page(self, page: Page, kept: list[Entry]) -> None:
        """Keep only these entries of a page. The caller counts the others."""
        pager = self.pager
        assert pager is not None
        if kept:
            pager.pages.repack(page, kept)
        else:
            self.remove_page(page)
            pager.drop(page)

    # -- pages --------------------------------------------------------------------------------------------------

    def blocks(self) -> Iterator[list[Entry]]:
        """All entries, block by block, in no order. Those of pages are copies, to be read only."""
        yield _ready(self._front)
        yield _ready(self._returned)
        for block in self._middle:
            yield _ready(block)
        pager = self.pager
        if pager is not None:
            for page in self.pages:
                yield pager.read(page)
        yield _ready(self._back)

    def loose_blocks(self) -> Iterator[list[Entry]]:
        """The entries outside pages, block by block, including removed ones; each block is in order."""
        yield self._returned
        yield self._front[::-1]
        yield from self._middle
        yield self._back

    def remove_page(self, page: Page) -> None:
        """Remove a page that has no entries left."""
        self.pages.remove(page)

    def bring_forward(self, page: Page) -> bool:
        """Unpack this page if it is the next one to be unpacked anyway. Returns whether it was."""
        if self._middle or not self.pages or self.pages[0] is not page:
            return False
        self._middle.append(self._unpack_first())
        return True

    def page_out(self) -> None:
        pager = self.pager
        if pager is None or not pager.is_on:
            return
        if self._returned:
            self._sort_in()
        if len(self._front) > _KEPT_ENTRIES:
            behind = self._front[:-_KEPT_ENTRIES]
            behind.reverse()
            del self._front[:-_KEPT_ENTRIES]
            for start in range((len(behind) - 1) // BLOCK_ENTRIES * BLOCK_ENTRIES, -1, -BLOCK_ENTRIES):
                self._middle.appendleft(behind[start : start + BLOCK_ENTRIES])
        while self._middle:
            block = self._middle[-1]
            if any(entry.avoid is not None for entry in block):
                # A page does not store which consumer rejected an entry.
                break
            self._middle.pop()
            page = self._pack(pager, block)
            if page is not None:
                self.pages.appendleft(page)
        if len(self._back) > _KEPT_ENTRIES:
            page = self._pack(pager, self._take_back())
            if page is not None:
                self.pages.append(page)


def _ready(block: list[Entry]) -> list[Entry]:
    return [entry for entry in block if entry.state == READY]


def _behind(block: list[Entry], after: i64) -> list[Entry]:
    return [entry for entry in block if entry.position > after and entry.state == READY]


def _ascends(entries: list[Entry]) -> bool:
    before: i64 = -1
    for entry in entries:
        if entry.position < before:
            return False
        before = entry.position
    return True


def _position_downwards(entry: Entry) -> int:
    return -entry.position
