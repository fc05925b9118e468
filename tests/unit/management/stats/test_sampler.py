"""Sampling, round by round."""

import asyncio

import pytest

from flintmq.management.stats import sampler
from flintmq.management.stats.rates import Meters
from flintmq.management.stats.sampler import Stats
from tests.unit.management.fake_node import NodeInMemory


def test_a_round_that_fails_is_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed round is logged, and the next round comes."""
    monkeypatch.setattr(sampler, "SAMPLE_MS", 1)

    async def sample() -> None:
        node = NodeInMemory()
        stats = Stats(node)
        again = asyncio.Event()
        rounds: list[None] = []

        async def fail() -> None:
            rounds.append(None)
            if len(rounds) > 1:
                again.set()
            raise ValueError

        monkeypatch.setattr(stats, "sample", fail)
        running = asyncio.create_task(stats.run())
        await asyncio.wait_for(again.wait(), 60)
        running.cancel()
        assert node.logged[0]["event"] == "rates were not sampled"

    asyncio.run(sample())


def test_what_is_gone_is_forgotten() -> None:
    """A meter keeps what a round came by; what is new while others are looked through is there still."""

    async def rounds() -> None:
        meters: Meters[str] = Meters(1)
        meters.begin_round(0)
        for name in ("stays", "goes"):
            meters.take(name, (1,), 0)
        await meters.end_round()
        meters.begin_round(1_000)
        meters.take("stays", (3,), 1_000)
        ending = asyncio.create_task(meters.end_round())
        await asyncio.sleep(0)
        meters.take("new", (1,), 1_000)
        await ending
        assert meters.kept == 2
        assert meters.rates("stays") == (2.0,)
        # Whoever comes again begins anew.
        meters.begin_round(2_000)
        meters.take("goes", (5,), 2_000)
        assert meters.rates("goes") == (0.0,)

    asyncio.run(rounds())
