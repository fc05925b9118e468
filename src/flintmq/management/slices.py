"""Work on many objects, in slices: between them the event loop turns, and the broker delivers."""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from time import perf_counter
from typing import Any, Final, TypeVar, final
from weakref import WeakKeyDictionary

# What comes to a broker with nothing else to do waits for one slice at most: that is to be less than it takes anyway.
SLICE_SECONDS: Final = 0.000_1
# Where the others take long, a slice is longer, or nothing would ever be listed on a busy broker: a quarter of what
# they took, which they hardly notice, and never more than this.
OTHERS_SHARE: Final = 0.25
_SLICE_MAX_SECONDS: Final = 0.001
# After so much work the process sleeps as long: one that never does has to queue for its processor, and with it do
# clients on the same machine, for milliseconds. Timers are no finer than this.
PAUSE_SECONDS: Final = 0.001
# However long a slice was, what was work in it is not known for sure: no more of it than this makes others wait.
_OWED_MAX_SECONDS: Final = 0.01
# As many keys are sorted in one go as fit a slice.
_SORTED_AT_ONCE: Final = 64

T = TypeVar("T")
R = TypeVar("R")


@final
class _Scheduler:
    """Whose slice is next, of all work in an event loop: one at a time, however many requests there are.

    After a slice the loop turns twice: in the first turn sockets are read, in the second the broker's tick runs and
    what it delivers is written; with one turn only, the tick would stand behind the next slice.
    """

    def __init__(self) -> None:
        # The loop itself is not kept: these go when it does.
        self._waiting: deque[asyncio.Future[float]] = deque()
        self._is_due = False
        self._has_paused = False
        # How much longer it has worked than rested, as of a time.
        self._debt = 0.0
        self._at = self._ended = perf_counter()

    async def pause(self, began: float) -> float:
        """End a slice that began then; returns how long the next one may be, once it may begin."""
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
            # It may be the loop's end, and a future keeps its loop.
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
        # The kernel likes to wake a client on the processor that its message came from, which is ours: who was sent
        # something must not wait until we sleep.
        os.sched_yield()
        # In a pause the others may have had nothing to do.
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
    """`async for`-less: ask `is_over` in a loop, and await `rest` when it is.

    After an await of anything else, or a `yield`, say that it `waited`: there others work, or nobody does.
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
        """All others have their turn."""
        self._seconds = await self._scheduler.pause(self._began)
        self._began = perf_counter()
        self._ends = self._began + self._seconds

    def waited(self) -> None:
        """For something else: of the time until now, no more was work than a slice may take."""
        self._began = max(self._began, perf_counter() - self._seconds)


async def each(items: Iterable[T], work: Callable[[T], R]) -> list[R]:
    """What `work` makes of each of them. A live collection has to be copied first: it may change between slices."""
    return await gathered(map(work, items))


async def gathered(results: Iterator[R]) -> list[R]:
    """What an iterator gives, taken in slices."""
    made: list[R] = []
    now = Slice()
    for result in results:
        made.append(result)
        if now.is_over:
            await now.pause()
    return made


async def filtered(items: Iterable[T], is_wanted: Callable[[T], bool]) -> list[T]:
    """Those that are wanted, looked at in slices."""
    found: list[T] = []
    now = Slice()
    for item in items:
        if is_wanted(item):
            found.append(item)
        if now.is_over:
            await now.pause()
    return found


async def sorted_by(items: list[T], key: Callable[[T], Any], *, reverse: bool = False) -> list[T]:
    """The items in the order of their keys."""
    runs: list[list[tuple[Any, int, T]]] = []
    now = Slice()
    for start in range(0, len(items), _SORTED_AT_ONCE):
        run = [(key(item), at, item) for at, item in enumerate(items[start : start + _SORTED_AT_ONCE], start)]
        # No two are alike: the place decides, and items need no order of their own.
        run.sort(reverse=reverse)
        runs.append(run)
        if now.is_over:
            await now.pause()
    return await gathered(item for _, _, item in merge(*runs, reverse=reverse))
