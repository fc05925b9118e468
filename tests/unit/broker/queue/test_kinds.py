"""Kinds of queues, as code that is not compiled tells them apart."""

from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.queue.entries import EntryQueue
from flintmq.broker.queue.stream import StreamQueue


def test_a_class_is_told_from_others_whatever_was_asked_before() -> None:
    """An answer about one class is none about another, in the compiled build too."""
    asked = [
        *[(ClassicQueue, base) for base in (StreamQueue, Queue, EntryQueue, StreamQueue)],
        *[(StreamQueue, base) for base in (Queue, EntryQueue, StreamQueue)],
    ]
    assert [issubclass(kind, base) for kind, base in asked] == [False, True, True, False, True, False, True]
