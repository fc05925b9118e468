"""Signals: stop, stop at once, read the settings again."""

import asyncio
import os
import signal
from types import FrameType
from typing import Final

_STOP: Final = (signal.SIGTERM, signal.SIGINT)
_STANDARD_ERROR: Final = 2


class Signals:
    """`stop` is set by the first SIGTERM or SIGINT, `reload` by each SIGHUP. A second one to stop ends the process.

    That is no worse than a loss of power: what was confirmed is on the disk, and the next start has to recover.
    """

    def __init__(self) -> None:
        self.stop: Final = asyncio.Event()
        self.reload: Final = asyncio.Event()

    def install(self, loop: asyncio.AbstractEventLoop) -> None:
        for number in _STOP:
            loop.add_signal_handler(number, self._told_to_stop, loop)
        loop.add_signal_handler(signal.SIGHUP, self.reload.set)

    def _told_to_stop(self, loop: asyncio.AbstractEventLoop) -> None:
        self.stop.set()
        # Not by the loop from now on, which waits for the storage in the end.
        for number in _STOP:
            loop.remove_signal_handler(number)
            signal.signal(number, _end_at_once)


def _end_at_once(number: int, _frame: FrameType | None) -> None:
    # Not by the log: this interrupts whatever is going on, and a line that is being written holds the log's lock.
    os.write(_STANDARD_ERROR, b"flintmq: stopped at once\n")
    os._exit(128 + number)
