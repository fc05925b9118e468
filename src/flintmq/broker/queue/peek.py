"""Peeking at the ready entries of a queue, block by block, without acquiring them; chosen ones can be removed."""

from heapq import nsmallest
from typing import final

from mypy_extensions import i64

from flintmq.broker.message import Entry
from flintmq.broker.ports import Page
from flintmq.broker.queue.entries import EntryQueue
from flintmq.broker.queue.ready import BLOCK_ENTRIES, Fifo


@final
class Peek:
    """A block of entries in the order of delivery, of one `part` of the queue.

    The next block is behind the position of the last entry. Entries of a `page` are copies, to be read only; `paged`
    is all that the page holds, including what is before the position that was asked for. A peek is valid until
    anything happens to the queue.
    """

    def __init__(
        self, part: i64, entries: list[Entry], fifo: Fifo | None, page: Page | None, paged: list[Entry]
    ) -> None:
        self.part: i64 = part
        self.entries = entries
        self.fifo = fifo
        self.page = page
        self.paged = paged


def peek(queue: EntryQueue, part: i64, after: i64) -> Peek | None:
    """Return the ready entries behind a position of a part, at most a block; the first block is behind -1 of part 0.

    None if nothing is behind that position. Raises InternalError if the next page cannot be read.
    """
    store = queue.store
    parts = store.parts()
    if part == 0:
        loose = [entry for entry in store.loose() if entry.position > after]
        if loose:
            return Peek(0, nsmallest(BLOCK_ENTRIES, loose, key=_position), None, None, [])
        part = 1
        after = -1
    while part <= len(parts):
        # Parts come in the order of delivery, the highest priority first.
        fifo = parts[len(parts) - part]
        entries, page, paged = fifo.peek_behind(after)
        if entries:
            return Peek(part, entries, fifo, page, paged)
        part += 1
        after = -1
    return None


def remove_peeked(queue: EntryQueue, peeked: Peek, leaving: list[Entry]) -> None:
    """Remove some entries of the last peek from the queue, without delivering or dead-lettering them."""
    page, fifo = peeked.page, peeked.fifo
    if page is None or fifo is None:
        for entry in leaving:
            queue.remove(entry)
            queue.drop(entry)
        return
    if not leaving:
        return
    gone = {int(entry.seq) for entry in leaving}
    kept = [entry for entry in peeked.paged if int(entry.seq) not in gone]
    fifo.keep_in_page(page, kept)
    queue.store.left_packed(fifo, len(leaving))
    body_bytes: i64 = 0
    for entry in leaving:
        body_bytes += len(entry.message.body)
        queue.drop(entry)
    queue.left_packed(body_bytes)


def _position(entry: Entry) -> int:
    return int(entry.position)
