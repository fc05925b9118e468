"""Strangers who send byte by byte are read from a few at a time; whoever says what it has to say does not notice."""

import asyncio
from itertools import pairwise

import pytest

from flintmq.server import trickling
from flintmq.server.trickling import Reads, Tricklers

# A TLS greeting and the end of its handshake, a protocol header, another for AMQP 1.0, and methods or frames.
LOGIN = [517, 80, 8, 310, 40, 8, 20, 16]


def test_who_logs_in_does_not_trickle() -> None:
    """Neither in pieces as clients send them, nor where a network has cut off a little of one."""
    reads = Reads()
    assert not any(reads.trickle(size) for size in [*LOGIN, 3])


@pytest.mark.parametrize(("size", "free"), [(1, 1), (100, 12)])
def test_who_trickles(size: int, free: int) -> None:
    """A few bytes at a time are told soon, and larger pieces after more of them than any login has."""
    reads = Reads()
    assert [reads.trickle(size) for _ in range(free + 2)] == [False] * free + [True] * 2


class Trickling:
    def __init__(self, read: list[tuple[float, "Trickling"]]) -> None:
        self._read = read
        self._loop = asyncio.get_running_loop()

    def read_again(self) -> None:
        self._read.append((self._loop.time(), self))


def test_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """All who rest are read from in the end, in their order and not together, however many have rested enough."""
    monkeypatch.setattr(trickling, "_REST_SECONDS", 0.02)

    async def rest() -> None:
        read: list[tuple[float, Trickling]] = []
        tricklers = Tricklers(asyncio.get_running_loop())
        all_of_them = [Trickling(read) for _ in range(20)]
        began = asyncio.get_running_loop().time()
        for each in all_of_them:
            tricklers.rest(each)
        seen = [0]
        while len(read) < 20:
            await asyncio.sleep(0)
            seen.append(len(read))
        assert max(after - before for before, after in pairwise(seen)) <= trickling._SOCKETS_PER_TURN
        assert [each for _, each in read] == all_of_them
        assert read[0][0] - began >= 0.02

    asyncio.run(rest())


def test_nobody_is_woken_after_the_end() -> None:
    """Nothing is left in the loop."""

    async def end() -> None:
        read: list[tuple[float, Trickling]] = []
        tricklers = Tricklers(asyncio.get_running_loop())
        tricklers.rest(Trickling(read))
        tricklers.close()
        await asyncio.sleep(trickling._REST_SECONDS * 1.2)
        assert not read

    asyncio.run(end())
