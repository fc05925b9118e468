"""Places and ranges: pure functions of what Spark keeps."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq.base.errors import ConfigurationError
from flintmq.spark.source.offsets import (
    OffsetRange,
    batch_end,
    batch_ranges,
    offsets_of,
    proportions,
    saved_offset,
    shares,
    split,
)


def whole(start: int, end: int, queue: str = "q") -> OffsetRange:
    return OffsetRange(queue, 0, start, end)


def test_a_batch_goes_on_where_the_last_one_ended() -> None:
    """The end of one micro-batch is the start of the next."""
    first = batch_end({"q": 5}, {"q": 10})
    assert batch_ranges(saved_offset({"q": 5}), first) == {"q": (5, 10)}
    assert batch_ranges(first, batch_end({"q": 10}, {"q": 30})) == {"q": (10, 30)}


def test_a_failed_first_batch_keeps_its_start() -> None:
    """When Spark has forgotten where the first batch began, and asks anew, the batch is the same."""
    assert batch_ranges(saved_offset({"q": 40}), batch_end({"q": 5}, {"q": 10})) == {"q": (5, 10)}


def test_an_empty_batch() -> None:
    """A micro-batch that ends where it starts has no messages, wherever the one before began."""
    end = batch_end({"q": 5}, {"q": 10})
    assert batch_ranges(end, end) == {}
    assert split([whole(10, 10)], 4, 100) == []


def test_a_queue_that_was_added() -> None:
    """A batch's end has where each queue began, also one that its start does not know."""
    start = saved_offset({"q": 5})
    assert offsets_of(start, ["q", "r"]) == {"q": 5}
    assert batch_ranges(start, batch_end({"q": 5, "r": 0}, {"q": 5, "r": 3})) == {"q": (5, 5), "r": (0, 3)}


def test_another_queues_checkpoint() -> None:
    """A place in a queue that the query does not read is refused."""
    with pytest.raises(ConfigurationError, match="the checkpoint is of queue old, q and the option queue is q, new"):
        offsets_of(saved_offset({"old": 3, "q": 1}), ["q", "new"])


@pytest.mark.parametrize(
    ("count", "at_least", "most", "parts"),
    [(10, 1, 100, 1), (10, 3, 100, 3), (10, 1, 4, 3), (10, 20, 100, 10), (100, 2, 10, 10), (1, 1, 1, 1)],
)
def test_number_of_partitions(count: int, at_least: int, most: int, parts: int) -> None:
    """There are as many partitions as asked for, more if they would be too large, and never an empty one."""
    assert len(split([whole(7, 7 + count)], at_least, most)) == parts


def test_partitions_of_several_queues() -> None:
    """Each queue with messages has a part of its own at least, and more the more it has."""
    parts = split([whole(0, 90, "a"), whole(5, 5, "b"), whole(10, 20, "c")], 10, 1000)
    assert [part.queue for part in parts] == ["a"] * 9 + ["c"]


@given(st.integers(0, 2**62), st.integers(1, 2**40), st.integers(1, 50), st.integers(1, 2**50))
def test_ranges_cover_everything_once(start: int, count: int, at_least: int, most: int) -> None:
    """Ranges lie side by side, none is empty or too large, and their sizes differ by one at most."""
    most = max(most, count // 1000 + 1)
    ranges = split([whole(start, start + count)], at_least, most)
    assert ranges[0].start == start
    assert ranges[-1].end == start + count
    assert all(one.end == other.start for one, other in pairwise(ranges))
    sizes = [part.end - part.start for part in ranges]
    assert 0 < min(sizes) <= max(sizes) <= most
    assert max(sizes) - min(sizes) <= 1


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 1000), max_size=8), st.integers(0, 3000))
def test_limits_are_shared_out(wanted: dict[str, int], most: int) -> None:
    """Nobody gets more than it wants, all together as much as there is, and each about by what it wants."""
    found = shares(wanted, most)
    assert all(0 <= found[name] <= want for name, want in wanted.items())
    assert sum(found.values()) == min(most, sum(wanted.values()))
    total = sum(wanted.values())
    if total > most:
        assert all(abs(found[name] - most * want / total) <= 1 for name, want in wanted.items())


def test_bytes_are_shared_out() -> None:
    """Bytes are for those who have messages, by their number, and at least one for each."""
    assert proportions({"a": 30, "b": 10, "c": 0}, 1000) == {"a": 750, "b": 250, "c": 1}
    assert proportions({"a": 0}, 5) == {"a": 1}
