"""The schedule of ticks: when the next one runs, and the broker's time until its end."""

import asyncio
from collections.abc import Callable
from typing import Final, final

from flintmq.base.limits import READ_FIRST_SECONDS
from flintmq.broker.broker import Broker

# A timer that is later than this was delayed because the process was stopped, not by other work.
_LATE_MS: Final = 1_000


def _no_tick() -> None:
    raise AssertionError("the schedule has no tick to run")


@final
class TickSchedule:
    """`clock_ms` returns Unix time in milliseconds. `run` is called for each tick."""

    def __init__(self, loop: asyncio.AbstractEventLoop, broker: Broker, clock_ms: Callable[[], int]) -> None:
        self.clock_ms = clock_ms
        self.run: Callable[[], None] = _no_tick
        # How long what waits in sockets is read, before a timer that may be late is taken seriously.
        self.read_first_seconds = READ_FIRST_SECONDS
        self._loop = loop
        self._broker = broker
        self._is_requested = False
        # Whether the broker's time is that of the next tick.
        self._has_time = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0

    def request(self) -> None:
        """Run a tick after the event loop has handled everything that is ready now."""
        if not self._is_requested:
            self._is_requested = True
            self._loop.call_soon(self.run)

    def now(self) -> float:
        """Set the broker's time, and return the loop's. Must be called before each call of an engine.

        The broker's time does not change from the first call to the end of the tick. Otherwise a message with a TTL of
        0 would expire between its publish and the dispatch of the same tick.
        """
        if not self._has_time:
            self._set_time()
            # The time ends with a tick, so one is needed.
            self.request()
        return self._loop.time()

    def begin_tick(self) -> None:
        """Begin a tick: requests from now on are for the next one."""
        self._is_requested = False
        if not self._has_time:
            self._set_time()

    def end_time(self) -> None:
        """Let the next call of `now` set the broker's time again."""
        self._has_time = False

    def _set_time(self) -> None:
        self._has_time = True
        self._broker.now_ms = self.clock_ms()

    def wake_when_due(self) -> None:
        """Request a tick for the time at which the next message expires or the next delay ends."""
        due_ms = self._broker.next_due_ms
        timer = self._timer
        if due_ms and (timer is None or due_ms < self._timer_ms):
            if timer is not None:
                timer.cancel()
            self._timer_ms = due_ms
            self._timer = self._loop.call_later(max(due_ms - self.clock_ms(), 0) / 1000, self._is_due)

    def _is_due(self) -> None:
        self._timer = None
        if self.clock_ms() - self._timer_ms > _LATE_MS:
            # After the process was stopped, an acknowledgement or a renewed lease that arrived in time may be unread.
            self._loop.call_later(self.read_first_seconds, self.request)
        else:
            self.request()

    def close(self) -> None:
        """Leave no timer in the event loop."""
        if self._timer is not None:
            self._timer.cancel()
