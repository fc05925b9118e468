"""Browsing of a queue or stream: reads messages without taking them, in slices."""

import re
from collections.abc import Iterator
from typing import Any, Final, final

from flintmq.broker.message import Message
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.entries import EntryQueue
from flintmq.broker.queue.peek import peek
from flintmq.broker.queue.stream import StreamQueue
from flintmq.management.errors import BadRequest
from flintmq.management.messages.representation import in_091, payload_in_slices, properties_shown
from flintmq.management.messages.selection import Selection
from flintmq.management.slices import Slice

# One request examines at most so many messages and bytes; its answer says where the next one continues.
EXAMINED_MAX_MESSAGES: Final = 200_000
EXAMINED_MAX_BYTES: Final = 256 * 1024 * 1024
SHOWN_MAX_MESSAGES: Final = 500
SHOWN_MAX_BYTES: Final = 4 * 1024 * 1024
_AHEAD_BYTES: Final = 64 * 1024
_BEGIN: Final = (0, -1)
# Two numbers of at most 18 digits, which fit into 64 bits.
_PLACE: Final = re.compile(r"(\d{1,18})\.(\d{1,18})", re.ASCII)

PagePosition = tuple[int, int]


@final
class BrowsedMessage:
    """A message with its position; `place` is where browsing continues behind it."""

    def __init__(self, place: PagePosition, position: int, message: Message, redelivered: bool, returns: int) -> None:
        self.place = place
        self.position = position
        self.message = message
        self.redelivered = redelivered
        self.returns = returns

    async def facts(self, truncate: int) -> dict[str, object]:
        properties, body = in_091(self.message)
        return {
            "position": self.position,
            "exchange": self.message.address.exchange,
            "routing_key": self.message.address.routing_key,
            "redelivered": self.redelivered,
            "delivery_count": self.returns,
            "received_ms": int(self.message.timestamp_ms),
            "properties": properties_shown(properties),
            **await payload_in_slices(body, "auto", truncate),
        }


def position_after(token: str) -> PagePosition:
    """Decode the token with which an answer said where to continue. Raises BadRequest."""
    if not token:
        return _BEGIN
    found = _PLACE.fullmatch(token)
    if found is None:
        raise BadRequest(f"after is the value of next from an answer, not '{token}'")
    return int(found[1]), int(found[2])


def _walk(queue: Queue, place: PagePosition) -> Iterator[BrowsedMessage]:
    if isinstance(queue, StreamQueue):
        yield from _walk_stream(queue, place)
    elif isinstance(queue, EntryQueue):
        part, after = place
        while (peeked := peek(queue, part, after)) is not None:
            part = int(peeked.part)
            for entry in peeked.entries:
                # The entry may change between two slices; it is shown as it was when it was read.
                after = int(entry.position)
                yield BrowsedMessage((part, after), after, entry.message, entry.redelivered, int(entry.returns))


def _walk_stream(stream: StreamQueue, place: PagePosition) -> Iterator[BrowsedMessage]:
    cursor = stream.log.cursor(max(place[1] + 1, stream.log.first_offset), _AHEAD_BYTES)
    end = stream.log.durable_offset
    while (message := cursor.next(end)) is not None:
        offset = int(cursor.offset) - 1
        yield BrowsedMessage((0, offset), offset, message, False, 0)


async def browse(queue: Queue, token: str, selection: Selection, count: int, truncate: int) -> dict[str, Any]:
    """Read a page of messages. `next` is the token to continue with, None at the end; `looked` is the number of
    examined messages.
    """
    shown: list[dict[str, object]] = []
    looked = looked_bytes = shown_bytes = 0
    now = Slice()
    following: str | None = None
    for seen in _walk(queue, position_after(token)):
        looked += 1
        looked_bytes += len(seen.message.body)
        if selection.has(seen.position, seen.message):
            facts = await seen.facts(truncate)
            # `facts` uses slices of its own.
            now.waited()
            shown_bytes += min(len(seen.message.body), truncate)
            shown.append(facts)
        is_enough = len(shown) >= count or shown_bytes >= SHOWN_MAX_BYTES
        if is_enough or looked >= EXAMINED_MAX_MESSAGES or looked_bytes >= EXAMINED_MAX_BYTES:
            following = f"{seen.place[0]}.{seen.place[1]}"
            break
        if now.is_over:
            await now.pause()
            if queue.gone:
                break
    return {"messages": shown, "next": following, "looked": looked}
