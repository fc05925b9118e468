"""Moves chosen messages from one queue to others. After a crash each is on one side or the other."""

from collections.abc import Callable

from flintmq.broker.message import Entry, Message
from flintmq.broker.ports import Journal
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.capacity import has_free_room
from flintmq.broker.queue.entries import EntryQueue
from flintmq.broker.queue.peek import Peek, remove_peeked
from flintmq.broker.queue.publish import TURNED_AWAY, put

# Returns the message to put on other queues in place of an entry, and these queues; None if the entry stays.
Plan = Callable[[Entry], tuple[Message, list[Queue]] | None]


def move(queue: EntryQueue, peeked: Peek, plan: Plan, journal: Journal) -> tuple[int, int]:
    """Move the entries of the last peek for which `plan` returns targets, as one group of the journal.

    Returns how many left the queue, and how many stayed because a target queue has no room.
    """
    leaving: list[Entry] = []
    refused = 0
    journal.begin_group()
    try:
        for entry in peeked.entries:
            planned = plan(entry)
            if planned is None:
                continue
            message, targets = planned
            # A full queue with drop-head would lose one message for each that comes.
            if (
                all(has_free_room(target, message) for target in targets)
                and put(targets, message, journal) != TURNED_AWAY
            ):
                leaving.append(entry)
            else:
                refused += 1
    finally:
        remove_peeked(queue, peeked, leaving)
        journal.end_group()
    return len(leaving), refused
