"""What a broker that stops knows of messages that nobody has had."""

import pytest

from flintmq.broker.message import Entry
from flintmq.broker.queue.levels import Levels
from flintmq.broker.queue.pager import Pager
from flintmq.broker.queue.priorities import Priorities
from flintmq.broker.queue.ready import Fifo
from flintmq.broker.queue.undelivered import Undelivered
from tests.unit.broker.memory import MemoryPages, message
from tests.unit.broker.queue.test_ready import back, filled


def _numbers(runs: list[int]) -> list[int]:
    found: list[int] = []
    for first, count in zip(runs[::2], runs[1::2], strict=True):
        found += range(first, first + count)
    return found


def _returned(store: Fifo, count: int) -> list[Entry]:
    """Take so many, and give them back as consumers do."""
    taken = [store.take() for _ in range(count)]
    for entry in taken:
        entry.redelivered = True
    back(store, taken)
    return taken


@pytest.mark.parametrize("count", [10, 3_000, 25_000])
def test_what_came_back_is_left_out(count: int) -> None:
    """All others are one run, in memory and packed; what is taken, or was removed, is in none."""
    pages = MemoryPages()
    store, entries = filled(count, Pager(pages, lambda part, count: None))
    assert bool(pages.kept) == (count > 20_000)
    _returned(store, 4)
    assert Undelivered(store).runs == [4, count - 4]
    store.remove(entries[6])
    assert _numbers(Undelivered(store).runs) == [4, 5, *range(7, count)]
    store.page_out()
    assert sorted(_numbers(Undelivered(store).runs)) == [4, 5, *range(7, count)]
    for _ in range(8):
        store.take()
    assert Undelivered(store).runs == [9, count - 9]


def test_pages_that_do_not_say_it_are_read() -> None:
    """Those in which some came back, or in which numbers do not follow each other; up to a number of pages."""
    pages = MemoryPages()
    pager = Pager(pages, lambda part, count: None)
    store = Priorities(Levels(1), pager, Fifo(pager))
    for seq in range(50_000):
        store.append(Entry(message("m", headers=f"priority={seq % 2}"), seq))
    assert len(pages.kept) > 10
    assert sorted(_numbers(Undelivered(store).runs)) == list(range(50_000))
    known = set(_numbers(Undelivered(store, pages_max=2).runs))
    assert 10_000 < len(known) < 50_000
