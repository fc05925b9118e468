"""A basic.consume subscription: credit by prefetch, and deliveries written into its channel."""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from flintmq.base.errors import InternalError, StorageError
from flintmq.broker.consumer import Consumer
from flintmq.broker.message import Entry
from flintmq.broker.queue.base import Queue

if TYPE_CHECKING:
    from flintmq.gateway.amqp091.channel import ServerChannel


@final
class ChannelConsumer(Consumer):
    """`limit` is the prefetch of this consumer alone, 0 for none; `held` what it holds unacknowledged.

    `prefix` is how its deliveries begin on the wire. `started` is false until its consume-ok is on its way: no
    delivery may come before.
    """

    def __init__(
        self,
        tag: str,
        no_ack: bool,
        exclusive: bool,
        queue: Queue,
        channel: "ServerChannel",
        limit: i64,
        prefix: bytes,
    ) -> None:
        super().__init__(tag, no_ack, exclusive)
        self.queue = queue
        self.limit: i64 = limit
        self.held: i64 = 0
        self.prefix = prefix
        self.started = False
        self._channel = channel

    def can_take(self) -> bool:
        channel = self._channel
        if not self.started or not channel.has_room():
            return False
        if self.no_ack:
            return True
        if self.limit != 0 and self.held >= self.limit:
            return False
        return channel.limit == 0 or channel.held < channel.limit

    def deliver(self, queue: Queue, entry: Entry) -> None:
        self._channel.deliver(self, queue, entry)

    def cancelled(self) -> None:
        self._channel.consumer_cancelled(self)

    def failed(self, error: StorageError) -> None:
        # Not a cancel: that says the queue is gone, and clients would make a new one.
        self._channel.connection.fail(InternalError(str(error)))
