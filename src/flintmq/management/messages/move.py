"""Moves selected messages from a queue to other queues according to a plan, in slices, without losing any."""

import re
from time import perf_counter
from typing import Final, final

from flintmq.broker.message import Entry, Message
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.entries import EntryQueue
from flintmq.broker.queue.peek import peek
from flintmq.broker.queue.transfer import Plan, move
from flintmq.management.errors import BadRequest
from flintmq.management.messages.browse import EXAMINED_MAX_BYTES, EXAMINED_MAX_MESSAGES
from flintmq.management.messages.selection import Selection
from flintmq.management.ports import Node
from flintmq.management.slices import Slice

# The size of a step, which is one group of the journal. A page is moved as a whole if time allows, because leaving part
# of it costs as much as reading it.
_STEP_MESSAGES: Final = 128
_STEP_BYTES: Final = 1024 * 1024
# The time to read a page: a step that ends within a page at most doubles the work.
_STEP_SECONDS: Final = 0.002
_PLACE: Final = re.compile(r"(\d{1,18})\.(-1|\d{1,18})\.(\d{1,18})", re.ASCII)


@final
class Moved:
    """The result of a move. `stayed` counts selected messages that could not be moved; `next` is the token to continue
    with, None at the end.
    """

    def __init__(self) -> None:
        self.moved = 0
        self.stayed = 0
        self.next: str | None = None


@final
class _Step:
    """One step of a move: some of the selected messages, none of them at or behind the position `end`."""

    def __init__(self, selection: Selection, plan: Plan, most: int, end: int) -> None:
        self.looked = 0
        self.looked_bytes = 0
        self.asked = 0
        self.unplanned = 0
        self.last = -1
        self._selection = selection
        self._plan = plan
        self._most = most
        self._end = end
        self._bytes = 0
        self._ends = perf_counter() + _STEP_SECONDS

    @property
    def _is_full(self) -> bool:
        return self.asked >= self._most or self._bytes >= _STEP_BYTES or perf_counter() >= self._ends

    def choose(self, entry: Entry) -> tuple[Message, list[Queue]] | None:
        # Each step examines at least one message; otherwise it would be repeated for ever.
        if self.looked > 0 and self._is_full:
            return None
        message = entry.message
        self.looked += 1
        self.looked_bytes += len(message.body)
        self.last = int(entry.position)
        if entry.position >= self._end or not self._selection.has(entry.position, message):
            return None
        self.asked += 1
        self._bytes += len(message.body)
        planned = self._plan(entry)
        self.unplanned += planned is None
        return planned


async def move_chosen(
    queue: EntryQueue, selection: Selection, most: int, plan: Plan, node: Node, token: str = ""
) -> Moved:
    """Move up to `most` selected messages, beginning where `token` says.

    Only messages that are on the queue at the start are examined, so a message that returns, or is moved in a circle,
    is not moved again. The move ends early when an alarm goes on. Raises BadRequest for an invalid token.
    """
    part, after, end = _place_of(token) if token else (0, -1, int(queue.next_seq))
    last = end
    if selection.positions is not None:
        most = min(most, len(selection.positions))
        last = min(end, max(selection.positions, default=-1) + 1)
    moved = Moved()
    chosen = looked = looked_bytes = 0
    now = Slice()
    while chosen < most and not queue.gone:
        if node.alarms or (
            selection.searches and (looked >= EXAMINED_MAX_MESSAGES or looked_bytes >= EXAMINED_MAX_BYTES)
        ):
            moved.next = f"{part}.{after}.{end}"
            return moved
        node.now_ms()
        peeked = peek(queue, part, after)
        if peeked is None:
            return moved
        part = int(peeked.part)
        if peeked.entries[0].position >= last:
            # Later entries of this part are behind the last position, too.
            part, after = part + 1, -1
            continue
        step = _Step(selection, plan, most - chosen if peeked.page else min(_STEP_MESSAGES, most - chosen), last)
        left, refused = move(queue, peeked, step.choose, node.broker.storage.journal)
        chosen += step.asked
        looked += step.looked
        looked_bytes += step.looked_bytes
        moved.moved += left
        moved.stayed += refused + step.unplanned
        after = step.last
        if now.is_over:
            await now.pause()
    if selection.positions is None and not queue.gone:
        moved.next = f"{part}.{after}.{end}"
    return moved


def _place_of(token: str) -> tuple[int, int, int]:
    found = _PLACE.fullmatch(token)
    if found is None:
        raise BadRequest(f"after is the value of next from an answer, not '{token}'")
    part, after, end = map(int, found.groups())
    return part, after, end


def to_queue(target: Queue) -> Plan:
    """A plan that moves messages unchanged to one queue."""

    def plan(entry: Entry) -> tuple[Message, list[Queue]]:
        return entry.message, [target]

    return plan
