"""A message as the broker sees it. The broker never looks into the bytes: it asks the codec that came with them."""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i32, i64, mypyc_attr

# What a table of headers or arguments can hold: str, bytes, bool, int, float, Decimal, Timestamp, None, nested
# tables and lists of these.
Table = dict[str, object]


# A time to live that never ends.
FOREVER: Final = -1

# What a message can tell a queue to do.
PAUSE: Final = "pause"
RESUME: Final = "resume"


# The priority of a message that states none.
UNSTATED: Final = -1
# From so many levels on, AMQP 1.0 counts priorities from 0, as AMQP 0-9-1 always does.
_TEN_LEVELS: Final = 10


@final
@mypyc_attr(acyclic=True)
class MessageOptions:
    """What a message's properties ask of a queue, decoded once for all messages with the same properties.

    `priority` is UNSTATED where the message has none: which level that is the queue says.

    `ttl_ms` is FOREVER where the message does not expire. `delay_ms` is how long queues hold it back; with `until_ms`
    (Unix time) they do so up to that moment instead. `is_plain` says that none of this is asked for, and no priority
    above 0.

    With `is_centred`, 4 is the priority in the middle of those that a queue tells apart, as AMQP 1.0 has it; without, 0
    is the lowest, and a queue with few of them takes all others for its highest.

    `cancels` is the message-id of one that is held back and shall not be delivered; a message that says so `is_command`
    to the queues it goes to, and is not put on them. So is one with a `command`: PAUSE or RESUME.

    `hidden_keys` are the routing keys of BCC, which are not in the properties any more that queues keep.
    """

    def __init__(
        self,
        persistent: bool,
        priority: i64 = UNSTATED,
        ttl_ms: i64 = FOREVER,
        delay_ms: i64 = 0,
        until_ms: i64 = 0,
        cancels: str = "",
        command: str = "",
    ) -> None:
        self.persistent = persistent
        self.priority: i64 = priority
        self.ttl_ms: i64 = ttl_ms
        self.delay_ms: i64 = delay_ms
        self.until_ms: i64 = until_ms
        self.cancels = cancels
        self.command = command
        self.is_command = cancels != "" or command != ""
        self.hidden_keys: list[str] | None = None
        self.is_centred = False
        self.is_plain = priority <= 0 and ttl_ms == FOREVER and delay_ms == 0 and until_ms == 0

    def level(self, highest: i64) -> i64:
        """A stated priority, as far as a queue whose levels are 0 to `highest` tells priorities apart."""
        if self.is_centred and highest < _TEN_LEVELS - 1:
            # amqp-1.0 part 3 §3.2.1: with n levels, the lowest is 5 - ceil(n/2), and all below are one with it.
            lowest: i64 = 5 - (highest + 2) // 2
            return min(highest, max(0, self.priority - lowest))
        return min(highest, self.priority)


TRANSIENT: Final = MessageOptions(False)
PERSISTENT: Final = MessageOptions(True)


@mypyc_attr(allow_interpreted_subclasses=True)
class ContentCodec:
    """Reads features out of encoded content, only when a feature needs them. One per wire format.

    `format` is the number the journal keeps beside the content, so that it is decoded the same way after a restart.
    `nothing` are properties that say nothing. `properties_max` is how long they may become by what the broker or a
    consumer adds, 0 for any length: longer ones could be sent to nobody. With `dates_deaths`, deaths in the header
    x-death have a "first-time" and a "last-time", in milliseconds.
    """

    format: int = 0
    nothing: bytes = b""
    properties_max: int = 0
    dates_deaths: bool = False

    @abstractmethod
    def headers(self, properties: bytes) -> Table:
        """The application headers; empty when there are none."""

    @abstractmethod
    def property_text(self, properties: bytes, name: str) -> str:
        """The property correlation_id, message_id, user_id, expiration or timestamp as text; empty without it."""

    @abstractmethod
    def property_value(self, properties: bytes, name: str) -> object:
        """The property that AMQP 0-9-1 calls by this name (content_type, timestamp...); None when there is none.

        Those that only AMQP 1.0 has (to, subject, group_id...) have the names they have there.
        """

    def section_value(self, properties: bytes, name: str) -> object:
        """The field of the properties section that AMQP 1.0 calls by this name, or "priority"; None without it.

        It has the type that it has there: text, a number, or bytes, which stand for UUIDs, too.
        """
        return None

    @abstractmethod
    def options(self, properties: bytes) -> MessageOptions:
        """What the properties ask of a queue."""

    @abstractmethod
    def edited(self, properties: bytes, headers: Table, keeps_expiration: bool) -> bytes:
        """The same properties with these headers and no others, and perhaps without a time to live."""

    def annotated(self, properties: bytes, annotations: Table) -> bytes:
        """The same properties with what a consumer says of the message, in place of what they say under these names.

        (amqp-1.0 §3.4.5 message-annotations)
        """
        return self.edited(properties, {**self.headers(properties), **annotations}, True)

    def failed(self, properties: bytes, times: int) -> bytes:
        """The same properties where the message was delivered in vain so often, if they have a place to say so."""
        return properties


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
    broker received it (Unix time). `origin` is the number of the connection it came by, 0 where that is not known.
    """

    def __init__(
        self,
        address: Address,
        codec: ContentCodec,
        properties: bytes,
        body: bytes,
        options: MessageOptions,
        timestamp_ms: i64,
        origin: i64 = 0,
    ) -> None:
        self.address = address
        self.codec = codec
        self.properties = properties
        self.body = body
        self.options = options
        self.timestamp_ms: i64 = timestamp_ms
        self.origin: i64 = origin


# Where an entry is. Only those that are ready may be taken from a queue's store.
READY: Final = 0
ACQUIRED: Final = 1
# Taken out from the middle of a store, which will notice when it comes to it.
REMOVED: Final = 2
# Acquired, and given back by its consumer because no frame can hold it: its queue gives it up.
UNSENDABLE: Final = 3


@final
@mypyc_attr(acyclic=True)
class Entry:
    """A message on one queue: its place there and what happened to it.

    `seq` grows by one per entry of a queue and is never reused; `position` is a number of the same kind, by which ready
    entries are in order. `segment` is the journal segment that holds it, 0
    while it is in memory only; `slot`, its place there, is the journal's own. `expires_ms` is when it does (Unix
    time), 0 for never. `returns` counts how often it came back from a consumer that had failed with it, as far as is
    known (see settlement.py). `avoid` is the consumer that rejected it last, while it waits on its queue: another one
    gets it if there is one.
    """

    def __init__(self, message: Message, seq: i64) -> None:
        self.message = message
        self.seq: i64 = seq
        self.position: i64 = seq
        self.segment: i64 = 0
        self.slot: i64 = 0
        self.expires_ms: i64 = 0
        self.returns: i32 = 0
        self.redelivered = False
        self.state: i32 = READY
        self.avoid: object | None = None
