"""Runs of numbers beside a set of these numbers."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from flintmq.storage.inspection.ranges import Ranges

RUNS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 8)))


def _both(runs: list[tuple[int, int]]) -> tuple[Ranges, set[int]]:
    ranges = Ranges()
    numbers: set[int] = set()
    for start, length in runs:
        ranges.add(start, start + length)
        numbers.update(range(start, start + length))
    return ranges, numbers


@given(RUNS, RUNS)
def test_ranges_are_a_set(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    """They have the same members, difference and union, and runs that touch are one."""
    ranges, numbers = _both(first)
    others, other_numbers = _both(second)
    assert ranges.count == len(numbers)
    assert {number for number in range(60) if number in ranges} == numbers
    left = ranges.without(others)
    assert {number for number in range(60) if number in left} == numbers - other_numbers
    ranges.add_all(others)
    assert {number for number in range(60) if number in ranges} == numbers | other_numbers
    runs = list(ranges)
    assert all(end < start for (_, end), (start, _) in pairwise(runs))
