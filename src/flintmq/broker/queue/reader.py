"""The reader of a stream: its position, its filter, and how far its consumer has acknowledged."""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from flintmq.base.limits import MESSAGE_WORK_UNITS
from flintmq.base.values import Timestamp
from flintmq.base.work import WORK
from flintmq.broker.arguments import age_ms
from flintmq.broker.fields import headers_of
from flintmq.broker.message import Message, Table
from flintmq.broker.ports import StreamCursor, StreamLog
from flintmq.broker.queue.base import Consumer

# The header with the filter value of a message, which its publisher sets (RabbitMQ).
FILTER_HEADER: Final = "x-stream-filter-value"
_ENCODED_HEADER: Final = FILTER_HEADER.encode()
_NOT_PINNED: Final = 2**62
# A time after all others.
_FOREVER_MS: Final = 2**62
# With more values, searching for their bytes takes longer than filtering each message.
_OCCURRING_MAX: Final = 8


@final
class StreamFilter:
    """Matches messages with one of these filter values; with `match_unfiltered`, also those without a value."""

    def __init__(self, values: frozenset[str], match_unfiltered: bool) -> None:
        self._values = values
        self._match_unfiltered = match_unfiltered
        # The last properties and answer: messages of one publisher often share the same properties object.
        self._properties = b""
        self._answer = False

    @property
    def occurring(self) -> list[bytes]:
        """Byte strings, one of which occurs in every message that matches; empty if there are none, or too many."""
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
        # Searching for the name of the header is much cheaper than decoding the table.
        if _ENCODED_HEADER not in message.properties:
            return self._match_unfiltered
        value = headers_of(message).get(FILTER_HEADER)
        # An empty value counts as none (RabbitMQ).
        return value in self._values if isinstance(value, str) and value else self._match_unfiltered


def stream_filter(arguments: Table) -> StreamFilter | None:
    """The filter that a consumer's arguments, which have been checked, ask for; None if they ask for none."""
    wanted = arguments.get("x-stream-filter")
    if wanted is None:
        return None
    values = wanted if isinstance(wanted, list) else [wanted]
    return StreamFilter(
        frozenset(value for value in values if isinstance(value, str)),
        arguments.get("x-stream-match-unfiltered") is True,
    )


def start_offset(log: StreamLog, wanted: object, now_ms: i64) -> tuple[int, int]:
    """The offset to begin at, and the time before which messages there are skipped (Unix time in ms; 0: none).

    `wanted` is a checked value of x-stream-offset.
    """
    if wanted == "first":
        return log.first_offset, 0
    if wanted == "last":
        return max(log.next_offset - 1, log.first_offset), 0
    if wanted == "next":
        return log.next_offset, 0
    if isinstance(wanted, int):
        return min(max(wanted, log.first_offset), log.next_offset), 0
    if isinstance(wanted, Timestamp):
        since_ms = min(wanted.seconds * 1000, _FOREVER_MS)
    else:
        assert isinstance(wanted, str)
        since_ms = max(int(now_ms) - age_ms(wanted), 0)
    return log.offset_near(since_ms), since_ms


@final
class Reader:
    """A reader of a stream. `number` is unique among the readers of its stream.

    Among readers with the same `group` one `is_active`, and the next takes over when it ends. `name` is the key under
    which the storage keeps its place; empty: its client keeps the place. It gets no messages that were received before
    `since_ms` (Unix time).
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
        # Whether it was unsubscribed, perhaps by another consumer's failure in the same dispatch.
        self.ended = False
        # The message before the cursor, if it waits for room in the consumer's byte window.
        self.held: Message | None = None
        # Whether acknowledgements are tracked, and whether its place may have moved since it was stored.
        self.tracks = False
        self.is_unkept = False
        # The outstanding offsets in order, and those of them that were acknowledged before older ones.
        self._outstanding: deque[i64] = deque()
        self._settled: set[i64] = set()
        # The first offset that was returned: acknowledgements behind it no longer count.
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

    def returned(self, offset: i64) -> None:
        self._pinned = min(self._pinned, offset)
        while self._outstanding and self._outstanding[-1] >= offset:
            self._settled.discard(self._outstanding.pop())

    @property
    def place(self) -> i64:
        """The offset before which all messages are acknowledged, or were not wanted."""
        if self._outstanding:
            return self._outstanding[0]
        if self._pinned != _NOT_PINNED:
            return self._pinned
        return self.cursor.offset - 1 if self.held is not None else self.cursor.offset
