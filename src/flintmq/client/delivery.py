"""Messages that came in, and where they wait to be taken."""

from typing import Final, final

from flintmq.base.errors import FlintError
from flintmq.client.waiting import Waitable
from flintmq.wire.amqp091.properties import Properties, decode_properties

# About what a delivery takes beside its body, so that a flood of empty ones counts, too.
_DELIVERY_BYTES: Final = 256


@final
class Delivery:
    """A message and how it came. `encoded_properties` are its properties as they travelled."""

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
        """Decoded when they are first asked for. Raises SyntaxFault when they are malformed."""
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
    """A mandatory message that no queue wanted, and the server's reason."""

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
        return decode_properties(self.encoded_properties)

    def __repr__(self) -> str:
        return (
            f"Returned(reply_code={self.reply_code}, reply_text={self.reply_text!r}, exchange={self.exchange!r}, "
            f"routing_key={self.routing_key!r}, {len(self.body)} bytes)"
        )


@final
class Inbox(Waitable):
    """Deliveries to one consumer that nobody has taken yet. Ready while there are some, and once it has ended."""

    def __init__(self, consumer_tag: str, no_ack: bool) -> None:
        super().__init__()
        self.consumer_tag = consumer_tag
        self.no_ack = no_ack
        self.deliveries: list[Delivery] = []
        # About what these take, while they are here.
        self.held_bytes: int = 0

    def put(self, delivery: Delivery) -> None:
        self.deliveries.append(delivery)
        self.held_bytes += len(delivery.body) + _DELIVERY_BYTES
        if not self.is_ready:
            self.ready()

    def take(self, count: int) -> list[Delivery]:
        """The oldest ones, `count` at most. Raises what ended the subscription when there are no more."""
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
        """All that are left, whatever has happened."""
        left = self.deliveries
        self.deliveries = []
        self.held_bytes = 0
        return left

    def lose(self, error: FlintError) -> None:
        """The channel ended. What would have to be acknowledged will come again, to somebody else."""
        if not self.no_ack:
            self.empty()
        self.fail(error)
