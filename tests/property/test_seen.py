"""What a reader was sent, beside a set of these numbers."""

from hypothesis import given
from hypothesis import strategies as st

from flintmq.broker.queue.seen import Seen, decoded

NUMBERS = st.lists(st.integers(0, 40))


@given(NUMBERS, NUMBERS)
def test_seen_is_a_set(numbers: list[int], missing: list[int]) -> None:
    """It has what was added, in any order; what is taken out of it is not there; and it can be written and read."""
    seen = Seen(7)
    for number in numbers:
        seen.add(number)
    members = {number for number in range(60) if seen.has(number)}
    assert members == set(numbers)
    assert seen.end == max(numbers, default=-1) + 1
    left = seen.without(missing)
    assert {number for number in range(60) if left.has(number)} == members - set(missing)
    again = decoded(seen.encoded())
    assert again.queue_id == 7
    assert {number for number in range(60) if again.has(number)} == members


def test_there_are_so_many_runs() -> None:
    """Beyond that, what is between the two oldest counts as sent, too."""
    seen = Seen(1)
    for number in range(0, 2 * 1024, 2):
        seen.add(number)
    assert not seen.has(1)
    seen.add(5000)
    assert seen.has(1)
    assert not seen.has(3)
    assert not seen.has(4999)


def test_a_strict_order() -> None:
    """All before a number is sent; it never goes back."""
    seen = Seen(1)
    seen.pass_over(10)
    seen.pass_over(5)
    assert (seen.end, seen.has(0), seen.has(9), seen.has(10)) == (10, True, True, False)
