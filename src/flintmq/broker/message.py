"""A message as the broker sees it. The broker never looks into the bytes: it asks the codec that came with them."""

from abc import ABC, abstractmethod
from typing import final

from mypy_extensions import i64, mypyc_attr

# What a table of headers or arguments can hold: str, bytes, bool, int, float, Decimal, Timestamp, None, nested
# tables and lists of these.
Table = dict[str, object]


@mypyc_attr(allow_interpreted_subclasses=True)
class ContentCodec(ABC):
    """Reads features out of encoded content, only when a feature needs them. One per wire format.

    `format` is the number the journal keeps beside the content, so that it is decoded the same way after a restart.
    """

    format: int = 0

    @abstractmethod
    def headers(self, properties: bytes) -> Table:
        """The application headers; empty when there are none."""

    @abstractmethod
    def property_text(self, properties: bytes, name: str) -> str:
        """The property "correlation_id", "message_id" or "timestamp" as text; empty when there is none."""


@final
@mypyc_attr(acyclic=True)
class Address:
    """An exchange and a routing key, shared by all messages sent there.

    `encoded` belongs to the gateway: the pair as its wire format writes it, made once.
    """

    def __init__(self, exchange: str, routing_key: str, encoded: bytes = b"") -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.encoded = encoded


@final
@mypyc_attr(acyclic=True)
class Message:
    """What was published: immutable, and shared by all queues it went to.

    `properties` and `body` are the publisher's bytes, in the format `codec` understands. `timestamp_ms` is when the
    broker received it (Unix time).
    """

    def __init__(
        self,
        address: Address,
        codec: ContentCodec,
        properties: bytes,
        body: bytes,
        persistent: bool,
        timestamp_ms: i64,
    ) -> None:
        self.address = address
        self.codec = codec
        self.properties = properties
        self.body = body
        self.persistent = persistent
        self.timestamp_ms: i64 = timestamp_ms


@final
@mypyc_attr(acyclic=True)
class Entry:
    """A message on one queue: its place there and what happened to it.

    `seq` grows by one per entry of a queue and is never reused. `segment` is the journal segment that holds it, 0
    while it is in memory only; `slot`, its place there, is the journal's own.
    """

    def __init__(self, message: Message, seq: i64) -> None:
        self.message = message
        self.seq: i64 = seq
        self.segment: i64 = 0
        self.slot: i64 = 0
        self.redelivered = False
