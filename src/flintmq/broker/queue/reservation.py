"""Reserved sequence numbers: a stage that is to be committed gets them before its messages come to the queue."""

from mypy_extensions import i64

from flintmq.broker.message import Entry
from flintmq.broker.queue.entries import EntryQueue


def reserve(queue: EntryQueue, count: i64) -> i64:
    """Reserve `count` consecutive numbers for entries that come later or never. Returns the first."""
    first = queue.next_seq
    queue.next_seq += count
    queue.unpublished += count
    return first


def put_reserved(queue: EntryQueue, entries: list[Entry]) -> None:
    """Put entries with reserved numbers, which are in the journal, at the end of the queue."""
    now_ms = queue.tick.now_ms
    for entry in entries:
        entry.position = queue.next_seq
        queue.next_seq += 1
        queue.count_unkept(entry.message)
        if queue.append_plain(entry):
            continue
        if queue.dedup is not None and queue.dedup.is_duplicate(entry.message):
            queue.discard_duplicate(entry)
            continue
        queue.admit_entry(entry, now_ms)
    queue.settle_replaced()
    queue.trim()
    queue.touch()
