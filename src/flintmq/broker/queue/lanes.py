"""Ready entries in several orders at once: an entry has one place, and stands with it in as many lanes as need be."""

from abc import abstractmethod
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from flintmq.broker.message import Entry
from flintmq.broker.queue.consumer import Consumer
from flintmq.broker.queue.round_robin import RoundRobin

if TYPE_CHECKING:
    from flintmq.broker.queue.groups import Group

# What a lane keeps at most beside twice as many places as it had when it was last tidied.
_STALE_ITEMS_MAX: Final = 1024


@final
class Place:
    """A ready entry among others. `rank` is its priority, negated: the lowest goes first.

    `home` is for those it suits. `offer` is where these find it now: None where it has to wait for others of its group.
    `is_here` is false once the entry was taken or removed.
    """

    def __init__(self, entry: Entry, rank: i64, home: "Bucket", group: "Group | None") -> None:
        self.entry = entry
        self.rank: i64 = rank
        self.home = home
        self.group = group
        self.offer: Bucket | None = None
        self.is_here = True


class Lane:
    """Places, the first by rank and number in front. Those that have left are noticed when the lane comes to them."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, Place]] = []
        # A place that left and came back is in here twice.
        self._pushed = 0
        self._tidy_at: i64 = _STALE_ITEMS_MAX

    @abstractmethod
    def holds(self, place: Place) -> bool:
        """Whether a place that was pushed is still to be found in here."""

    def push(self, place: Place, rank: i64) -> None:
        heap = self._heap
        self._pushed += 1
        heappush(heap, (int(rank), int(place.entry.position), self._pushed, place))
        if len(heap) > self._tidy_at:
            kept = {id(item[3]): item for item in heap if self.holds(item[3])}
            self._heap = list(kept.values())
            heapify(self._heap)
            self._tidy_at = 2 * len(kept) + _STALE_ITEMS_MAX

    def first(self) -> Place | None:
        heap = self._heap
        while heap:
            place = heap[0][3]
            if self.holds(place):
                return place
            heappop(heap)
        return None


@final
class Present(Lane):
    """Places that stay in here until their entries leave the queue."""

    def holds(self, place: Place) -> bool:
        return place.is_here


@final
class Bucket(Lane):
    """What the same consumers may be offered: `members` are the choosy ones among them, in the order they came.

    `size` is how many places are at home here. `turns` are of the consumers as of `version`.
    """

    def __init__(self, members: tuple[Consumer, ...]) -> None:
        super().__init__()
        self.members = members
        self.size: i64 = 0
        self.turns = RoundRobin([])
        self.version: i64 = 0

    def holds(self, place: Place) -> bool:
        return place.offer is self

    def matches(self, consumer: Consumer) -> bool:
        return not consumer.is_filtered or consumer in self.members
