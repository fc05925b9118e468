"""Places and ranges: pure functions of what Spark keeps."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq.base.errors import ConfigurationError
from flintmq.spark.reading.offsets import OffsetRange, batch_end, batch_range, offset_of, place, split


def test_a_batch_goes_on_where_the_last_one_ended() -> None:
    """The end of one micro-batch is the start of the next."""
    first = batch_end("q", 5, 10)
    assert batch_range(place("q", 5), first, "q") == (5, 10)
    assert batch_range(first, batch_end("q", 10, 30), "q") == (10, 30)


def test_a_failed_first_batch_keeps_its_start() -> None:
    """When Spark has forgotten where the first batch began, and asks anew, the batch is the same."""
    assert batch_range(place("q", 40), batch_end("q", 5, 10), "q") == (5, 10)
    assert batch_range(place("q", 10), batch_end("q", 5, 10), "q") == (5, 10)


def test_an_empty_batch() -> None:
    """A micro-batch that ends where it starts has no messages, wherever the one before began."""
    end = batch_end("q", 5, 10)
    assert batch_range(end, end, "q") == (10, 10)
    assert split(10, 10, 4, 100) == []


def test_another_queues_checkpoint() -> None:
    """A place in another queue is refused."""
    with pytest.raises(ConfigurationError, match="the checkpoint is of queue 'old' and the option queue says 'new'"):
        offset_of(place("old", 3), "new")


@pytest.mark.parametrize(
    ("count", "at_least", "most", "parts"),
    [(10, 1, 100, 1), (10, 3, 100, 3), (10, 1, 4, 3), (10, 20, 100, 10), (100, 2, 10, 10), (1, 1, 1, 1)],
)
def test_number_of_partitions(count: int, at_least: int, most: int, parts: int) -> None:
    """As many partitions as asked for, more where they would get too large, never an empty one."""
    assert len(split(7, 7 + count, at_least, most)) == parts


@given(st.integers(0, 2**62), st.integers(1, 2**40), st.integers(1, 50), st.integers(1, 2**50))
def test_ranges_cover_everything_once(start: int, count: int, at_least: int, most: int) -> None:
    """Ranges lie side by side, none is empty or too large, and their sizes differ by one at most."""
    most = max(most, count // 1000 + 1)
    ranges = split(start, start + count, at_least, most)
    assert ranges[0].start == start
    assert ranges[-1].end == start + count
    assert all(one.end == other.start for one, other in pairwise(ranges))
    sizes = [part.end - part.start for part in ranges]
    assert 0 < min(sizes) <= max(sizes) <= most
    assert max(sizes) - min(sizes) <= 1


def test_ranges_are_values() -> None:
    """Two ranges with the same bounds are equal."""
    assert OffsetRange(1, 2) == OffsetRange(1, 2)
