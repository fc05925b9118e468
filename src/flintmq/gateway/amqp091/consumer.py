"""A basic.consume subscription: credit by prefetch, and deliveries written into its channel."""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from flintmq.base.errors import InternalError, StorageError
from flintmq.broker.message import Entry, Message
from flintmq.broker.queue.base import Queue
from flintmq.broker.selector.selectors import Selector
from flintmq.gateway.amqp091.ports import ClientChannel
from flintmq.gateway.amqp091.window import Window
from flintmq.gateway.client_consumer import ClientConsumer

if TYPE_CHECKING:
    from flintmq.gateway.amqp091.deliveries import Deliveries


@final
class ChannelConsumer(ClientConsumer):
    """A consumer of a channel. `window` is its own prefetch limit, beside those of its channel and its connection.

    `prefix` is the encoded beginning of its deliveries. `started` is False until consume-ok was sent, since no delivery
    may precede that. `timeout_ms` limits how long it may hold a delivery, in milliseconds; 0: no limit. With `no_local`
    it gets no messages of the own connection, with a `selector` only those that match.
    """

    def __init__(
        self,
        tag: str,
        no_ack: bool,
        exclusive: bool,
        queue: Queue,
        channel: ClientChannel,
        deliveries: "Deliveries",
        window: Window,
        prefix: bytes,
        priority: i64 = 0,
        timeout_ms: i64 = 0,
        no_local: bool = False,
        selector: Selector | None = None,
    ) -> None:
        super().__init__(tag, no_ack, exclusive, channel.connection.number)
        self.queue = queue
        self.window = window
        self.prefix = prefix
        self.priority = priority
        self.timeout_ms: i64 = timeout_ms
        self.started = False
        self.filter_by(no_local, selector)
        self.channel = channel
        self._deliveries = deliveries
        self.context = deliveries
        self.measure()

    def measure(self) -> None:
        """Find out whether a limit of bytes applies, because one may have been set or lifted."""
        of_channel, of_connection = self._deliveries.window, self.channel.connection.window
        self.has_byte_window = not self.no_ack and (
            self.window.bytes_max != 0 or of_channel.bytes_max != 0 or of_connection.bytes_max != 0
        )

    def start(self) -> None:
        """Start deliveries: the client has been sent consume-ok."""
        self.started = True
        self.queue.touch()

    def can_take(self) -> bool:
        deliveries = self._deliveries
        if not self.started or not deliveries.is_open or not deliveries.has_room():
            return False
        if self.no_ack:
            return True
        return self.window.is_open() and deliveries.window.is_open() and self.channel.connection.window.is_open()

    def is_within_window(self, message: Message) -> bool:
        size = len(message.body)
        of_channel, of_connection = self._deliveries.window, self.channel.connection.window
        return self.window.fits(size) and of_channel.fits(size) and of_connection.fits(size)

    def is_active(self) -> bool:
        return self._deliveries.is_flowing

    def holds_any(self) -> bool:
        return self.window.messages > 0

    def deliver(self, queue: Queue, entry: Entry) -> None:
        self._deliveries.deliver(self, queue, entry)

    def cancelled(self) -> None:
        self.channel.consumer_cancelled(self)

    def failed(self, error: StorageError) -> None:
        # The connection is closed. A cancel would mean that the queue is gone, and clients would declare it again.
        self.channel.connection.fail(InternalError(str(error)))
