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
    """`window` is what this consumer alone may hold unacknowledged; its channel and its connection have theirs.

    `prefix` is how its deliveries begin on the wire. `started` is false until its consume-ok is on its way: no
    delivery may come before. `timeout_ms` is how long it may hold a delivery, 0 for ever. With `no_local`, what came
    by the same connection is not for it; nor is, with a `selector`, what that does not match.
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
        """A limit of bytes may have come, or gone."""
        of_channel, of_connection = self._deliveries.window, self.channel.connection.window
        self.has_byte_window = not self.no_ack and (
            self.window.bytes_max != 0 or of_channel.bytes_max != 0 or of_connection.bytes_max != 0
        )

    def start(self) -> None:
        """The client knows of it from now on."""
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
        # Not a cancel: that says the queue is gone, and clients would make a new one.
        self.channel.connection.fail(InternalError(str(error)))
