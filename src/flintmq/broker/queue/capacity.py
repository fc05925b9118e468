"""Checks whether a queue has room, for several messages at once, or for one without dropping others."""

from mypy_extensions import i64

from flintmq.broker.message import Message
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.entries import EntryQueue
from flintmq.broker.queue.settings import DROP_HEAD


def has_room(queue: Queue, messages: list[Message]) -> bool:
    """Whether the queue would admit all of these messages, if need be by dropping others."""
    if not isinstance(queue, EntryQueue) or queue.settings.overflow == DROP_HEAD or _have_room(queue, messages):
        return True
    queue.catch_up()
    return _have_room(queue, messages)


def has_room_for(queue: Queue, count: i64, body_bytes: i64) -> bool:
    """Whether the queue would admit `count` messages with `body_bytes` bytes in their bodies; it may drop others.

    It is assumed that none of them replaces another.
    """
    if not isinstance(queue, EntryQueue) or queue.settings.overflow == DROP_HEAD:
        return True
    if not queue.exceeds_limits(count, body_bytes):
        return True
    queue.catch_up()
    return not queue.exceeds_limits(count, body_bytes)


def has_free_room(queue: Queue, message: Message) -> bool:
    """Whether the queue would admit a message without dropping others."""
    if not isinstance(queue, EntryQueue) or not queue.is_guarded or _have_room(queue, [message]):
        return True
    queue.catch_up()
    return _have_room(queue, [message])


def _have_room(queue: EntryQueue, messages: list[Message]) -> bool:
    """Whether there is room for all of these messages in addition to those that are ready."""
    count: i64 = 0
    size: i64 = 0
    for message in messages:
        replaced = queue.replaced_by(message)
        if replaced is None:
            count += 1
            size += len(message.body)
        else:
            size += max(0, len(message.body) - len(replaced.message.body))
    return not queue.exceeds_limits(count, size)
