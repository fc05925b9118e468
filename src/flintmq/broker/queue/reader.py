"""A consumer of a stream: where it is, what it wants, and how far it has acknowledged."""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from flintmq.base.limits import MESSAGE_WORK_UNITS
from flintmq.base.work import WORK
from flintmq.broker.fields import headers_of
from flintmq.broker.message import Message, Table
from flintmq.broker.ports import StreamCursor
from flintmq.broker.queue.consumer import Consumer

# The header that publishers set, by which consumers choose (RabbitMQ).
FILTER_HEADER: Final = "x-stream-filter-value"
_ENCODED_HEADER: Final = FILTER_HEADER.encode()
_NOT_PINNED: Final = 2**62
# Looking for more of them takes longer than asking each message.
_OCCURRING_MAX: Final = 8


@final
class StreamFilter:
    """Messages with one of these filter values, and those without one where `match_unfiltered` says so."""

    def __init__(self, values: frozenset[str], match_unfiltered: bool) -> None:
        self._values = values
        self._match_unfiltered = match_unfiltered
        # The last answer: messages of one publisher often have the same properties, and then the same object.
        self._properties = b""
        self._answer = False

    @property
    def occurring(self) -> list[bytes]:
        """Bytes one of which occurs in every message that matches; none where that cannot be said, or tells little."""
        if self._match_unfiltered or len(self._values) > _OCCURRING_MAX:
            return []
        return [value.encode(errors="surrogatepass") for value in sorted(self._values)]

    def matches(self, message: Message) -> bool:
        properties = message.properties
        if properties is not self._properties:
            self._answer = self._ask(message)
            self._properties = properties
        return self._answer

    def _ask(self, message: Message) -> bool:
        # A search that finds nothing is cheaper by far than decoding a table.
        if _ENCODED_HEADER not in message.properties:
            return self._match_unfiltered
        value = headers_of(message).get(FILTER_HEADER)
        # An empty one is none (RabbitMQ).
        return value in self._values if isinstance(value, str) and value else self._match_unfiltered


def stream_filter(arguments: Table) -> StreamFilter | None:
    """What a consumer's arguments ask for, which have been checked."""
    wanted = arguments.get("x-stream-filter")
    if wanted is None:
        return None
    values = wanted if isinstance(wanted, list) else [wanted]
    return StreamFilter(
        frozenset(value for value in values if isinstance(value, str)),
        arguments.get("x-stream-match-unfiltered") is True,
    )


@final
class Reader:
    """`number` tells it from all others of its stream. Those with the same `group` take turns: one `is_active`, the
    others follow it. `name` is what its place is kept under; empty for one that keeps it itself. It gets nothing that
    was received before `since_ms`.
    """

    def __init__(
        self, number: int, consumer: Consumer, cursor: StreamCursor, wanted: StreamFilter | None, since_ms: i64
    ) -> None:
        self.number: i64 = number
        self.consumer = consumer
        self.cursor = cursor
        self.wanted = wanted
        self.since_ms: i64 = since_ms
        self.group: str | None = None
        self.name = ""
        self.is_active = True
        # Unsubscribed, perhaps by what happened to another one in the same round.
        self.ended = False
        # Read, and waiting for room in its consumer's window of bytes: the message before the cursor.
        self.held: Message | None = None
        # Whether what it acknowledges is noted, and whether it may have moved since its place was kept.
        self.tracks = False
        self.is_unkept = False
        # Offsets it has, in order, and those of them that it acknowledged before others.
        self._outstanding: deque[i64] = deque()
        self._settled: set[i64] = set()
        # The first offset that it gave back: what it acknowledges behind that does not count any more.
        self._pinned: i64 = _NOT_PINNED

    def wants(self, message: Message) -> bool:
        if self.since_ms != 0:
            if message.timestamp_ms < self.since_ms:
                return False
            self.since_ms = 0
        consumer = self.consumer
        before = WORK.begin(MESSAGE_WORK_UNITS)
        try:
            return (self.wanted is None or self.wanted.matches(message)) and (
                not consumer.is_filtered or consumer.matches(message)
            )
        finally:
            WORK.end(before)

    # -- acknowledgements, where they are noted -----------------------------------------------------------------

    def delivered(self, offset: i64) -> None:
        if self._pinned == _NOT_PINNED:
            self._outstanding.append(offset)

    def settled(self, offset: i64) -> None:
        outstanding = self._outstanding
        if not outstanding or offset >= self._pinned:
            return
        self.is_unkept = True
        if outstanding[0] != offset:
            self._settled.add(offset)
            return
        outstanding.popleft()
        while outstanding and outstanding[0] in self._settled:
            self._settled.remove(outstanding.popleft())

    def given_back(self, offset: i64) -> None:
        self._pinned = min(self._pinned, offset)
        while self._outstanding and self._outstanding[-1] >= offset:
            self._settled.discard(self._outstanding.pop())

    @property
    def place(self) -> i64:
        """Everything before this offset is acknowledged, or was not wanted."""
        if self._outstanding:
            return self._outstanding[0]
        if self._pinned != _NOT_PINNED:
            return self._pinned
        return self.cursor.offset - 1 if self.held is not None else self.cursor.offset
