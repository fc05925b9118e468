"""Puts a message on the queues it was routed to: it is admitted, enqueued, and written to the journal once."""

from typing import Final

from flintmq.broker.message import Entry, Message
from flintmq.broker.ports import Journal
from flintmq.broker.queue.base import ADMITTED, REFUSED, Queue
from flintmq.broker.queue.settings import REJECT_PUBLISH_DLX

# Outcomes of a published message. A STORED message is safe once its batch is durable.
UNROUTED: Final = 0
ROUTED: Final = 1
STORED: Final = 2
# A full queue has refused the message, because it was declared to tell its publishers.
TURNED_AWAY: Final = 3
# The message was to be delivered at once, and no consumer could take it.
UNDELIVERED: Final = 4


def put(queues: list[Queue], message: Message, journal: Journal) -> int:
    """Put a message on distinct queues. Returns UNROUTED, ROUTED, STORED or TURNED_AWAY."""
    if len(queues) == 1:
        queue = queues[0]
        if queue.is_guarded or message.options.is_command:
            answer = queue.admit(message)
            if answer != ADMITTED:
                return TURNED_AWAY if answer == REFUSED else STORED
        entry = queue.enqueue(message)
        if entry is not None:
            journal.append(message, [queue.id], [entry])
            return STORED
        return STORED if queue.keeps_all else ROUTED
    if not queues:
        return UNROUTED
    outcome = ROUTED
    ids: list[int] = []
    entries: list[Entry] = []
    is_turned_away = False
    for queue in queues:
        if queue.is_guarded or message.options.is_command:
            answer = queue.admit(message)
            if answer == REFUSED:
                is_turned_away = True
                continue
            if answer != ADMITTED:
                outcome = STORED
                continue
        entry = queue.enqueue(message)
        if entry is not None:
            ids.append(queue.id)
            entries.append(entry)
        elif queue.keeps_all:
            outcome = STORED
    if entries:
        journal.append(message, ids, entries)
        outcome = STORED
    # A cancellation succeeds if one of the queues had the message.
    if is_turned_away and not (message.options.cancels and outcome == STORED):
        return TURNED_AWAY
    return outcome


def put_at_once(queues: list[Queue], message: Message, journal: Journal) -> int:
    """Put a message on the queues that have a consumer for it now (amqp-0-9-1 basic.publish.immediate).

    Returns what `put` returns, or UNDELIVERED if no queue has one.
    """
    if not queues:
        return UNROUTED
    taking = [queue for queue in queues if queue.takes_at_once(message)]
    return put(taking, message, journal) if taking else UNDELIVERED


def put_where_taken(queues: list[Queue], message: Message, journal: Journal) -> list[Queue]:
    """Put a message on those queues that take it, and return the others.

    A queue that refused it and made a dead letter of it counts as one that took it.
    """
    refusing: list[Queue] = []
    ids: list[int] = []
    entries: list[Entry] = []
    for queue in queues:
        if queue.is_guarded or message.options.is_command:
            answer = queue.admit(message)
            if answer == REFUSED and not _passes_on(queue):
                refusing.append(queue)
            if answer != ADMITTED:
                continue
        entry = queue.enqueue(message)
        if entry is not None:
            ids.append(queue.id)
            entries.append(entry)
    if entries:
        journal.append(message, ids, entries)
    return refusing


def _passes_on(queue: Queue) -> bool:
    settings = queue.settings
    return settings.overflow == REJECT_PUBLISH_DLX and settings.dead_letter_exchange is not None
