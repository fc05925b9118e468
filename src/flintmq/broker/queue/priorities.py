"""The store for ready entries with priorities: in order within each level, the highest level first."""

from typing import final

from mypy_extensions import i64

from flintmq.broker.message import Entry
from flintmq.broker.queue.levels import Levels
from flintmq.broker.queue.pager import Pager
from flintmq.broker.queue.ready import Fifo, Ready


@final
class Priorities(Ready):
    """One Fifo per level. `unstated` holds the entries so far, which all have the level for no priority."""

    def __init__(self, levels: Levels, pager: Pager | None, unstated: Fifo) -> None:
        super().__init__()
        self._known = levels
        self._levels: list[Fifo] = [Fifo(pager) for _ in range(int(levels.highest) + 1)]
        self._levels[levels.unstated] = unstated
        self.count = unstated.count
        # No level above this one has an entry.
        self._top: i64 = levels.unstated

    def _level(self, entry: Entry) -> i64:
        return self._known.of(entry.message.options)

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

    def head(self) -> Entry | None:
        return self._topmost().head()

    def drop_candidate(self) -> Entry | None:
        for level in self._levels:
            entry = level.peek()
            if entry is not None:
                return entry
        return None

    def put_back(self, entries: list[Entry]) -> None:
        for entry in entries:
            level = self._level(entry)
            self._levels[level].put_back([entry])
            if level > self._top:
                self._top = level
        self.count += len(entries)

    def remove(self, entry: Entry) -> None:
        self._levels[self._level(entry)].remove(entry)
        self.count -= 1

    def shed(self) -> list[Entry]:
        for level in self._levels:
            found = level.shed()
            if found:
                self.count -= len(found)
                return found
        return []

    def entries(self) -> list[Entry]:
        found: list[Entry] = []
        for level in reversed(self._levels):
            found += level.entries()
        return found

    def parts(self) -> list[Fifo]:
        return self._levels


def ranked(store: Ready, entry: Entry, levels: Levels) -> Ready:
    """The store to append this entry to: a store with priorities is made for the first entry that needs one."""
    if not isinstance(store, Fifo) or levels.of(entry.message.options) == levels.unstated:
        return store
    return Priorities(levels, store.pager, store)
