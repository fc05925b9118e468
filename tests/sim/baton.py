"""Something that runs on a thread of its own, but only while the simulator waits for it: a thread whose every step is
decided by a seed.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import final

from tests.sim.disk import PowerLoss


@final
class Baton:
    """Of the simulator and this thread one runs, and the other waits. It does one piece of work after another."""

    def __init__(self) -> None:
        # Whether it has nothing to do.
        self.is_idle = True
        self._work: Callable[[], None] | None = None
        self._fault: BaseException | None = None
        self._is_killed = False
        self._here = threading.Lock()
        self._there = threading.Lock()
        self._here.acquire()
        self._there.acquire()
        self._thread = threading.Thread(target=self._run, name="simulated", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            self._there.acquire()
            work, self._work = self._work, None
            if work is None:
                return
            try:
                work()
            except BaseException as fault:  # noqa: BLE001 - it is raised where the thread was set going
                self._fault = fault
            self.is_idle = True
            self._here.release()

    @property
    def is_here(self) -> bool:
        """Whether who asks is the thread."""
        return threading.get_ident() == self._thread.ident

    def begin(self, work: Callable[[], None]) -> None:
        """Do this until it stops or ends. Raises what it raises."""
        assert self.is_idle
        self._work = work
        self._is_killed = False
        self.is_idle = False
        self.go_on()

    def go_on(self) -> None:
        """Let the work go on until it stops or ends. Raises what it raises."""
        self._there.release()
        self._here.acquire()
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise fault

    def stop(self) -> None:
        """From within the work: let the simulator go on. Raises PowerLoss when the work has been killed meanwhile."""
        self._here.release()
        self._there.acquire()
        if self._is_killed:
            raise PowerLoss

    def kill(self) -> None:
        """End the work wherever it is."""
        while not self.is_idle:
            self._is_killed = True
            with suppress(PowerLoss):
                self.go_on()

    def end(self) -> None:
        """End the thread."""
        self.kill()
        self._there.release()
        self._thread.join()
