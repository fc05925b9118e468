"""The thread that writes pages, driven by the simulator: what it is given to do happens some time later."""

import random
from collections import deque
from collections.abc import Callable
from typing import Final, final

from flintmq.storage.pages.spill import SpillRunner
from tests.sim.loop import VirtualLoop

_DELAY_SECONDS: Final = 0.002


@final
class SimulatedSpill(SpillRunner):
    def __init__(self, loop: VirtualLoop, chance: random.Random) -> None:
        self._loop = loop
        self._random = chance
        self._jobs: deque[Callable[[], None]] = deque()

    def submit(self, job: Callable[[], None]) -> None:
        if not self._jobs:
            self._loop.call_later(self._random.random() * _DELAY_SECONDS, self._do_some)
        self._jobs.append(job)

    def _do_some(self) -> None:
        for _ in range(self._random.randrange(len(self._jobs)) + 1 if self._jobs else 0):
            self._jobs.popleft()()
        if self._jobs:
            self._loop.call_later(self._random.random() * _DELAY_SECONDS, self._do_some)

    def close(self) -> None:
        while self._jobs:
            self._jobs.popleft()()
