"""Confirms of publishes: in any order, many at once, and refusals among them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq.base.errors import ConnectionLost, PreconditionFailed
from flintmq.client.confirms import Confirms


def published(count: int) -> Confirms:
    confirms = Confirms()
    for _ in range(count):
        confirms.count()
    return confirms


@given(st.permutations(range(1, 8)), st.sets(st.integers(1, 7)))
def test_confirms_are_complete_with_the_last_one(order: list[int], refused: set[int]) -> None:
    """Single confirms may come in any order; the refused ones are reported by position."""
    confirms = published(7)
    for tag in order[:-1]:
        confirms.settle(tag, multiple=False, taken=tag not in refused)
        assert not confirms.is_ready
    confirms.settle(order[-1], multiple=False, taken=order[-1] not in refused)
    assert confirms.is_ready
    assert confirms.report() == [tag - 1 for tag in sorted(refused)]


def test_a_multiple_confirm_covers_what_is_still_open() -> None:
    """A multiple refusal does not take back what was confirmed before."""
    confirms = published(10)
    confirms.settle(3, multiple=True, taken=True)
    confirms.settle(6, multiple=False, taken=True)
    confirms.settle(8, multiple=True, taken=False)
    assert not confirms.is_ready
    confirms.settle(10, multiple=True, taken=True)
    assert confirms.is_ready
    assert confirms.report() == [3, 4, 6, 7]


def test_positions_count_from_the_last_report() -> None:
    """The second batch of a channel starts at position 0 again."""
    confirms = published(5)
    confirms.settle(5, multiple=True, taken=True)
    assert confirms.report() == []
    assert confirms.is_reported
    confirms.count()
    confirms.count()
    assert not confirms.is_reported
    confirms.settle(7, multiple=False, taken=False)
    confirms.settle(6, multiple=False, taken=True)
    assert confirms.report() == [1]


def test_tag_zero_means_all_so_far() -> None:
    """amqp-0-9-1 basic.ack: zero with multiple is everything outstanding."""
    confirms = published(4)
    confirms.settle(0, multiple=True, taken=True)
    assert confirms.is_ready


@pytest.mark.parametrize("tag", [-1, 0, 3])
def test_a_tag_that_was_never_used_is_a_fault(tag: int) -> None:
    """A server that confirms what was not published has lost count, and with it our trust."""
    with pytest.raises(PreconditionFailed):
        published(2).settle(tag, multiple=False, taken=True)


def test_a_mark_waits_for_what_was_published_before_it() -> None:
    """It gets ready with the last publish before it, whatever came behind, and at once where all is confirmed."""
    confirms = published(3)
    marked = confirms.mark()
    confirms.count()
    confirms.settle(2, multiple=True, taken=True)
    assert not marked.is_ready
    confirms.settle(3, multiple=False, taken=False)
    assert marked.is_ready
    assert not confirms.is_ready
    assert (confirms.confirmed, confirms.has_refusals) == (3, True)
    confirms.settle(4, multiple=False, taken=True)
    assert confirms.mark().is_ready


def test_a_mark_fails_with_its_channel() -> None:
    """Nobody waits for confirms that cannot come any more."""
    confirms = published(1)
    marked = confirms.mark()
    confirms.fail(ConnectionLost("gone"))
    assert marked.is_ready
    with pytest.raises(ConnectionLost):
        marked.check()
