"""Messages that the server delivered or returned, and the inbox where they wait to be taken."""

from typing import Final, final

from flintmq.base.errors import FlintError
from flintmq.client.waitable import Waitable
from flintmq.wire.amqp091.properties import Properties, decode_properties

# The memory of a delivery without its body, about: with it, many deliveries with empty bodies are limited, too.
_DELIVERY_BYTES: Final = 256


@final
class Delivery:
    """A delivered message.

    Attributes:
        delivery_tag: The number by which the channel settles it.
        redelivered: Whether it may have been delivered before.
        exchange: The exchange to which it was published.
        routing_key: The routing key with which it was published.
        encoded_properties: Its properties, as the server sent them.
        body: Its content.
    """

    def __init__(
        self,
        delivery_tag: int,
        redelivered: bool,
        exchange: str,
        routing_key: str,
        encoded_properties: bytes,
        body: bytes,
    ) -> None:
        self.delivery_tag = delivery_tag
        self.redelivered = redelivered
        self.exchange = exchange
        self.routing_key = routing_key
        self.encoded_properties = encoded_properties
        self.body = body
        self._properties: Properties | None = None

    @property
    def properties(self) -> Properties:
        """The decoded properties. Raises SyntaxFault if they are malformed."""
        properties = self._properties
        if properties is None:
            properties = decode_properties(self.encoded_properties)
            self._properties = properties
        return properties

    def __repr__(self) -> str:
        return (
            f"Delivery(delivery_tag={self.delivery_tag}, redelivered={self.redelivered}, exchange={self.exchange!r}, "
            f"routing_key={self.routing_key!r}, {len(self.body)} bytes)"
        )


@final
class Returned:
    """A mandatory message that matched no queue.

    Attributes:
        reply_code: The server's reason as a number, such as 312.
        reply_text: The server's reason as a text, such as "NO_ROUTE".
        exchange: The exchange to which it was published.
        routing_key: The routing key with which it was published.
        encoded_properties: Its properties, as the server sent them.
        body: Its content.
    """

    def __init__(
        self,
        reply_code: int,
        reply_text: str,
        exchange: str,
        routing_key: str,
        encoded_properties: bytes,
        body: bytes,
    ) -> None:
        self.reply_code = reply_code
        self.reply_text = reply_text
        self.exchange = exchange
        self.routing_key = routing_key
        self.encoded_properties = encoded_properties
        self.body = body

    @property
    def properties(self) -> Properties:
        """The decoded properties. Raises SyntaxFault if they are malformed."""
        return decode_properties(self.encoded_properties)

    def __repr__(self) -> str:
        return (
            f"Returned(reply_code={self.reply_code}, reply_text={self.reply_text!r}, exchange={self.exchange!r}, "
            f"routing_key={self.routing_key!r}, {len(self.body)} bytes)"
        )


@final
class Inbox(Waitable):
    """Deliveries to one consumer that were not taken yet. Ready while there are some, and when the subscription has
    ended.
    """

    def __init__(self, consumer_tag: str, no_ack: bool) -> None:
        super().__init__()
        self.consumer_tag = consumer_tag
        self.no_ack = no_ack
        self.deliveries: list[Delivery] = []
        # The memory of the deliveries, about.
        self.held_bytes: int = 0

    def put(self, delivery: Delivery) -> None:
        self.deliveries.append(delivery)
        self.held_bytes += len(delivery.body) + _DELIVERY_BYTES
        if not self.is_ready:
            self.ready()

    def take(self, count: int) -> list[Delivery]:
        """Remove the oldest deliveries, up to `count`. If there are none, raises what ended the subscription."""
        taken = self.deliveries
        if not taken:
            self.check()
        if len(taken) > count:
            self.deliveries = taken[count:]
            taken = taken[:count]
        else:
            self.deliveries = []
            if self.error is None:
                self.unready()
        for delivery in taken:
            self.held_bytes -= len(delivery.body) + _DELIVERY_BYTES
        return taken

    def empty(self) -> list[Delivery]:
        """Remove all deliveries, and return them."""
        left = self.deliveries
        self.deliveries = []
        self.held_bytes = 0
        return left

    def lose(self, error: FlintError) -> None:
        """End the subscription with its channel. Deliveries that need an acknowledgement are dropped: the server
        requeues them.
        """
        if not self.no_ack:
            self.empty()
        self.fail(error)
