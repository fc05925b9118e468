"""Reassembly in turns: when incomplete messages take more memory than the node has for them.

No connection is refused then. One connection after the other is read until its messages are complete. A connection that
could go on and sends nothing is closed, because the others wait for its memory.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, Protocol, final

from flintmq.protocol.reassembly import NodeReassembly

_CHECK_SECONDS: Final = 1.0
# The length of a turn while others wait, in checks.
_TURN_CHECKS: Final = 5
# A connection is closed after this many checks without new bytes. Checks are counted, not seconds, so that no client
# is closed because the broker was stopped.
_SILENT_CHECKS: Final = 10


class Assembler(Protocol):
    """One connection with incomplete messages."""

    received_bytes: int

    @property
    def assembled_bytes(self) -> int:
        """The bytes of its incomplete messages."""

    @property
    def is_waiting_for_us(self) -> bool:
        """Whether there is another reason for back-pressure, such as an alarm."""

    def resume_reassembly(self) -> None:
        """Read on, because it is its turn."""

    def end_assembly(self) -> None:
        """Close it, because it could continue and sends nothing."""


@final
class RoundRobin:
    """The turns of connections. `assembling` counts the bytes of the node; `connections` returns all open ones."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        assembling: NodeReassembly,
        connections: Callable[[], Iterable[Assembler]],
    ) -> None:
        self._loop = loop
        self._assembling = assembling
        self._connections = connections
        self._waiting: OrderedDict[Assembler, None] = OrderedDict()
        self._at: Assembler | None = None
        self._checks = 0
        # For each connection that could go on: its received bytes at the last change, and the checks since then.
        self._silent: dict[Assembler, tuple[int, int]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def must_wait(self, peer: Assembler) -> bool:
        """Return whether a connection that has just been read must wait for its `resume_reassembly`."""
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
            self._timer = self._loop.call_later(_CHECK_SECONDS, self._check)
        if self._at is None:
            # Later, because the caller stops reading from this connection first.
            self._loop.call_soon(self._next)
        return True

    def gone(self, peer: Assembler) -> None:
        """Forget a connection that has ended and has released its bytes."""
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
            self._checks = 0
            peer.resume_reassembly()

    def _release(self) -> None:
        """Let all connections continue, because there is memory again."""
        waiting = self._waiting
        self._waiting = OrderedDict()
        self._at = None
        for peer in waiting:
            peer.resume_reassembly()

    def _check(self) -> None:
        self._timer = None
        if self._assembling.is_full:
            self._end_silent()
            self._checks += 1
            at = self._at
            if at is not None and (at.is_waiting_for_us or (self._checks >= _TURN_CHECKS and self._waiting)):
                # The turn is over: with its next bytes the connection waits like the others.
                self._at = None
        self._next()
        if self._waiting or self._at is not None:
            self._timer = self._loop.call_later(_CHECK_SECONDS, self._check)
        else:
            self._silent = {}

    def _end_silent(self) -> None:
        before = self._silent
        self._silent = {}
        for peer in list(self._connections()):
            if peer.assembled_bytes == 0 or peer in self._waiting or peer.is_waiting_for_us:
                continue
            sent, checks = before.get(peer, (-1, 0))
            checks = checks + 1 if sent == peer.received_bytes else 0
            if checks >= _SILENT_CHECKS:
                peer.end_assembly()
            else:
                self._silent[peer] = (peer.received_bytes, checks)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._waiting.clear()
