"""Who has not logged in and sends bytes one by one is read from at our pace, and not at its own.

What comes of a crowd at the same moment is read in one turn of the event loop, however much that is. A socket that
rests is not read from until its turn has come; by then all is there that was sent meanwhile.
"""

import asyncio
from collections import deque
from typing import Final, Protocol, final

# A client says what it has to say in pieces of some size, a protocol header at least, and one for each answer; networks
# cut up few of them. Who is taken for another for that loses a quarter of a second.
_SMALL_BYTES: Final = 8
_SMALL_READS_FREE: Final = 1
_READS_FREE: Final = 12
# How long a socket rests at least, and how many are read from at a time: two thousand a second.
_REST_SECONDS: Final = 0.25
_TURN_SECONDS: Final = 0.001
_SOCKETS_PER_TURN: Final = 2


class Trickler(Protocol):
    def read_again(self) -> None: ...


@final
class Reads:
    """Those of one socket before its connection is open."""

    def __init__(self) -> None:
        self._count = 0
        self._small = 0

    def trickle(self, size: int) -> bool:
        """Whether it does, now that so many bytes came."""
        self._count += 1
        self._small += size < _SMALL_BYTES
        return self._small > _SMALL_READS_FREE or self._count > _READS_FREE


@final
class Tricklers:
    """All that rest, in the order in which they began to."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._resting: deque[tuple[float, Trickler]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def rest(self, trickler: Trickler) -> None:
        """Its `read_again` is called when it has rested."""
        self._resting.append((self._loop.time() + _REST_SECONDS, trickler))
        if self._timer is None:
            self._timer = self._loop.call_later(_REST_SECONDS, self._wake)

    def _wake(self) -> None:
        now = self._loop.time()
        for _ in range(_SOCKETS_PER_TURN):
            if not self._resting or self._resting[0][0] > now:
                break
            self._resting.popleft()[1].read_again()
        self._timer = None
        if self._resting:
            self._timer = self._loop.call_at(max(self._resting[0][0], now + _TURN_SECONDS), self._wake)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._resting.clear()
