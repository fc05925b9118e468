"""Stalls of the event loop: how late it runs what is due, whatever it did meanwhile."""

import asyncio
import time
from collections.abc import Callable
from typing import Final, final

from flintmq.base.histogram import PERIOD_SECONDS, Histogram, LastMinute
from flintmq.server import logs

log = logs.get_logger()

# The interval of the timer whose lateness is measured. The alarms wake the process as often, and a beat takes 10 us:
# a ten-thousandth of a processor. With a second, most stalls would pass between two beats.
BEAT_SECONDS: Final = 0.1
_BEATS_PER_PERIOD: Final = round(PERIOD_SECONDS / BEAT_SECONDS)
# A stall that clients notice, and that the log tells of.
_LONG_SECONDS: Final = 0.25
# Lines about stalls are no more frequent than this.
_LOG_SECONDS: Final = 10.0
# A beat that is later than this, while this thread worked for less than this part of the time, is late because the
# process was stopped or its machine suspended. Then nobody waited for the broker's work.
_STOPPED_SECONDS: Final = 1.0
_WORKED_PART: Final = 0.1


@final
class Stalls:
    """Measures how late the event loop is. `ticks` has the durations of ticks, which are the most frequent reason.

    A beat is late by what is left of a stall when the beat is due, as a client's request is that arrives at this time.
    So `seconds` shows what clients wait for; a stall itself may be longer by BEAT_SECONDS.

    `clock` and `worked` return seconds: the time, and the processor time of this thread.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        ticks: Histogram,
        clock: Callable[[], float] = time.perf_counter,
        worked: Callable[[], float] = time.thread_time,
    ) -> None:
        self.seconds = Histogram()
        self.last_minute = LastMinute(self.seconds)
        self.ticks_last_minute = LastMinute(ticks)
        self._ticks = ticks
        self._loop = loop
        self._clock = clock
        self._worked = worked
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        # The processor time at the last beat.
        self._worked_before = 0.0
        self._beats = 0
        # Long stalls that the log does not tell of yet, and when it may tell of the next one.
        self._untold = 0
        self._tell_at = 0.0

    def start(self) -> None:
        """Measure from now on, until `close`."""
        self._ticks.take_longest()
        self._next()

    def close(self) -> None:
        """Leave no timer in the event loop."""
        if self._timer is not None:
            self._timer.cancel()

    def _next(self) -> None:
        self._worked_before = self._worked()
        self._due = self._clock() + BEAT_SECONDS
        self._timer = self._loop.call_later(BEAT_SECONDS, self._beat)

    def _beat(self) -> None:
        now = self._clock()
        late = max(now - self._due, 0.0)
        longest_tick = self._ticks.take_longest()
        was_stopped = late > _STOPPED_SECONDS and self._worked() - self._worked_before < late * _WORKED_PART
        if not was_stopped:
            self.seconds.observe(late)
            self.last_minute.note_longest(self.seconds.take_longest())
            self.ticks_last_minute.note_longest(longest_tick)
            if late > _LONG_SECONDS:
                self._tell(now, late, longest_tick)
        self._beats += 1
        if self._beats % _BEATS_PER_PERIOD == 0:
            self.last_minute.turn()
            self.ticks_last_minute.turn()
        self._next()

    def _tell(self, now: float, late: float, longest_tick: float) -> None:
        self._untold += 1
        if now >= self._tell_at:
            self._tell_at = now + _LOG_SECONDS
            log.warning(
                "event loop stalled",
                seconds=round(late, 3),
                longest_tick_seconds=round(longest_tick, 3),
                stalls=self._untold,
            )
            self._untold = 0
