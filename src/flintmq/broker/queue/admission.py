"""Admission: whether a queue takes a message that is published to it. Commands are obeyed here instead.

A queue without limits and deduplication admits every message, so only queues that are `is_guarded` compute the answer.
"""

from typing import Final

from flintmq.broker.message import PAUSE, Entry, Message
from flintmq.broker.queue.base import ADMITTED, DISCARDED, DONE, REFUSED
from flintmq.broker.queue.entries import EntryQueue
from flintmq.broker.queue.settings import DROP_HEAD, REJECT_PUBLISH_DLX
from flintmq.broker.tick import MAXLEN, DeadLetter

# The sequence number of an entry that was never on the queue.
_NOWHERE: Final = -1
# The entries that go for each that comes while ticks make a queue shorter: more than one, or it would not become so
# while much is published.
_DROPPED_WHILE_TRIMMING: Final = 2


def admit(queue: EntryQueue, message: Message) -> int:
    """Decide about a message, as `Queue.admit` does; drops others from the head if that makes room for it."""
    if message.options.is_command:
        return _obey(queue, message)
    if queue.dedup is not None and queue.dedup.is_duplicate(message):
        return DONE
    if not _is_too_much(queue, message):
        return ADMITTED
    # In a shorter tick consumers would have taken some entries by now: these do not count.
    if queue.takes_at_once(message) or not _is_too_much(queue, message):
        return ADMITTED
    settings = queue.settings
    if settings.overflow != DROP_HEAD:
        if settings.overflow == REJECT_PUBLISH_DLX:
            _discard(queue, message)
        return REFUSED
    if message.options.held_until_ms(queue.tick.now_ms) > queue.tick.now_ms:
        # A delayed message needs no room before it is due.
        return ADMITTED
    return _drop_head(queue, message)


def _drop_head(queue: EntryQueue, message: Message) -> int:
    """Drop the oldest entries until there is room for a message, but none of a higher priority."""
    level = queue.levels.of(message.options)
    dropped = 0
    while _is_too_much(queue, message):
        if queue.is_trimming and dropped >= _DROPPED_WHILE_TRIMMING:
            # There are very many too many. The ticks drop the oldest, and this one when it is the oldest.
            return ADMITTED
        first = queue.store.drop_candidate()
        if first is None or queue.levels.of(first.message.options) > level:
            # There is no room even without all others, or only entries of higher priority could make room.
            if queue.settings.dead_letters_at_least_once:
                # Its dead letter might have to wait, and a crash would lose it.
                return REFUSED
            _discard(queue, message)
            return DISCARDED
        queue.remove(first)
        queue.make_dead_letter(first, MAXLEN)
        dropped += 1
    return ADMITTED


def _is_too_much(queue: EntryQueue, message: Message) -> bool:
    """Whether there is no room for a message that is published."""
    replaced = queue.replaced_by(message)
    if replaced is None:
        return queue.exceeds_limits(1, len(message.body))
    return queue.exceeds_limits(0, len(message.body) - len(replaced.message.body))


def _discard(queue: EntryQueue, message: Message) -> None:
    """Dead-letter a message that was not taken."""
    if queue.settings.dead_letter_exchange is not None:
        queue.tick.discarded.append(DeadLetter(queue, Entry(message, _NOWHERE), MAXLEN))


def _obey(queue: EntryQueue, command: Message) -> int:
    if command.options.cancels:
        return _cancel(queue, command)
    queue.pause(command.options.command == PAUSE)
    return DONE


def _cancel(queue: EntryQueue, command: Message) -> int:
    """Drop the held entries that the command names."""
    found = [] if queue.delays is None else queue.delays.cancel(command)
    for entry in found:
        if queue.dedup is not None:
            queue.dedup.forget(entry.message)
        queue.drop(entry)
    return DONE if found else REFUSED
