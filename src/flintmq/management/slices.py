"""Work on many objects in time slices: between two slices the event loop runs, and the broker delivers."""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from time import perf_counter
from typing import Any, Final, TypeVar, final
from weakref import WeakKeyDictionary

# On an idle broker, a message waits for at most one slice, which must be shorter than the message takes anyway.
SLICE_SECONDS: Final = 0.000_1
# On a busy broker, a slice may be longer, or a list would never be finished: a quarter of the time that the other work
# took, which that work hardly notices, and never more than the maximum.
OTHERS_SHARE: Final = 0.25
_SLICE_MAX_SECONDS: Final = 0.001
# After so much work the process sleeps for the same time. A process that never sleeps has to queue for its processor,
# and clients on the same machine wait for milliseconds. Timers are no finer than this.
PAUSE_SECONDS: Final = 0.001
# The part of a long slice that was really work is unknown, so no more than this counts as work.
_OWED_MAX_SECONDS: Final = 0.01
# So many keys can be sorted within one slice.
_SORTED_AT_ONCE: Final = 64

T = TypeVar("T")
R = TypeVar("R")


@final
class _Scheduler:
    """Schedules the slices of all work in an event loop: one at a time, however many requests there are.

    After a slice, the loop runs two iterations. In the first, sockets are read; in the second, the broker's tick runs
    and its deliveries are written. With one iteration only, the tick would wait for the next slice.
    """

    def __init__(self) -> None:
        # No reference to the loop is stored, so that the scheduler is released together with its loop.
        self._waiting: deque[asyncio.Future[float]] = deque()
        self._is_due = False
        self._has_paused = False
        # The working time that exceeds the pauses, in seconds, and the time at which it was computed.
        self._debt = 0.0
        self._at = self._ended = perf_counter()

    async def pause(self, began: float) -> float:
        """End a slice that began at `began`; return the length of the next one in seconds, once it may begin."""
        self._ended = perf_counter()
        self._settle()
        self._debt += min(2 * (self._ended - began), _OWED_MAX_SECONDS)
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[float] = loop.create_future()
        self._waiting.append(turn)
        if not self._is_due:
            self._is_due = True
            loop.call_soon(self._next)
        try:
            return await turn
        except asyncio.CancelledError:
            # The loop may be ending, and a future holds a reference to its loop.
            if turn in self._waiting:
                self._waiting.remove(turn)
            raise

    def _settle(self) -> None:
        now = perf_counter()
        self._debt = max(self._debt - (now - self._at), 0.0)
        self._at = now

    def _next(self) -> None:
        self._settle()
        if self._debt >= PAUSE_SECONDS:
            self._has_paused = True
            asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._next)
            return
        # The kernel tends to wake a client on the processor that its message came from, which is ours: clients that
        # were sent something must not wait until this process sleeps.
        os.sched_yield()
        # During a pause, the other work may have been idle.
        others = 0.0 if self._has_paused else self._at - self._ended
        self._has_paused = False
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(min(max(others * OTHERS_SHARE, SLICE_SECONDS), _SLICE_MAX_SECONDS))
                break
        self._is_due = bool(self._waiting)
        if self._is_due:
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._next)


_SCHEDULERS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Scheduler]] = WeakKeyDictionary()


def _scheduler() -> _Scheduler:
    loop = asyncio.get_running_loop()
    found = _SCHEDULERS.get(loop)
    if found is None:
        found = _SCHEDULERS[loop] = _Scheduler()
    return found


@final
class Slice:
    """A time slice: check `is_over` in a loop, and await `pause` when it is true.

    Call `waited` after any other await, or a `yield`: that time was not spent on this work.
    """

    def __init__(self) -> None:
        self._scheduler = _scheduler()
        self._seconds = SLICE_SECONDS
        self._began = perf_counter()
        self._ends = self._began + self._seconds

    @property
    def is_over(self) -> bool:
        return perf_counter() >= self._ends

    async def pause(self) -> None:
        """Let the other work run, and begin the next slice."""
        self._seconds = await self._scheduler.pause(self._began)
        self._began = perf_counter()
        self._ends = self._began + self._seconds

    def waited(self) -> None:
        """Report that time was spent waiting; at most the length of a slice counts as work."""
        self._began = max(self._began, perf_counter() - self._seconds)


async def each(items: Iterable[T], work: Callable[[T], R]) -> list[R]:
    """Apply `work` to each item, in slices. Copy a live collection first: it may change between slices."""
    return await gathered(map(work, items))


async def gathered(results: Iterator[R]) -> list[R]:
    """Collect the results of an iterator, in slices."""
    made: list[R] = []
    now = Slice()
    for result in results:
        made.append(result)
        if now.is_over:
            await now.pause()
    return made


async def filtered(items: Iterable[T], is_wanted: Callable[[T], bool]) -> list[T]:
    """Collect the items for which `is_wanted` is true, in slices."""
    found: list[T] = []
    now = Slice()
    for item in items:
        if is_wanted(item):
            found.append(item)
        if now.is_over:
            await now.pause()
    return found


async def sorted_by(items: list[T], key: Callable[[T], Any], *, reverse: bool = False) -> list[T]:
    """Sort items by their keys, in slices. The list is empty afterwards, so that its items can be freed one by one."""
    runs: list[list[tuple[Any, int, T]]] = []
    now = Slice()
    for start in range(0, len(items), _SORTED_AT_ONCE):
        run = [(key(item), at, item) for at, item in enumerate(items[start : start + _SORTED_AT_ONCE], start)]
        # The index makes all tuples different, so that the items themselves are never compared.
        run.sort(reverse=reverse)
        runs.append(run)
        if now.is_over:
            await now.pause()
    items.clear()
    # The keys are freed as they are merged: all at once would be more than a slice.
    return await gathered(item for _, _, item in merge(*map(drained, runs), reverse=reverse))


def drained(items: list[T]) -> Iterator[T]:
    """The items in order, each of which the list no longer has when it comes: who frees them frees one by one."""
    items.reverse()
    while items:
        yield items.pop()
