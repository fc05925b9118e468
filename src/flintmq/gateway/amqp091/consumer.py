"""A basic.consume subscription: credit by prefetch, and deliveries written into its channel."""

from abc import ABC, abstractmethod
from typing import final

from mypy_extensions import i64

from flintmq.broker.consumer import Consumer
from flintmq.broker.message import Entry
from flintmq.broker.queue.base import Queue


class Window(ABC):
    """What a channel's consumers share: RabbitMQ's qos with global=true, the flow, and the socket's room.

    `limit` is in messages, 0 for none; `held` is how many the consumers hold unacknowledged.
    """

    def __init__(self) -> None:
        self.limit: i64 = 0
        self.held: i64 = 0

    @abstractmethod
    def has_room(self) -> bool: ...

    @abstractmethod
    def deliver(self, consumer: "ChannelConsumer", queue: Queue, entry: Entry) -> None: ...

    @abstractmethod
    def consumer_cancelled(self, consumer: "ChannelConsumer") -> None: ...


@final
class ChannelConsumer(Consumer):
    """`limit` is the prefetch of this consumer alone, 0 for none; `held` what it holds unacknowledged.

    `prefix` is how its deliveries begin on the wire. `started` is false until its consume-ok is on its way: no
    delivery may come before.
    """

    def __init__(
        self, tag: str, no_ack: bool, exclusive: bool, queue: Queue, window: Window, limit: i64, prefix: bytes
    ) -> None:
        super().__init__(tag, no_ack, exclusive)
        self.queue = queue
        self.limit: i64 = limit
        self.held: i64 = 0
        self.prefix = prefix
        self.started = False
        self._window = window

    def can_take(self) -> bool:
        window = self._window
        if not self.started or not window.has_room():
            return False
        if self.no_ack:
            return True
        if self.limit != 0 and self.held >= self.limit:
            return False
        return window.limit == 0 or window.held < window.limit

    def deliver(self, queue: Queue, entry: Entry) -> None:
        self._window.deliver(self, queue, entry)

    def cancelled(self) -> None:
        self._window.consumer_cancelled(self)
