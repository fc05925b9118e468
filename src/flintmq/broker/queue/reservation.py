"""Numbers of a queue that are given out before their messages come to it: those of stages that are to be committed."""

from mypy_extensions import i64

from flintmq.broker.message import Entry
from flintmq.broker.queue.entries import EntryQueue


def reserve(queue: EntryQueue, count: i64) -> i64:
    """Reserve numbers in a row, for entries that come later or never; returns the first."""
    first = queue.next_seq
    queue.next_seq += count
    queue.unpublished += count
    return first


def put_reserved(queue: EntryQueue, entries: list[Entry]) -> None:
    """Put entries with reserved numbers, which the journal has, on the queue behind all that is there."""
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
