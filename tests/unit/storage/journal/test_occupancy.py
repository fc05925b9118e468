"""Occupancy of segments, identified by the homes of entries."""

from pathlib import Path

from flintmq.storage.journal.occupancy import Occupancy, Segment
from tests.unit.storage.nodes import OpenNode, segments


def _filled(occupancy: Occupancy, number: int, count: int) -> Segment:
    segment = occupancy.open(number)
    segment.add(count, 100)
    return segment


def _empty(source: Segment, target: Segment, home: Segment, slots: list[int]) -> None:
    for slot in slots:
        home.moved(slot, source, target, 100)
    target.add_moved(len(slots), 100)


def test_entries_are_settled_where_they_were_first() -> None:
    """However often records move, settling the first place empties the file that holds the record now."""
    occupancy = Occupancy()
    home = _filled(occupancy, 1, 6)
    occupancy.settle(1, 1, 3)
    second = _filled(occupancy, 2, 1)
    _empty(home, second, home, [0, 3])
    third = _filled(occupancy, 3, 1)
    _empty(home, third, home, [4, 5])
    assert (home.held, second.held, third.held) == (0, 3, 3)
    assert occupancy.drop_dead() == 1
    fourth = _filled(occupancy, 4, 1)
    _empty(second, fourth, home, [0, 3])
    occupancy.settle(2, 0, 1)
    assert occupancy.drop_dead() == 2
    assert (third.held, fourth.held) == (3, 3)
    occupancy.settle(1, 0, 5)
    assert (third.held, fourth.held, home.live) == (2, 1, 1)
    assert occupancy.home(1) is home
    occupancy.settle(1, 5, 6)
    assert (third.held, fourth.held) == (1, 1)
    assert occupancy.home(1) is None


def test_a_place_that_is_settled_twice_counts_once() -> None:
    """Settling a slot twice does not settle another one."""
    occupancy = Occupancy()
    segment = _filled(occupancy, 1, 4)
    occupancy.settle(1, 0, 2)
    occupancy.settle(1, 0, 3)
    occupancy.settle(9, 0, 3)
    assert (segment.live, segment.held) == (1, 1)


def test_few_that_stay_cost_little() -> None:
    """A removed segment with few live slots stores them as a list, which gives the same answers."""
    occupancy = Occupancy()
    home = _filled(occupancy, 1, 10_000)
    home.set_returns(7_000, 3)
    target = _filled(occupancy, 2, 1)
    left = [5, 4_000, 7_000, 9_999]
    for first, last in zip([0, *(slot + 1 for slot in left)], [*left, 10_000], strict=True):
        occupancy.settle(1, first, last)
    _empty(home, target, home, left)
    assert occupancy.drop_dead() == 1
    assert [slot for slot in range(10_000) if home.is_live(slot)] == left
    assert home.returns is not None
    assert [int(home.returns.get(slot)) for slot in left] == [0, 0, 3, 0]
    occupancy.settle(1, 4_000, 7_000)
    occupancy.settle(1, 3_999, 4_001)
    assert (home.live, target.held) == (3, 4)
    occupancy.settle(1, 0, 10_000)
    assert (home.live, target.held) == (0, 1)


def test_large_ones_that_went_leave_little(tmp_path: Path) -> None:
    """If small messages stay among as many large settled ones, segments are emptied, also after a restart."""
    node = OpenNode(tmp_path, segment=40_000)
    kept = 0
    for number in range(400):
        if number == 200:
            node.close()
            node = OpenNode(tmp_path, segment=40_000)
        node.publish(b"small", 2)
        kept += 1
        (large,) = node.publish(b"x" * 4_000)
        node.sync()
        node.storage.journal.settle(1, large)
    assert len(segments(tmp_path)) <= 8
    node.close()
    node = OpenNode(tmp_path, segment=40_000)
    assert len(node.left[2]) == kept
    node.close()
