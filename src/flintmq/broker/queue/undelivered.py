"""Finds the messages of a queue that were never delivered, to note them in the journal when the broker stops."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import InternalError
from flintmq.broker.message import READY, Entry
from flintmq.broker.queue.entries import EntryQueue
from flintmq.broker.queue.ready import Fifo, Ready

# At most this many mixed pages of a queue are read; each takes half a millisecond.
READ_PAGES_MAX: Final = 256


@final
class Undelivered:
    """Collects the sequence numbers of undelivered entries: `runs` has the first and the length of each run, in order.

    At most `pages_max` pages are read. The entries of others count as delivered, which is always safe.
    """

    def __init__(self, store: Ready, pages_max: int = READ_PAGES_MAX) -> None:
        self.runs: list[int] = []
        # The first number of each run, and the one after its last.
        self._found: list[tuple[int, int]] = []
        self._first: i64 = 0
        self._end: i64 = 0
        self._reads_left: i64 = pages_max
        for entry in store.loose():
            self._add_entry(entry)
        for part in store.parts():
            for block in part.loose_blocks():
                for entry in block:
                    self._add_entry(entry)
            self._add_pages(part)
        self._end_run()
        self._join()

    def _add_entry(self, entry: Entry) -> None:
        if entry.state == READY and not entry.redelivered:
            self._add_run(entry.seq, 1)

    def _add_pages(self, part: Fifo) -> None:
        pager = part.pager
        for page in part.pages:
            if page.redelivered == 0 and page.is_sequence:
                self._add_run(page.first_seq, page.count)
            elif page.redelivered != page.count and pager is not None and self._reads_left > 0:
                self._reads_left -= 1
                try:
                    for entry in pager.read(page):
                        self._add_entry(entry)
                except InternalError:
                    # The next start reads the journal, which may still have the entries of this page.
                    continue

    def _add_run(self, first: i64, count: i64) -> None:
        if first != self._end:
            self._end_run()
            self._first = first
        self._end = first + count

    def _end_run(self) -> None:
        if self._end > self._first:
            self._found.append((int(self._first), int(self._end)))
        self._first = self._end

    def _join(self) -> None:
        runs = self.runs
        end = 0
        for first, following in sorted(self._found):
            if runs and first == end:
                runs[-1] += following - first
            else:
                runs.append(first)
                runs.append(following - first)
            end = following


def note_undelivered(queue: EntryQueue) -> None:
    """Note in the journal which messages of a queue were never delivered. All consumers must have ended."""
    if queue.survives:
        runs = Undelivered(queue.store).runs
        if runs:
            queue.journal.undelivered(queue.id, runs)
