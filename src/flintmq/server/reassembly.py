"""Who goes on with messages that have begun, once these hold more memory than the node has for them.

Nobody is refused then: one connection after the other is read from until what it has begun has ended. Whoever could go
on and sends nothing keeps others waiting for no good, and is closed.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, Protocol, final

from flintmq.protocol.assembling import Assembling

_LOOK_SECONDS: Final = 1.0
# How many looks a turn has, while others wait. Each sees as much as a connection sends in a second.
_TURN_LOOKS: Final = 5
# How many looks may find nothing new: looks, and no time, so that nobody pays for a standstill of the broker.
_SILENT_LOOKS: Final = 10


class Assembler(Protocol):
    """One connection."""

    received_bytes: int

    @property
    def assembled_bytes(self) -> int:
        """What is held of messages that it has begun and not ended."""

    @property
    def is_waiting_for_us(self) -> bool:
        """Whether it cannot go on for another reason, such as an alarm."""

    def go_on(self) -> None:
        """It may be read from again."""

    def end_assembly(self) -> None:
        """It could go on, and sends nothing."""


@final
class RoundRobin:
    """`assembling` is the node's account, `connections` are all there are."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        assembling: Assembling,
        connections: Callable[[], Iterable[Assembler]],
    ) -> None:
        self._loop = loop
        self._assembling = assembling
        self._connections = connections
        self._waiting: OrderedDict[Assembler, None] = OrderedDict()
        self._at: Assembler | None = None
        self._looks = 0
        # What each had sent that could go on at the last look, and how many looks have found the same.
        self._silent: dict[Assembler, tuple[int, int]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def must_wait(self, peer: Assembler) -> bool:
        """Whether a connection, of which something came just now, is not to be read from before `go_on`."""
        if peer is self._at:
            if peer.assembled_bytes > 0:
                return False
            self._at = None
            self._next()
            return False
        if peer.assembled_bytes == 0 or not self._assembling.is_full:
            return False
        self._waiting[peer] = None
        if self._timer is None:
            self._timer = self._loop.call_later(_LOOK_SECONDS, self._look)
        if self._at is None:
            # Behind what is being done: it is stopped first.
            self._loop.call_soon(self._next)
        return True

    def gone(self, peer: Assembler) -> None:
        """Its connection has ended, and what it held with it."""
        self._waiting.pop(peer, None)
        self._silent.pop(peer, None)
        if peer is self._at:
            self._at = None
            self._next()

    def _next(self) -> None:
        if not self._assembling.is_full:
            self._release()
        elif self._at is None and self._waiting:
            peer = self._waiting.popitem(last=False)[0]
            self._at = peer
            self._looks = 0
            peer.go_on()

    def _release(self) -> None:
        """There is room again."""
        waiting = self._waiting
        self._waiting = OrderedDict()
        self._at = None
        for peer in waiting:
            peer.go_on()

    def _look(self) -> None:
        self._timer = None
        if self._assembling.is_full:
            self._end_silent()
            self._looks += 1
            at = self._at
            if at is not None and (at.is_waiting_for_us or (self._looks >= _TURN_LOOKS and self._waiting)):
                # It is held back as the others are when more of it comes.
                self._at = None
        self._next()
        if self._waiting or self._at is not None:
            self._timer = self._loop.call_later(_LOOK_SECONDS, self._look)
        else:
            self._silent = {}

    def _end_silent(self) -> None:
        before = self._silent
        self._silent = {}
        for peer in list(self._connections()):
            if peer.assembled_bytes == 0 or peer in self._waiting or peer.is_waiting_for_us:
                continue
            sent, looks = before.get(peer, (-1, 0))
            looks = looks + 1 if sent == peer.received_bytes else 0
            if looks >= _SILENT_LOOKS:
                peer.end_assembly()
            else:
                self._silent[peer] = (peer.received_bytes, looks)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._waiting.clear()
