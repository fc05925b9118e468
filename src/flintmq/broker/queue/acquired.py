"""Entries that a lease acquired, packed into pages in the order in which they were taken."""

from typing import final

from mypy_extensions import i64

from flintmq.broker.message import Entry
from flintmq.broker.ports import Page, Pages
from flintmq.broker.queue.ready import BLOCK_BYTES, BLOCK_ENTRIES


@final
class Acquired:
    """Acquired entries as pages. `runs` holds their sequence numbers: pairs of the first of a run and its length.

    The length is negative for entries that may have been delivered before.
    """

    def __init__(self, pages: Pages) -> None:
        self.packed: list[Page] = []
        self.runs: list[int] = []
        self.count: i64 = 0
        self.body_bytes: i64 = 0
        self._pages = pages
        self._block: list[Entry] = []
        self._block_bytes: i64 = 0
        # The number after the last run, and the sign of its length.
        self._following: i64 = -1
        self._sign: i64 = 0

    def add(self, entry: Entry) -> None:
        size: i64 = len(entry.message.body)
        self._add_run(entry.seq, 1, -1 if entry.redelivered else 1)
        self.count += 1
        self.body_bytes += size
        self._block.append(entry)
        self._block_bytes += size
        if len(self._block) >= BLOCK_ENTRIES or self._block_bytes >= BLOCK_BYTES:
            self.end()

    def add_page(self, page: Page) -> None:
        """Add a page that `Ready.take_page` returned."""
        self.end()
        self._add_run(page.first_seq, page.count, 1 if page.redelivered == 0 else -1)
        self.count += page.count
        self.body_bytes += page.body_bytes
        self.packed.append(page)

    def _add_run(self, first: i64, count: i64, sign: i64) -> None:
        if first == self._following and sign == self._sign:
            self.runs[-1] += int(sign * count)
        else:
            self.runs += [int(first), int(sign * count)]
            self._sign = sign
        self._following = first + count

    def end(self) -> None:
        """Pack the entries that are not packed yet."""
        if self._block:
            self.packed.append(self._pages.pack(self._block))
            self._block = []
            self._block_bytes = 0
