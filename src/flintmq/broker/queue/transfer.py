"""Messages that leave one queue for others, chosen by whoever looks at them: on one side or the other, crash or not."""

from collections.abc import Callable

from flintmq.broker.message import Entry, Message
from flintmq.broker.ports import Journal
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.capacity import has_free_room
from flintmq.broker.queue.entries import EntryQueue
from flintmq.broker.queue.peek import Peek, remove_peeked
from flintmq.broker.queue.publishing import TURNED_AWAY, put

# The message to put on queues in place of an entry, and these queues; None if the entry stays.
Plan = Callable[[Entry], tuple[Message, list[Queue]] | None]


def move(queue: EntryQueue, peeked: Peek, plan: Plan, journal: Journal) -> tuple[int, int]:
    """Move what is planned of the last peek, as one group of the journal.

    Returns how many left the queue, and how many stayed because a queue they were to go to has no room.
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
            # A queue that drops its oldest would lose one for each that comes.
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
