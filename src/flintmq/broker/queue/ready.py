"""Where a queue keeps the entries that are ready to be delivered: in order, or in order within their priority."""

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections import deque
from typing import Final, final

from mypy_extensions import i64

from flintmq.broker.message import ACQUIRED, READY, REMOVED, Entry

# Entries of a block: long enough that the bookkeeping per entry vanishes, short enough to be reversed in microseconds.
_BLOCK_ENTRIES: Final = 1024
# Entries that came back, up to which each is put into its place by itself.
_FEW_ENTRIES: Final = 16
# Removed entries that a store keeps at most beside as many live ones, before it lets go of them.
_REMOVED_ENTRIES_MAX: Final = 1024


class Ready(ABC):
    """Ready entries of a queue. `count` is how many can be taken."""

    def __init__(self) -> None:
        self.count: i64 = 0

    @abstractmethod
    def append(self, entry: Entry) -> None: ...

    @abstractmethod
    def take(self) -> Entry:
        """The entry to be delivered next, which leaves the store; there has to be one."""

    @abstractmethod
    def peek(self) -> Entry | None:
        """The entry that `take` would give."""

    def first_in_line(self, entry: Entry) -> Entry | None:
        """The entry that goes before all others which only their age tells from this one."""
        return self.peek()

    @abstractmethod
    def drop_candidate(self) -> Entry | None:
        """The entry a full queue gives up first, left where it is."""

    @abstractmethod
    def give_back(self, entries: list[Entry]) -> None:
        """Entries that were taken from here, and are marked ready again, come back, each to the place it had."""

    @abstractmethod
    def remove(self, entry: Entry) -> None:
        """Take out an entry from wherever it is; its state says that it is in here."""

    @abstractmethod
    def entries(self) -> list[Entry]:
        """All of them, in the order in which they would be taken. For inspection: costs their number."""


@final
class Fifo(Ready):
    """Oldest first: `_front` backwards, then each block of `_middle`, then `_back`.

    The front is kept newest first so that taking the oldest is a pop from the end of a list, which also lets go of
    it. All in it is older than what is beyond it; so what comes back is sorted into the front, to which as many blocks
    are added as begin with an older one.
    """

    def __init__(self) -> None:
        super().__init__()
        self._front: list[Entry] = []
        self._middle: deque[list[Entry]] = deque()
        self._back: list[Entry] = []
        # Came back, and not sorted into the front yet: one by one that would take the square of their number.
        self._returned: list[Entry] = []
        self._removed: i64 = 0

    def append(self, entry: Entry) -> None:
        self._back.append(entry)
        self.count += 1
        if len(self._back) >= _BLOCK_ENTRIES:
            self._middle.append(self._back)
            self._back = []

    def take(self) -> Entry:
        while True:
            if self._returned:
                self._sort_in()
            if not self._front:
                self._advance()
            entry = self._front.pop()
            if entry.state == READY:
                entry.state = ACQUIRED
                self.count -= 1
                return entry
            self._removed -= 1

    def peek(self) -> Entry | None:
        if self.count == 0:
            return None
        while True:
            if self._returned:
                self._sort_in()
            if not self._front:
                self._advance()
            entry = self._front[-1]
            if entry.state == READY:
                return entry
            self._front.pop()
            self._removed -= 1

    def drop_candidate(self) -> Entry | None:
        return self.peek()

    def _sort_in(self) -> None:
        returned = self._returned
        self._returned = []
        returned.sort(key=_position_downwards)
        newest = returned[0].position
        # The front is empty where expiry has just let go of it, and what comes back may have been chosen from within.
        older: list[list[Entry]] = []
        while self._middle and self._middle[0][0].position < newest:
            older.append(self._middle.popleft())
        if not self._middle and self._back and self._back[0].position < newest:
            older.append(self._back)
            self._back = []
        if older:
            self._pull(older)
        front = self._front
        at: i64 = bisect_left(front, -newest, key=_position_downwards)
        if len(returned) <= _FEW_ENTRIES:
            # The front may be long, and somebody may give back and take one entry again and again.
            for entry in returned:
                insort(front, entry, at, key=_position_downwards)
            return
        # What is newer than all of them stays where it is.
        mixed = front[at:]
        mixed += returned
        mixed.sort(key=_position_downwards)
        del front[at:]
        front += mixed

    def _pull(self, blocks: list[list[Entry]]) -> None:
        """Make these blocks, oldest first, a part of the front."""
        front: list[Entry] = []
        for block in reversed(blocks):
            block.reverse()
            front += block
        front += self._front
        self._front = front

    def _advance(self) -> None:
        if self._middle:
            self._front = self._middle.popleft()
        else:
            self._front = self._back
            self._back = []
        self._front.reverse()

    def give_back(self, entries: list[Entry]) -> None:
        self._returned.extend(entries)
        self.count += len(entries)

    def remove(self, entry: Entry) -> None:
        entry.state = REMOVED
        self.count -= 1
        self._removed += 1
        if self._removed > _REMOVED_ENTRIES_MAX and self._removed > self.count:
            self._let_go()

    def _let_go(self) -> None:
        live = self.entries()
        self._front = []
        self._middle = deque()
        self._returned = []
        self._removed = 0
        for start in range(0, len(live), _BLOCK_ENTRIES):
            self._middle.append(live[start : start + _BLOCK_ENTRIES])
        self._back = []

    def entries(self) -> list[Entry]:
        if self._returned:
            self._sort_in()
        found = [entry for entry in reversed(self._front) if entry.state == READY]
        for block in self._middle:
            found += [entry for entry in block if entry.state == READY]
        found += [entry for entry in self._back if entry.state == READY]
        return found


@final
class Priorities(Ready):
    """One Fifo per priority, the highest first. Priorities above `highest` count as that."""

    def __init__(self, highest: i64) -> None:
        super().__init__()
        self._highest: i64 = highest
        self._levels: list[Fifo] = [Fifo() for _ in range(int(highest) + 1)]
        # No level above this one has an entry.
        self._top: i64 = 0

    def _level(self, entry: Entry) -> i64:
        priority = entry.message.handling.priority
        return min(self._highest, priority)

    def append(self, entry: Entry) -> None:
        level = self._level(entry)
        self._levels[level].append(entry)
        self.count += 1
        if level > self._top:
            self._top = level

    def _topmost(self) -> Fifo:
        while self._top > 0 and self._levels[self._top].count == 0:
            self._top -= 1
        return self._levels[self._top]

    def first_in_line(self, entry: Entry) -> Entry | None:
        return self._levels[self._level(entry)].peek()

    def take(self) -> Entry:
        self.count -= 1
        return self._topmost().take()

    def peek(self) -> Entry | None:
        return self._topmost().peek()

    def drop_candidate(self) -> Entry | None:
        for level in self._levels:
            entry = level.peek()
            if entry is not None:
                return entry
        return None

    def give_back(self, entries: list[Entry]) -> None:
        for entry in entries:
            level = self._level(entry)
            self._levels[level].give_back([entry])
            if level > self._top:
                self._top = level
        self.count += len(entries)

    def remove(self, entry: Entry) -> None:
        self._levels[self._level(entry)].remove(entry)
        self.count -= 1

    def entries(self) -> list[Entry]:
        found: list[Entry] = []
        for level in reversed(self._levels):
            found += level.entries()
        return found


def ranked(store: Ready, highest: i64) -> Priorities:
    """The same entries by priority: the first with one has come."""
    made = Priorities(highest)
    for entry in store.entries():
        made.append(entry)
    return made


def _position_downwards(entry: Entry) -> int:
    return -entry.position
