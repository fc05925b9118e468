"""Indexes of ready entries: an entry has one slot, which is in as many indexes as there are orders to find it by."""

from abc import abstractmethod
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from flintmq.broker.message import Entry
from flintmq.broker.queue.consumer import Consumer
from flintmq.broker.queue.round_robin import RoundRobin

if TYPE_CHECKING:
    from flintmq.broker.queue.groups import Group

# Stale items that an index keeps at most, beside twice as many slots as it had when it was last tidied.
_STALE_ITEMS_MAX: Final = 1024


@final
class Slot:
    """A ready entry among others. `rank` is its priority, negated: the lowest goes first.

    `home` is the index of the consumers that it matches. `offer` is the index where they find it now; None while it has
    to wait for others of its group. `is_here` is false once the entry was taken or removed.
    """

    def __init__(self, entry: Entry, rank: i64, home: "OfferIndex", group: "Group | None") -> None:
        self.entry = entry
        self.rank: i64 = rank
        self.home = home
        self.group = group
        self.offer: OfferIndex | None = None
        self.is_here = True


class ReadyIndex:
    """A heap of slots by rank and position. A slot that has left is noticed when it comes to the front."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, Slot]] = []
        # A slot that left and came back is in here twice.
        self._pushed = 0
        self._tidy_at: i64 = _STALE_ITEMS_MAX

    @abstractmethod
    def holds(self, slot: Slot) -> bool:
        """Whether a slot that was pushed is still to be found in here."""

    def push(self, slot: Slot, rank: i64) -> None:
        heap = self._heap
        self._pushed += 1
        heappush(heap, (int(rank), int(slot.entry.position), self._pushed, slot))
        if len(heap) > self._tidy_at:
            kept = {id(item[3]): item for item in heap if self.holds(item[3])}
            self._heap = list(kept.values())
            heapify(self._heap)
            self._tidy_at = 2 * len(kept) + _STALE_ITEMS_MAX

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

    `size` is how many slots have it for their home. `turns` is the round robin of these consumers as of `version`.
    """

    def __init__(self, members: tuple[Consumer, ...]) -> None:
        super().__init__()
        self.members = members
        self.size: i64 = 0
        self.turns = RoundRobin([])
        self.version: i64 = 0

    def holds(self, slot: Slot) -> bool:
        return slot.offer is self

    def matches(self, consumer: Consumer) -> bool:
        return not consumer.is_filtered or consumer in self.members
