"""The entries that a browser was sent: a later link does not get them again (amqp-1.0 part 3 §3.5.2)."""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, final

from mypy_extensions import i64

# A browser sees a queue in order, so there are few runs, with gaps where others took entries. Beyond this number the
# two oldest runs become one, because the entries between them have most likely left the queue.
_RUNS_MAX: Final = 1024


@final
class Seen:
    """Sequence numbers of the queue `queue_id` as runs: each from one of `firsts` up to, but not including, its end."""

    def __init__(self, queue_id: int, firsts: list[int] | None = None, ends: list[int] | None = None) -> None:
        self.queue_id = queue_id
        self._firsts: list[int] = firsts or []
        self._ends: list[int] = ends or []

    @property
    def end(self) -> int:
        """The number after all of them; 0 without any."""
        return self._ends[-1] if self._ends else 0

    def has(self, number: i64) -> bool:
        ends = self._ends
        if not ends or number >= ends[-1]:
            return False
        at = bisect_right(self._firsts, int(number)) - 1
        return at >= 0 and number < ends[at]

    def add(self, number: i64) -> None:
        firsts, ends = self._firsts, self._ends
        value = int(number)
        if not ends or value > ends[-1]:
            firsts.append(value)
            ends.append(value + 1)
        elif value == ends[-1]:
            ends[-1] = value + 1
        else:
            self._insert(value)
        if len(firsts) > _RUNS_MAX:
            del firsts[1]
            del ends[0]

    def _insert(self, value: int) -> None:
        firsts, ends = self._firsts, self._ends
        at = bisect_right(firsts, value)
        if at > 0 and value < ends[at - 1]:
            return
        touches_before = at > 0 and ends[at - 1] == value
        touches_behind = at < len(firsts) and firsts[at] == value + 1
        if touches_before and touches_behind:
            del ends[at - 1]
            del firsts[at]
        elif touches_before:
            ends[at - 1] = value + 1
        elif touches_behind:
            firsts[at] = value
        else:
            firsts.insert(at, value)
            ends.insert(at, value + 1)

    def pass_over(self, end: i64) -> None:
        """Add all numbers before `end`, for a stream, whose order is strict."""
        if end > self.end:
            self._firsts = [0]
            self._ends = [int(end)]

    def without(self, numbers: Iterable[int]) -> "Seen":
        """A copy without these numbers."""
        firsts: list[int] = []
        ends: list[int] = []
        missing = sorted(numbers)
        for first, end in zip(self._firsts, self._ends, strict=True):
            start = first
            for number in missing:
                if start <= number < end:
                    if start < number:
                        firsts.append(start)
                        ends.append(number)
                    start = number + 1
            if start < end:
                firsts.append(start)
                ends.append(end)
        return Seen(self.queue_id, firsts, ends)

    def encoded(self) -> bytes:
        numbers = [self.queue_id]
        for first, end in zip(self._firsts, self._ends, strict=True):
            numbers += [first, end]
        return b" ".join([b"%d" % number for number in numbers])


def decoded(data: bytes) -> Seen:
    numbers = [int(word) for word in data.split(b" ")]
    return Seen(numbers[0], numbers[1::2], numbers[2::2])
