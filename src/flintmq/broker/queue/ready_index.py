"""Indexes of ready entries: an entry has one slot, which is in one index for each order of searching."""

from abc import abstractmethod
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from flintmq.broker.message import Entry
from flintmq.broker.queue.base import Consumer
from flintmq.broker.queue.round_robin import RoundRobin

if TYPE_CHECKING:
    from flintmq.broker.queue.groups import Group

# An index is tidied at twice the number of slots that it had when it was last tidied, plus this many.
_STALE_ITEMS_MAX: Final = 1024


@final
class Slot:
    """The slot of a ready entry. `rank` is its negated priority: the lowest goes first.

    `home` is the index of the consumers that it matches. `offer` is the index in which it is offered now; None while it
    has to wait for others of its group. `is_here` is False once the entry was taken or removed.
    """

    def __init__(self, entry: Entry, rank: i64, home: "OfferIndex", group: "Group | None") -> None:
        self.entry = entry
        self.rank: i64 = rank
        self.home = home
        self.group = group
        self.offer: OfferIndex | None = None
        self.is_here = True


class ReadyIndex:
    """A heap of slots by rank and position. A slot that has left is removed when it comes to the front."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, Slot]] = []
        # A counter that breaks ties: a slot that left and came back is in the heap twice.
        self._pushed = 0
        self._tidy_at: i64 = _STALE_ITEMS_MAX

    @abstractmethod
    def holds(self, slot: Slot) -> bool:
        """Whether a slot that was pushed still belongs to this index."""

    def push(self, slot: Slot, rank: i64) -> None:
        heap = self._heap
        self._pushed += 1
        heappush(heap, (int(rank), int(slot.entry.position), self._pushed, slot))
        if len(heap) > self._tidy_at:
            kept = {id(item[3]): item for item in heap if self.holds(item[3])}
            self._heap = list(kept.values())
            heapify(self._heap)
            self._tidy_at = 2 * len(kept) + _STALE_ITEMS_MAX

    def shed(self, most: int) -> int:
        """Forget `most` items, at least one, or all if there are fewer: the queue is deleted. Returns how many."""
        before = len(self._heap)
        del self._heap[-most:]
        return before - len(self._heap)

    def first(self) -> Slot | None:
        heap = self._heap
        while heap:
            slot = heap[0][3]
            if self.holds(slot):
                return slot
            heappop(heap)
        return None


@final
class DropIndex(ReadyIndex):
    """Slots in the order in which a full queue drops their entries; they stay until their entries leave the queue."""

    def holds(self, slot: Slot) -> bool:
        return slot.is_here


@final
class OfferIndex(ReadyIndex):
    """Slots of entries that match the same consumers: `members` are the filtered ones of these, in order of arrival.

    `size` is the number of slots whose home it is. `round_robin` is that of these consumers as of `version`.
    """

    def __init__(self, members: tuple[Consumer, ...]) -> None:
        super().__init__()
        self.members = members
        self.size: i64 = 0
        self.round_robin = RoundRobin([])
        self.version: i64 = 0

    def holds(self, slot: Slot) -> bool:
        return slot.offer is self

    def matches(self, consumer: Consumer) -> bool:
        return not consumer.is_filtered or consumer in self.members
