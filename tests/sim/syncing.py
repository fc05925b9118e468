"""The sync thread, driven by the simulator: its rounds begin late, take their time, and stop at any call to the disk
while the event loop goes on.
"""

import random
from typing import final

from flintmq.storage.group_commit import Batch, GroupCommit, Rounds
from tests.sim.baton import Baton
from tests.sim.loop import VirtualLoop


@final
class SimulatedCommit(GroupCommit):
    """`pause` is to be called at each call to the disk. `submitted` is the newest batch that was handed over."""

    def __init__(self, rounds: Rounds, loop: VirtualLoop, chance: random.Random, baton: Baton) -> None:
        self.rounds = rounds
        self.submitted = 0
        # How long (seconds) a round waits to begin, at most, and how likely a call to the disk takes a while.
        self.delay = 0.002
        self.pauses = 0.1
        # How likely a round runs in one go: most of what can be seen is seen like this, at a tenth of the cost.
        self.in_one_go = 0.7
        self._loop = loop
        self._random = chance
        self._inbox: list[Batch] = []
        self._is_due = False
        self._baton = baton
        self._is_over = False
        # How long the present pause is to be; 0 leaves it to chance.
        self._pause_seconds = 0.0

    def submit(self, batch: Batch) -> None:
        self.submitted = batch.number
        self._inbox.append(batch)
        self._wake(self._random.random() * self.delay)

    def _wake(self, seconds: float) -> None:
        if not self._is_due and self._baton.is_idle and not self._is_over:
            self._is_due = True
            self._loop.call_later(seconds, self._begin)

    def _begin(self) -> None:
        self._is_due = False
        if self._is_over or not self._baton.is_idle:
            return
        gathering_seconds = self.rounds.wait_seconds(self._inbox, self._loop.time())
        if self._inbox and gathering_seconds:
            # A batch that comes before tries again.
            self._loop.call_later(gathering_seconds, self._begin_round)
        else:
            self._begin_round()

    def _begin_round(self) -> None:
        if self._is_over or not self._baton.is_idle:
            return
        if self._random.random() < self.in_one_go:
            self._run_round(False)
            self._ended()
        else:
            self._baton.begin(lambda: self._run_round(False))
            self._went_on()

    def _run_round(self, is_last: bool) -> None:
        batches = self._inbox
        self._inbox = []
        if not self.rounds.round(batches, is_last, self._loop.time()):
            self._is_over = True

    def _go_on(self) -> None:
        if self._is_over:
            return
        self._baton.go_on()
        self._went_on()

    def _went_on(self) -> None:
        if self._baton.is_idle:
            self._ended()
        else:
            self._loop.call_later(self._pause_seconds or self._random.random() * self.delay, self._go_on)

    def _ended(self) -> None:
        if self._is_over:
            return
        self.rounds.end(self._loop.time())
        wait_seconds = self.rounds.wait_seconds(self._inbox, self._loop.time())
        if self._inbox:
            self._wake(self._random.random() * self.delay)
            return
        if wait_seconds is not None:
            self._wake_later(wait_seconds)

    def _wake_later(self, seconds: float) -> None:
        """For a sync that waits for company: a batch that comes before does not have to wait for this."""
        self._loop.call_later(seconds, self._wake, 0.0)

    @property
    def is_here(self) -> bool:
        """Whether who asks is in a round that may pause."""
        return not self._baton.is_idle and self._baton.is_here

    def pause(self, seconds: float = 0.0) -> None:
        """A call to the disk is about to be made: it takes so long, or perhaps a while."""
        if self.is_here and (seconds or self._random.random() < self.pauses):
            self._pause_seconds = seconds
            self._baton.stop()
            self._pause_seconds = 0.0

    def close(self) -> None:
        while not self._baton.is_idle:
            self._baton.go_on()
        if not self._is_over:
            self._run_round(True)
        self._is_over = True

    def kill(self) -> None:
        """The power has failed."""
        self._is_over = True
        self._baton.kill()
