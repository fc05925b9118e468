"""Sets of numbers with long runs, such as the sequence numbers of a queue."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import final


@final
class Ranges:
    """Disjoint runs in ascending order, each from its start to before its end; adjacent runs are joined."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._ends, strict=True)

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self._starts, number) - 1
        return place >= 0 and number < self._ends[place]

    @property
    def count(self) -> int:
        return sum(self._ends) - sum(self._starts)

    def add(self, start: int, end: int) -> None:
        starts = self._starts
        ends = self._ends
        if not ends or start > ends[-1]:
            starts.append(start)
            ends.append(end)
            return
        # Runs that overlap or touch the new one are joined with it.
        first = bisect_left(ends, start)
        last = bisect_right(starts, end)
        if first < last:
            start = min(start, starts[first])
            end = max(end, ends[last - 1])
        starts[first:last] = [start]
        ends[first:last] = [end]

    def add_all(self, other: "Ranges") -> None:
        for start, end in other:
            self.add(start, end)

    def without(self, other: "Ranges") -> "Ranges":
        left = Ranges()
        for begin, end in self:
            start = begin
            for gone_start, gone_end in other.overlapping(begin, end):
                if gone_start > start:
                    left.add(start, gone_start)
                start = max(start, gone_end)
            if start < end:
                left.add(start, end)
        return left

    def overlapping(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        place = bisect_right(self._ends, start)
        while place < len(self._starts) and self._starts[place] < end:
            yield self._starts[place], self._ends[place]
            place += 1
