"""The history of counts, which is stored as changes."""

import asyncio
import random

from flintmq.management.stats.counts import Counts, Point
from flintmq.management.stats.rates import Meters

REACH = 40
# A change that needs one byte, and those that need two, four and eight.
SIZES = (1, 127, -128, 128, -129, 32_767, -32_768, 32_768, 2**31, -(2**31) - 1, 2**62)


def rounds(meters: Meters[str], counts: list[Counts], first: int = 0) -> None:
    """Sample these counts in one round per second."""

    async def run() -> None:
        for number, each in enumerate(counts, first):
            meters.begin_round(number * 1_000)
            meters.take("q", each, number * 1_000)
            await meters.end_round()

    asyncio.run(run())


def points(counts: list[Counts], first: int = 0) -> list[Point]:
    return [(number * 1_000, each) for number, each in enumerate(counts, first)][::-1]


def test_all_that_is_in_reach_is_remembered() -> None:
    """The counts of every round within reach are restored exactly, and no older ones."""
    generator = random.Random(1)  # noqa: S311 - any changes will do, and the same again
    counts: list[Counts] = [(0,) * 11]
    for _ in range(3 * 256):
        before = list(counts[-1])
        # Sometimes much at once, sometimes nothing for longer than is remembered.
        for at in generator.sample(range(11), generator.choice((0, 0, 1, 6, 11))):
            before[at] += generator.choice(SIZES)
        repeated = (
            generator.choice((1, 1, 1, 1, 1, REACH - 1, REACH, REACH + 1, 2 * REACH)) if before[0] % 5 == 0 else 1
        )
        counts += [tuple(before)] * repeated
    meters: Meters[str] = Meters(11, REACH)

    async def run() -> None:
        for number, each in enumerate(counts):
            meters.begin_round(number * 1_000)
            meters.take("q", each, number * 1_000)
            await meters.end_round()
            oldest = max(number + 1 - REACH, 0)
            assert meters.points("q") == points(counts[oldest : number + 1], oldest)

    asyncio.run(run())


def test_a_change_is_a_few_bytes() -> None:
    """Three for the round and what changed in it, and of each change as many as it needs; one round of all reaches."""
    meters: Meters[str] = Meters(11, REACH)
    rounds(meters, [(0,) * 11, (100,) + (0,) * 10])
    assert meters.remembered_bytes == 3 + 1
    rounds(meters, [(100, 500, -3) + (0,) * 8], 2)
    assert meters.remembered_bytes == 3 + 1 + 3 + 2 * 2
    rounds(meters, [(100, 500, -3) + (each,) * 8 for each in range(1, 5 * REACH)], 3)
    assert meters.remembered_bytes == REACH * (3 + 8)


def test_who_is_idle_is_forgotten() -> None:
    """Counts without changes within reach use no memory, and are reported as constant."""
    meters: Meters[str] = Meters(2, REACH)
    rounds(meters, [(0, 0), (3, 1)])
    rounds(meters, [(3, 1)] * (REACH - 1), 2)
    assert meters.remembered_bytes > 0
    rounds(meters, [(3, 1)], REACH + 1)
    assert meters.remembered_bytes == 0
    assert meters.points("q") == points([(3, 1)] * REACH, 2)


def test_who_is_gone_is_forgotten() -> None:
    """An object that a round does not sample is dropped; if it returns, it has no history."""
    meters: Meters[str] = Meters(2, REACH)
    rounds(meters, [(0, 0), (3, 1)])
    meters.begin_round(2_000)
    asyncio.run(meters.end_round())
    assert (meters.kept, meters.remembered_bytes, meters.points("q")) == (0, 0, [])
    rounds(meters, [(0, 0)], 3)
    assert meters.points("q") == points([(0, 0)], 3)


def test_within_a_round() -> None:
    """During a round, objects that were sampled already have it as their newest point, others the round before."""
    meters: Meters[str] = Meters(1, REACH)
    rounds(meters, [(0,), (3,)])
    meters.begin_round(2_000)
    assert meters.points("q") == points([(0,), (3,)])
    meters.take("q", (5,), 2_000)
    assert meters.points("q") == points([(0,), (3,), (5,)])


def test_rounds_that_fail() -> None:
    """A round that came by some and did not end counts as one: of however many there are, no more is kept."""
    meters: Meters[str] = Meters(1, REACH)
    for number in range(3 * REACH):
        meters.begin_round(number * 1_000)
        meters.take("q", (number,), number * 1_000)
    assert meters.points("q") == points([(number,) for number in range(2 * REACH, 3 * REACH)], 2 * REACH)
    assert meters.remembered_bytes == REACH * 4


def test_without_reach_nothing_is_kept() -> None:
    """With a reach of 0 only the present counts are known."""
    meters: Meters[str] = Meters(1)
    rounds(meters, [(each,) for each in range(5)])
    assert (meters.remembered_bytes, meters.points("q")) == (0, [(4_000, (4,))])
