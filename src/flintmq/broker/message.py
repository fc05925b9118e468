"""Messages and entries. The broker never parses content itself: the codec that came with a message does."""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i32, i64, mypyc_attr

# A table of headers or arguments. Values are str, bytes, bool, int, float, Decimal, Timestamp, None, and tables and
# lists of these.
Table = dict[str, object]


# A time to live without an end.
FOREVER: Final = -1

# Commands that a message can give to a queue.
PAUSE: Final = "pause"
RESUME: Final = "resume"


# The priority of a message that states none.
UNSTATED: Final = -1
# With at least this many levels, AMQP 1.0 counts priorities from 0, as AMQP 0-9-1 always does.
_TEN_LEVELS: Final = 10


@final
@mypyc_attr(acyclic=True)
class MessageOptions:
    """The options for queues in a message's properties, decoded once for all messages with the same properties.

    `priority` is UNSTATED if the message has none: the queue then chooses the level.

    `ttl_ms` is FOREVER if the message does not expire. `delay_ms` is how long queues hold it back; `until_ms` (Unix
    time) is the moment until which they do. `is_plain` means that none of this is set, and no priority above 0.

    With `is_centred`, 4 is the middle of a queue's priorities, as in AMQP 1.0. Without it, 0 is the lowest priority,
    and a queue takes priorities above its highest level for the highest.

    `cancels` is the message-id of a held-back message that shall not be delivered. A message with it, or with a
    `command` (PAUSE or RESUME), `is_command`: queues obey it and do not store it.

    `hidden_keys` are the routing keys of BCC, which are removed from the stored properties.
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

    def held_until_ms(self, since_ms: i64) -> i64:
        """Until when a message that came at `since_ms` is held (Unix time); a past time if it is not held."""
        return since_ms + self.delay_ms if self.delay_ms > 0 else self.until_ms

    def level(self, highest: i64) -> i64:
        """Return the level of a stated priority on a queue with the levels 0 to `highest`."""
        if self.is_centred and highest < _TEN_LEVELS - 1:
            # amqp-1.0 part 3 §3.2.1: with n levels, the lowest is 5 - ceil(n/2), and lower priorities count as it.
            lowest: i64 = 5 - (highest + 2) // 2
            return min(highest, max(0, self.priority - lowest))
        return min(highest, self.priority)


TRANSIENT: Final = MessageOptions(False)
PERSISTENT: Final = MessageOptions(True)


@mypyc_attr(allow_interpreted_subclasses=True)
class ContentCodec:
    """Decodes parts of encoded content when a feature needs them. There is one codec per wire format.

    `format` is the number that the journal stores with the content, so that it is decoded the same way after a restart.
    `nothing` is the encoding of no properties. `properties_max` is the length that properties may reach when the broker
    or a consumer adds to them, 0 for any: longer ones could not be sent. With `dates_deaths`, deaths in the header
    x-death have a "first-time" and a "last-time", in milliseconds.
    """

    format: int = 0
    nothing: bytes = b""
    properties_max: int = 0
    dates_deaths: bool = False

    @abstractmethod
    def headers(self, properties: bytes) -> Table:
        """Return the application headers, empty if there are none."""

    @abstractmethod
    def property_text(self, properties: bytes, name: str) -> str:
        """Return correlation_id, message_id, user_id, expiration or timestamp as text, or "" if it is not set."""

    @abstractmethod
    def property_value(self, properties: bytes, name: str) -> object:
        """Return a property by its name in AMQP 0-9-1 (content_type, timestamp...), or None if it is not set.

        Properties that only AMQP 1.0 has (to, subject, group_id...) go by their names there.
        """

    def section_value(self, properties: bytes, name: str) -> object:
        """Return a field of the properties section of AMQP 1.0, or "priority"; None if it is not set.

        The value has its type in AMQP 1.0: text, a number, or bytes, also for UUIDs.
        """
        return None

    @abstractmethod
    def options(self, properties: bytes) -> MessageOptions:
        """Return what the properties ask of a queue."""

    @abstractmethod
    def edited(self, properties: bytes, headers: Table, keeps_expiration: bool) -> bytes:
        """Return the properties with these headers only, and without a time to live unless `keeps_expiration`."""

    def annotated(self, properties: bytes, annotations: Table) -> bytes:
        """Return the properties with a consumer's message annotations, which replace those of the same names.

        See message-annotations in amqp-1.0 part 3 §3.4.5.
        """
        return self.edited(properties, {**self.headers(properties), **annotations}, True)

    def failed(self, properties: bytes, times: int) -> bytes:
        """Return the properties with a count of failed deliveries, if the format has a field for it."""
        return properties


@final
@mypyc_attr(acyclic=True)
class Address:
    """An exchange and a routing key, shared by all messages sent there.

    `encoded` belongs to the gateway: the pair in its wire format, encoded once.
    """

    def __init__(self, exchange: str, routing_key: str, encoded: bytes = b"") -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.encoded = encoded


@final
@mypyc_attr(acyclic=True)
class Message:
    """A published message: immutable, and shared by all queues that have it.

    `properties` and `body` are the publisher's bytes, in the format of `codec`. `timestamp_ms` is when the broker
    received it (Unix time in ms). `origin` is the number of the publisher's connection, 0 if unknown.
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


# The states of an entry. Only READY entries may be taken from a queue's store.
READY: Final = 0
ACQUIRED: Final = 1
# Removed from the middle of a store, which notices when it reaches the entry.
REMOVED: Final = 2
# Acquired, and returned because no frame can hold it: its queue gives it up.
UNSENDABLE: Final = 3


@final
@mypyc_attr(acyclic=True)
class Entry:
    """A message on one queue, with its place and delivery history.

    `seq` grows by one per entry of a queue and is never reused; `position` is the number that orders ready entries.
    `segment` is the journal segment that holds the entry, 0 while it is in memory only; `slot`, the place in the
    segment, belongs to the journal. `expires_ms` is when the entry expires (Unix time in ms), 0 for never. `returns`
    counts known returns from consumers that failed with it (see settlement.py). `avoid` is the consumer that rejected
    the entry last, while the entry is on its queue: another consumer gets it if there is one.
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
