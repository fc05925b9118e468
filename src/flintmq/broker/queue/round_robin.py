"""The round robin of the consumers of a queue: they take turns, those of the highest priority first."""

from typing import final

from mypy_extensions import i64

from flintmq.broker.message import Message
from flintmq.broker.queue.base import Consumer


@final
class RoundRobin:
    """Turns among `consumers`, which are sorted by priority, the highest first. Call `rank` after changing the list."""

    def __init__(self, consumers: list[Consumer]) -> None:
        self.consumers = consumers
        self._is_ranked = False
        self._turn: i64 = 0
        self.rank()

    def rank(self) -> None:
        consumers = self.consumers
        self._is_ranked = len(consumers) > 1 and consumers[0].priority != consumers[-1].priority

    def next_consumer(self, message: Message, avoid: object | None) -> Consumer | None:
        """The next consumer in turn that can take a message; `avoid` only if no other of its priority can."""
        consumers = self.consumers
        count: i64 = len(consumers)
        if not self._is_ranked:
            return self._next_of(0, count, message, avoid)
        start: i64 = 0
        while start < count:
            end = start + 1
            priority = consumers[start].priority
            while end < count and consumers[end].priority == priority:
                end += 1
            found = self._next_of(start, end, message, avoid)
            if found is not None:
                return found
            start = end
        return None

    def _next_of(self, start: i64, end: i64, message: Message, avoid: object | None) -> Consumer | None:
        consumers = self.consumers
        last: Consumer | None = None
        tried: i64 = 0
        count = end - start
        while tried < count:
            if self._turn < start or self._turn >= end:
                self._turn = start
            consumer = consumers[self._turn]
            self._turn += 1
            tried += 1
            if consumer.can_take() and (not consumer.has_byte_window or consumer.is_within_window(message)):
                if consumer is not avoid:
                    return consumer
                last = consumer
        return last
