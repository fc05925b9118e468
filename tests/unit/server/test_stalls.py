"""Stalls of the event loop, on a loop and clocks of the test."""

import asyncio
import logging
from collections.abc import Callable
from typing import cast

import pytest

from flintmq.base.histogram import PERIOD_SECONDS, Histogram
from flintmq.server.stalls import BEAT_SECONDS, Stalls


class Timer:
    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """A loop with one timer, which the test lets run late. `working` is the part of the time that the thread works."""

    def __init__(self) -> None:
        self.now = 100.0
        self.worked = 0.0
        self.ticks = Histogram()
        self.timer = Timer()
        self._delay = 0.0
        self._callback: Callable[[], None] | None = None
        self.stalls = Stalls(cast(asyncio.AbstractEventLoop, self), self.ticks, lambda: self.now, lambda: self.worked)

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        self._delay, self._callback = delay, callback
        return self.timer

    def beat(self, late: float = 0.0, working: float = 1.0) -> None:
        """Run the timer, `late` seconds after it is due."""
        assert self._callback is not None
        self.now += self._delay + late
        self.worked += (self._delay + late) * working
        self._callback()

    @property
    def counted(self) -> int:
        return sum(self.stalls.seconds.counts)


@pytest.fixture
def loop() -> Loop:
    made = Loop()
    made.stalls.start()
    return made


def test_lateness_is_counted(loop: Loop) -> None:
    """Each beat counts as late as it is, and the next one is due an interval after it."""
    loop.beat()
    loop.beat(late=0.03)
    loop.beat(late=0.2)
    loop.beat()
    assert loop.counted == 4
    assert loop.stalls.seconds.total_seconds == pytest.approx(0.23)
    assert loop.stalls.last_minute.longest_seconds == pytest.approx(0.2)


def test_a_stopped_process_is_no_stall(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    """A long time in which the thread did not work is not counted, nor is the tick that it was stopped in."""
    caplog.set_level(logging.WARNING, "flintmq")
    loop.ticks.observe(30.0)
    loop.beat(late=30.0, working=0.01)
    assert loop.counted == 0
    assert loop.stalls.ticks_last_minute.longest_seconds == 0.0
    assert caplog.messages == []
    loop.beat()
    assert loop.counted == 1


@pytest.mark.parametrize(("late", "working"), [(30.0, 0.5), (0.9, 0.0)])
def test_work_and_short_waits_are_stalls(loop: Loop, late: float, working: float) -> None:
    """A long time in which the thread worked is a stall, and so is a short one in which it waited, as for a disk."""
    loop.beat(late=late, working=working)
    assert loop.stalls.last_minute.longest_seconds == pytest.approx(late)


def test_long_stalls_are_logged(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    """The log tells of a long stall with the longest tick of that time, and of those that follow ten seconds later."""
    caplog.set_level(logging.WARNING, "flintmq")
    loop.beat(late=0.24)
    loop.ticks.observe(0.29)
    loop.beat(late=0.3)
    first = "event loop stalled seconds=0.3 longest_tick_seconds=0.29 stalls=1"
    loop.beat(late=0.4)
    loop.beat(late=0.4)
    assert caplog.messages == [first]
    for _ in range(round(10 / BEAT_SECONDS)):
        loop.beat()
    loop.beat(late=0.5)
    assert caplog.messages == [first, "event loop stalled seconds=0.5 longest_tick_seconds=0.0 stalls=3"]


def test_a_minute_is_over(loop: Loop) -> None:
    """Stalls, and the longest tick, are no part of the last minute when it is over."""
    loop.ticks.observe(0.2)
    loop.beat(late=0.2)
    for _ in range(round((60 - PERIOD_SECONDS) / BEAT_SECONDS) - 1):
        loop.beat()
    assert loop.stalls.last_minute.longest_seconds == pytest.approx(0.2)
    assert loop.stalls.ticks_last_minute.longest_seconds == 0.2
    for _ in range(round(PERIOD_SECONDS / BEAT_SECONDS)):
        loop.beat()
    assert loop.stalls.last_minute.longest_seconds == loop.stalls.ticks_last_minute.longest_seconds == 0.0


def test_nothing_is_left_in_the_loop(loop: Loop) -> None:
    """After the end, the timer is cancelled."""
    loop.stalls.close()
    assert loop.timer.is_cancelled
