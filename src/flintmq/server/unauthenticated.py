"""Read throttle: unauthenticated peers that send many small pieces are read at the broker's pace.

The event loop reads all sockets that have input in one turn. Thousands of peers that send single bytes would therefore
delay the other clients by a tenth of a second and more, again and again until their handshakes time out. A throttled
socket rests instead, and is then read in its turn, with everything that has arrived meanwhile.
"""

import asyncio
from collections import deque
from typing import Final, Protocol, final

# A client sends its handshake in pieces of at least a protocol header, one for each answer, and networks seldom split
# them. A client that is throttled by mistake loses a quarter of a second.
_SMALL_BYTES: Final = 8
_SMALL_READS_FREE: Final = 1
_READS_FREE: Final = 12
# The least rest of a socket, and how many sockets are read at a time: two thousand a second.
_REST_SECONDS: Final = 0.25
_TURN_SECONDS: Final = 0.001
_SOCKETS_PER_TURN: Final = 2


class Throttled(Protocol):
    def end_rest(self) -> None: ...


@final
class HandshakeReads:
    """The reads of one socket before its connection is open."""

    def __init__(self) -> None:
        self._count = 0
        self._small = 0

    def are_too_many(self, size: int) -> bool:
        """Count a read of `size` bytes. Returns whether the socket must rest."""
        self._count += 1
        self._small += size < _SMALL_BYTES
        return self._small > _SMALL_READS_FREE or self._count > _READS_FREE


@final
class ReadThrottle:
    """Pauses the reads of sockets before their login, each for the same time. One timer serves all of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._resting: deque[tuple[float, Throttled]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def rest(self, peer: Throttled) -> None:
        """Call `end_rest` of this peer after its rest."""
        self._resting.append((self._loop.time() + _REST_SECONDS, peer))
        if self._timer is None:
            self._timer = self._loop.call_later(_REST_SECONDS, self._wake)

    def _wake(self) -> None:
        now = self._loop.time()
        for _ in range(_SOCKETS_PER_TURN):
            if not self._resting or self._resting[0][0] > now:
                break
            self._resting.popleft()[1].end_rest()
        self._timer = None
        if self._resting:
            self._timer = self._loop.call_at(max(self._resting[0][0], now + _TURN_SECONDS), self._wake)

    def close(self) -> None:
        """Leave no timer in the event loop, and wake no socket."""
        if self._timer is not None:
            self._timer.cancel()
        self._resting.clear()
