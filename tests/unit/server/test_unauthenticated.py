"""Unauthenticated peers that send byte by byte are read a few at a time; an ordinary handshake is not throttled."""

import asyncio
from itertools import pairwise

import pytest

from flintmq.server import unauthenticated
from flintmq.server.unauthenticated import HandshakeReads, ReadThrottle

# A TLS greeting and the end of its handshake, a protocol header, another for AMQP 1.0, and methods or frames.
LOGIN = [517, 80, 8, 310, 40, 8, 20, 16]


def test_an_ordinary_handshake() -> None:
    """It is not throttled, neither in the pieces that clients send nor if a network has split one of them."""
    reads = HandshakeReads()
    assert not any(reads.are_too_many(size) for size in [*LOGIN, 3])


@pytest.mark.parametrize(("size", "free"), [(1, 1), (100, 12)])
def test_small_pieces_and_many_pieces(size: int, free: int) -> None:
    """Pieces of a few bytes are throttled soon, and larger ones after more of them than a handshake has."""
    reads = HandshakeReads()
    assert [reads.are_too_many(size) for _ in range(free + 2)] == [False] * free + [True] * 2


class Peer:
    def __init__(self, read: list[tuple[float, "Peer"]]) -> None:
        self._read = read
        self._loop = asyncio.get_running_loop()

    def end_rest(self) -> None:
        self._read.append((self._loop.time(), self))


def test_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """All resting sockets are read in the end, in their order and a few at a time, however many have rested enough."""
    monkeypatch.setattr(unauthenticated, "_REST_SECONDS", 0.02)

    async def rest() -> None:
        read: list[tuple[float, Peer]] = []
        throttle = ReadThrottle(asyncio.get_running_loop())
        all_of_them = [Peer(read) for _ in range(20)]
        began = asyncio.get_running_loop().time()
        for each in all_of_them:
            throttle.rest(each)
        seen = [0]
        while len(read) < 20:
            await asyncio.sleep(0)
            seen.append(len(read))
        assert max(after - before for before, after in pairwise(seen)) <= unauthenticated._SOCKETS_PER_TURN
        assert [each for _, each in read] == all_of_them
        assert read[0][0] - began >= 0.02

    asyncio.run(rest())


def test_nobody_is_woken_after_the_end() -> None:
    """Nothing is left in the loop."""

    async def end() -> None:
        read: list[tuple[float, Peer]] = []
        throttle = ReadThrottle(asyncio.get_running_loop())
        throttle.rest(Peer(read))
        throttle.close()
        await asyncio.sleep(unauthenticated._REST_SECONDS * 1.2)
        assert not read

    asyncio.run(end())
