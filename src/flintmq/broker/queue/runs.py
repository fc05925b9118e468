"""Runs of sequence numbers with their owners, which are looked up at start-up for each restored entry."""

from operator import attrgetter
from typing import Generic, TypeVar, final

from mypy_extensions import i64

T = TypeVar("T")


@final
class Run(Generic[T]):
    """The numbers from `first` up to, but not including, `end`, and their owner `value`."""

    def __init__(self, first: i64, end: i64, value: T) -> None:
        self.first: i64 = first
        self.end: i64 = end
        self.value = value


@final
class Runs(Generic[T]):
    """Runs that do not overlap. `find` is fast if it is called with rising numbers, as entries are restored."""

    def __init__(self) -> None:
        self._runs: list[Run[T]] = []
        self._is_sorted = True
        self._at = 0
        self._last: i64 = -1

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def end(self) -> i64:
        """The number after all runs; 0 without any."""
        end: i64 = 0
        for run in self._runs:
            end = max(end, run.end)
        return end

    def add(self, first: i64, count: i64, value: T) -> None:
        self._runs.append(Run(first, first + count, value))
        self._is_sorted = False

    def find(self, number: i64) -> Run[T] | None:
        if not self._is_sorted:
            self._runs.sort(key=attrgetter("first"))
            self._is_sorted = True
            self._at = 0
        if number < self._last:
            self._at = 0
        self._last = number
        runs = self._runs
        while self._at < len(runs) and runs[self._at].end <= number:
            self._at += 1
        if self._at < len(runs) and runs[self._at].first <= number:
            return runs[self._at]
        return None
