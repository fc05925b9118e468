"""Messages from one queue to others, as a plan says: chosen, in slices, none lost."""

import re
from time import perf_counter
from typing import Final, final

from flintmq.broker.message import Entry, Message
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.entries import EntryQueue
from flintmq.broker.queue.transfer import Plan, move
from flintmq.management.errors import BadRequest
from flintmq.management.messages.browse import EXAMINED_MAX_BYTES, EXAMINED_MAX_MESSAGES
from flintmq.management.messages.selection import Selection
from flintmq.management.ports import Node
from flintmq.management.slices import Slice

# Messages of one group of the journal, and of one step. A page is taken as a whole, if time allows: to leave some of it
# where it is costs as much as to read it.
_STEP_MESSAGES: Final = 128
_STEP_BYTES: Final = 1024 * 1024
# As long as it takes to read a page: a step that ends within one does no more than twice the work.
_STEP_SECONDS: Final = 0.002
_PLACE: Final = re.compile(r"(\d{1,18})\.(-1|\d{1,18})\.(\d{1,18})", re.ASCII)


@final
class Moved:
    """`stayed` were chosen, and could not go; `next` is where a search goes on that has looked far enough for once."""

    def __init__(self) -> None:
        self.moved = 0
        self.stayed = 0
        self.next: str | None = None


@final
class _Step:
    """What is moved at once: a few of those that are chosen, none of them from `end` on."""

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
        # One at least is looked at: a step that takes none would be repeated for ever.
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
    """Move what is chosen, up to so many, from where `token` says on.

    Only what is there now is looked at: what comes back meanwhile, or is moved in a circle, is not moved again. It ends
    early when an alarm goes on. Raises BadRequest for a token that is none.
    """
    part, after, end = _place_of(token) if token else (0, -1, int(queue.next_position))
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
        look = queue.look(part, after)
        if look is None:
            return moved
        part = int(look.part)
        if look.entries[0].position >= last:
            # Whatever else is in this part came later.
            part, after = part + 1, -1
            continue
        step = _Step(selection, plan, most - chosen if look.page else min(_STEP_MESSAGES, most - chosen), last)
        left, refused = move(queue, look, step.choose, node.broker.storage.journal)
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
        raise BadRequest(f"after '{token}' there is nothing: give what an answer said is next")
    part, after, end = map(int, found.groups())
    return part, after, end


def to_queue(target: Queue) -> Plan:
    """As they are, onto one queue."""

    def plan(entry: Entry) -> tuple[Message, list[Queue]]:
        return entry.message, [target]

    return plan
