"""An event loop without a clock, a socket or a thread: time passes exactly when there is nothing else to do."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from heapq import heappop, heappush
from typing import Any, TypeVar, cast, final

T = TypeVar("T")


@final
class Timer:
    """As much of asyncio's handles as anybody asks for, at a fifth of their cost."""

    __slots__ = ("args", "callback", "is_cancelled")

    def __init__(self, callback: Callable[..., Any], args: tuple[object, ...]) -> None:
        self.callback = callback
        self.args = args
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class VirtualLoop(asyncio.BaseEventLoop):
    """What one callback raises ends `run`: in a simulation nothing may go wrong unnoticed."""

    def __init__(self, now: float) -> None:
        super().__init__()
        self._now = now
        self._due: deque[Timer] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._count = 0
        self._faults: list[BaseException] = []

    def time(self) -> float:
        return self._now

    def stand_still(self, seconds: float) -> None:
        """Time passes, and nothing is done in it: whatever was due by then is late."""
        self._now += seconds

    def run(self, until: float, is_enough: Callable[[], bool] | None = None) -> None:
        """Do all there is to do up to a time, or until there is enough. Raises what a callback raises."""
        ready = self._due
        timers = self._timers
        asyncio._set_running_loop(self)
        try:
            while True:
                while ready:
                    handle = ready.popleft()
                    if not handle.is_cancelled:
                        handle.callback(*handle.args)
                        if self._faults:
                            raise self._faults.pop()
                        if is_enough is not None and is_enough():
                            return
                if not timers or timers[0][0] > until:
                    self._now = max(self._now, until)
                    break
                when, _, timer = heappop(timers)
                self._now = max(self._now, when)
                ready.append(timer)
        finally:
            asyncio._set_running_loop(None)

    def complete(self, work: Coroutine[Any, Any, T], until: float) -> T:
        """Run a coroutine to its end, which has to come before a time."""
        task = asyncio.Task(work, loop=self)
        self.run(until)
        assert task.done(), "it takes for ever"
        return task.result()

    def call_soon(self, callback: Callable[..., Any], *args: object, context: object = None) -> asyncio.Handle:
        handle = Timer(callback, args)
        self._due.append(handle)
        return cast(asyncio.Handle, handle)

    def call_soon_threadsafe(
        self, callback: Callable[..., Any], *args: object, context: object = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args)

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: object, context: object = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: object, context: object = None
    ) -> asyncio.TimerHandle:
        handle = Timer(callback, args)
        self._count += 1
        heappush(self._timers, (when, self._count, handle))
        return cast(asyncio.TimerHandle, handle)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, T], **_: object) -> asyncio.Task[T]:  # type: ignore[override]
        return asyncio.Task(coro, loop=self)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self._faults.append(context.get("exception") or RuntimeError(context["message"]))

    def __del__(self) -> None:
        """There is nothing to close."""
