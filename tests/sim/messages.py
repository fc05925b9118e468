"""Messages of a simulation, each with a number of its own, and what is known of the copies of each on the queues."""

from typing import TYPE_CHECKING, Final, Protocol, final

from flintmq.broker.message import Message, Table
from flintmq.gateway.amqp10.codec import CODEC_10
from flintmq.gateway.conversion.lossless import to_091
from flintmq.wire.amqp091.properties import Properties, decode_properties, encode_properties

if TYPE_CHECKING:
    from tests.sim.topology import Line

# What a body begins with, where it is long enough: the message's number, in so many digits.
NUMBER_BYTES: Final = 10


@final
class Sent:
    """A message that was published. `channel` is a number of the channel; numbers on one channel only grow."""

    def __init__(
        self,
        number: int,
        channel: int,
        lines: "tuple[Line, ...]",
        size: int,
        at_ms: int,
        *,
        persistent: bool,
        priority: int = 0,
        ttl_ms: int | None = None,
        delay_ms: int = 0,
        header: str = "",
        mandatory: bool = False,
        is_once: bool = False,
    ) -> None:
        self.number = number
        # Where it stands among what its channel sends: a number that a commit gives anew.
        self.place = number
        self.channel = channel
        self.lines = lines
        self.size = size
        self.at_ms = at_ms
        self.persistent = persistent
        self.priority = priority
        self.ttl_ms = ttl_ms
        self.delay_ms = delay_ms
        self.header = header
        self.mandatory = mandatory
        # Its sender takes up what was under way, so that it is taken exactly once.
        self.is_once = is_once
        self.returned = False
        self.is_in_transaction = False

    def __repr__(self) -> str:
        kept = "persistent" if self.persistent else "transient"
        return (
            f"to {list(self.lines)} on channel {self.channel}, {kept}, {self.size} bytes, priority {self.priority}, "
            f"ttl {self.ttl_ms}, delay {self.delay_ms}"
        )

    @property
    def body(self) -> bytes:
        if self.size < NUMBER_BYTES:
            return b""
        digits = b"%010d" % self.number
        return (digits * (self.size // NUMBER_BYTES + 1))[: self.size]

    def properties(self) -> bytes:
        headers: Table = {}
        if self.header:
            headers["kind"] = self.header
        if self.delay_ms:
            headers["x-delay"] = self.delay_ms
        needs_id = self.size < NUMBER_BYTES or any(line.deduplicates for line in self.lines)
        return encode_properties(
            Properties(
                delivery_mode=2 if self.persistent else 1,
                priority=self.priority or None,
                expiration=None if self.ttl_ms is None else str(self.ttl_ms),
                headers=headers or None,
                message_id=str(self.number) if needs_id else None,
            )
        )


def number_of(properties: bytes, body: bytes) -> int:
    """Which message this is; -1 where it says nothing of the kind."""
    digits = body[:NUMBER_BYTES] if body else (decode_properties(properties).message_id or "").encode()
    return int(digits) if digits.isdigit() else -1


def plain_content(message: Message) -> tuple[int, bytes]:
    """The number of a message on a queue, and its body, whichever protocol it came by."""
    properties, body = message.properties, message.body
    if message.codec is CODEC_10:
        properties, body = to_091(properties, body)
    return number_of(properties, body), body


class Hands(Protocol):
    """Who holds deliveries that are not acknowledged yet."""

    @property
    def may_be_over(self) -> bool:
        """Whether the server may have taken them back without our knowing it."""


def is_whole(body: bytes) -> bool:
    """Whether this is a body as it was sent, whoever sent it."""
    digits = body[:NUMBER_BYTES]
    return not body or (digits.isdigit() and body == (digits * (len(body) // NUMBER_BYTES + 1))[: len(body)])


@final
class Copy:
    """A message on a queue, as far as its clients can know."""

    __slots__ = (
        "doubtful",
        "holder",
        "is_out",
        "is_sure",
        "out_arrived",
        "out_batch",
        "purged",
        "rejected",
        "returns",
        "sent",
        "settled_in",
        "starts",
        "was_delivered",
        "was_sure",
    )

    def __init__(self, sent: Sent) -> None:
        self.sent = sent
        # It has to be there, unless there is a reason why not.
        self.is_sure = False
        # Somebody has had it, in this life of the node or one before.
        self.was_delivered = False
        # At how many starts of the node it was there: somebody may have had it before any of them.
        self.starts = 0
        # The channel in whose hands it is.
        self.holder: Hands | None = None
        # A client has acknowledged or rejected it; the server has heard of that; its batch; or may never hear of it.
        self.is_out = False
        self.out_arrived = False
        self.out_batch: int | None = None
        self.doubtful = False
        # The transaction that settles it, until it is delivered again.
        self.settled_in: object | None = None
        # It was rejected, and so may be among the dead letters.
        self.rejected = False
        # A purge was asked for while it was there, or its queue is deleted.
        self.purged = False
        self.was_sure = False
        # How often it may have been given back.
        self.returns = 0
