"""Something that runs beside the simulator as a thread would, but only while the simulator waits for it: a thread whose
every step is decided by a seed.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import final

from greenlet import getcurrent, greenlet

from tests.sim.disk import PowerLoss


@final
class Baton:
    """Of the simulator and this thread one runs, and the other waits. It does one piece of work after another.

    It is a greenlet, which has a stack of its own as a thread has one: taking turns with a thread of the system takes
    longer than what is done in most turns.
    """

    def __init__(self) -> None:
        self._thread: greenlet | None = None
        self._is_killed = False

    @property
    def is_idle(self) -> bool:
        """Whether it has nothing to do."""
        return self._thread is None or self._thread.dead

    @property
    def is_here(self) -> bool:
        """Whether who asks is the thread."""
        return getcurrent() is self._thread

    def begin(self, work: Callable[[], None]) -> None:
        """Do this until it stops or ends. Raises what it raises."""
        assert self.is_idle
        self._thread = greenlet(work)
        self._is_killed = False
        self.go_on()

    def go_on(self) -> None:
        """Let the work go on until it stops or ends. Raises what it raises."""
        assert self._thread is not None
        # Whoever lets it go on gets its end, too, and what it raises.
        self._thread.parent = getcurrent()
        # A thread has no event loop.
        loop = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        try:
            self._thread.switch()
        finally:
            asyncio._set_running_loop(loop)

    def stop(self) -> None:
        """From within the work: let the simulator go on. Raises PowerLoss when the work has been killed meanwhile."""
        assert self._thread is not None
        assert self._thread.parent is not None
        self._thread.parent.switch()
        if self._is_killed:
            raise PowerLoss

    def kill(self) -> None:
        """End the work wherever it is."""
        while not self.is_idle:
            self._is_killed = True
            with suppress(PowerLoss):
                self.go_on()
