"""Processes of a simulated machine: an event loop and threads that die together, and may stand still together.

There is one time for all processes, that of the world's loop. Of all loops and threads one runs at a time, and a seed
decides which.
"""

import asyncio
import random
import warnings
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar, cast, final

from tests.sim.baton import Baton
from tests.sim.disk import PowerLoss
from tests.sim.loop import Timer, VirtualLoop

# What a killed process was about to wait for.
warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)

T = TypeVar("T")
# A thread goes on at most so long (seconds) after it could.
_LATE_SECONDS: Final = 0.0005


@final
class World:
    """The time and the chance."""

    def __init__(self, chance: random.Random) -> None:
        self.loop = VirtualLoop(0.0)
        self.chance = chance
        # The thread that runs; None while a loop does.
        self.running: SimulatedThread | None = None
        # Told of everything that happens, if somebody wants to know.
        self.trace: Callable[[str], None] | None = None
        # How often threads went on: a part of what makes a run.
        self.count = 0

    @property
    def now(self) -> float:
        return self.loop.time()

    def say(self, *words: object) -> None:
        if self.trace is not None:
            self.trace(" ".join(map(str, words)))


@final
class ProcessLoop(VirtualLoop):
    """The event loop of one process: what it is to do happens in the world's time, unless the process is dead."""

    def __init__(self, process: "Process", world: World) -> None:
        super().__init__(0.0)
        self._process = process
        self._world = world

    def time(self) -> float:
        return self._world.loop.time()

    def call_soon(self, callback: Callable[..., Any], *args: object, context: object = None) -> asyncio.Handle:
        handle = Timer(callback, args)
        self._world.loop.call_soon(self.do, handle)
        return cast(asyncio.Handle, handle)

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: object, context: object = None
    ) -> asyncio.TimerHandle:
        handle = Timer(callback, args)
        self._world.loop.call_later(delay, self.do, handle)
        return cast(asyncio.TimerHandle, handle)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: object, context: object = None
    ) -> asyncio.TimerHandle:
        handle = Timer(callback, args)
        self._world.loop.call_at(when, self.do, handle)
        return cast(asyncio.TimerHandle, handle)

    def do(self, handle: Timer) -> None:
        process = self._process
        if process.is_dead or handle.is_cancelled:
            return
        if process.stands_still:
            process.parked.append(handle)
            return
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            handle.callback(*handle.args)
        except PowerLoss:
            # Whoever raises it ends the process, too.
            assert process.is_dead
        finally:
            asyncio._set_running_loop(before)

    def create_future(self) -> asyncio.Future[Any]:
        if self._process.is_dead:
            raise PowerLoss
        return super().create_future()

    def create_task(self, coro: Coroutine[Any, Any, T], **_: object) -> asyncio.Task[T]:  # type: ignore[override]
        if self._process.is_dead:
            coro.close()
            raise PowerLoss
        task = super().create_task(coro)
        self._process.tasks.append(task)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._process.is_dead:
            self._world.loop.call_exception_handler(context)


@final
class Process:
    """A process. `ended` is called when it has been killed, or its main task is over; with what that has raised."""

    def __init__(self, world: World, name: str, seed: int) -> None:
        self.world = world
        self.name = name
        self.chance = random.Random(seed)
        self.is_dead = False
        # What was to be done while it stands still.
        self.parked: list[Timer] = []
        self._still_until = 0.0
        # When it began to stand still last.
        self._still_since = 0.0
        # When it went on after it stood still.
        self.went_on_at = 0.0
        self.tasks: list[asyncio.Task[Any]] = []
        self.threads: dict[SimulatedThread, None] = {}
        self.loop = ProcessLoop(self, world)

    @property
    def stands_still(self) -> bool:
        return self.world.now < self._still_until

    @property
    def still_seconds(self) -> float:
        """For how long it has been standing still."""
        return self.world.now - self._still_since if self.stands_still else 0.0

    def stand_still(self, seconds: float) -> None:
        if not self.stands_still:
            self._still_since = self.world.now
        self._still_until = max(self._still_until, self.world.now + seconds)
        self.world.loop.call_at(self._still_until, self._go_on)

    def _go_on(self) -> None:
        if self.stands_still:
            return
        self.went_on_at = self.world.now
        parked, self.parked = self.parked, []
        for handle in parked:
            self.world.loop.call_soon(self.loop.do, handle)

    def has_run_for(self, seconds: float) -> bool:
        """Whether it has not stood still for so long."""
        return not self.stands_still and self.world.now - self.went_on_at > seconds

    def start_thread(self, work: Callable[[], None]) -> "SimulatedThread":
        return SimulatedThread(self, work)

    def bury(self) -> None:
        """End everything wherever it is. Its disk must be off: nothing of it may have any effect any more."""
        self.is_dead = True
        for thread in list(self.threads):
            thread.kill()
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self.loop)
        try:
            for task in self.tasks:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    with suppress(BaseException):
                        cast(Coroutine[Any, Any, Any], task.get_coro()).close()
        finally:
            asyncio._set_running_loop(before)
        self.tasks.clear()
        self.parked.clear()


@final
class SimulatedThread:
    """A thread of a process. `wait` and `sleep` are for the thread itself, and all else for others."""

    def __init__(self, process: Process, work: Callable[[], None]) -> None:
        self.is_over = False
        self._process = process
        self._world = process.world
        self._work = work
        self._baton = Baton()
        # What wakes it must name the wait that it ends.
        self._turn = 0
        self._is_woken_in = -1
        self._was_woken = False
        self._joining: list[SimulatedThread] = []
        process.threads[self] = None
        process.loop.call_later(self._late(), self._begin)

    def _late(self) -> float:
        return self._process.chance.random() * _LATE_SECONDS

    def _begin(self) -> None:
        self._run(lambda: self._baton.begin(self._work))

    def _run(self, step: Callable[[], None]) -> None:
        assert self._world.running is None
        self._world.running = self
        self._world.count += 1
        try:
            step()
        finally:
            self._world.running = None
            if self._baton.is_idle:
                self._ended()

    def _ended(self) -> None:
        self.is_over = True
        self._process.threads.pop(self, None)
        for each in self._joining:
            each.wake()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is woken, or so long. Returns whether it was woken."""
        assert self._world.running is self
        if self._process.is_dead:
            raise PowerLoss
        self._turn += 1
        self._was_woken = False
        if seconds is not None:
            self._process.loop.call_later(seconds, self._go_on, self._turn, False)
        self._baton.stop()
        return self._was_woken

    def sleep(self, seconds: float) -> None:
        """Wait so long, whoever wakes it."""
        end = self._world.now + seconds
        while self._world.now < end:
            self.wait(end - self._world.now)

    def wake(self) -> None:
        """Have it go on soon, if it waits."""
        if self._is_woken_in != self._turn:
            self._is_woken_in = self._turn
            self._process.loop.call_later(self._late(), self._go_on, self._turn, True)

    def _go_on(self, turn: int, is_woken: bool) -> None:
        if turn != self._turn or self._baton.is_idle:
            return
        self._turn += 1
        self._was_woken = is_woken
        self._run(self._baton.go_on)

    def join(self) -> None:
        """Wait for its end; for other threads."""
        while not self.is_over:
            waiting = self._world.running
            assert waiting is not None
            self._joining.append(waiting)
            waiting.wait()

    def kill(self) -> None:
        if not self._baton.is_idle:
            outer, self._world.running = self._world.running, self
            try:
                self._baton.kill()
            finally:
                self._world.running = outer
        self._ended()
