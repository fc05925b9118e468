"""A set of delivery tags: settled deliveries, or confirmed publishes."""

from bisect import bisect_right
from typing import final

from mypy_extensions import i64


@final
class Tags:
    """All tags up to `floor`, and runs of tags above it. Tags are settled roughly in order, so there are few runs."""

    def __init__(self) -> None:
        self.floor: i64 = 0
        # First and last tags of the runs, ascending. Runs touch neither the floor nor each other.
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def add(self, first: i64, last: i64) -> None:
        """Add the tags from `first` to `last`. Some of them may be in the set already."""
        if not self._firsts:
            if first <= self.floor + 1:
                if last > self.floor:
                    self.floor = last
                return
            self._firsts.append(first)
            self._lasts.append(last)
            return
        at = bisect_right(self._firsts, first)
        if at > 0 and self._lasts[at - 1] >= first - 1:
            at -= 1
            self._lasts[at] = max(self._lasts[at], last)
        else:
            self._firsts.insert(at, first)
            self._lasts.insert(at, last)
        while at + 1 < len(self._firsts) and self._firsts[at + 1] <= self._lasts[at] + 1:
            self._lasts[at] = max(self._lasts[at], self._lasts.pop(at + 1))
            self._firsts.pop(at + 1)
        if self._firsts[0] <= self.floor + 1:
            self._firsts.pop(0)
            self.floor = max(self.floor, self._lasts.pop(0))

    def add_up_to(self, last: i64) -> None:
        """Add all tags up to `last`."""
        if last > self.floor:
            self.add(self.floor + 1, last)

    def __contains__(self, tag: int) -> bool:
        if tag <= self.floor:
            return True
        at = bisect_right(self._firsts, tag)
        return at > 0 and self._lasts[at - 1] >= tag
