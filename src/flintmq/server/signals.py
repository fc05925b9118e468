"""Signals to stop, to stop at once, and to read the settings again."""

import asyncio
import os
import signal
from types import FrameType
from typing import Final

_STOP: Final = (signal.SIGTERM, signal.SIGINT)
_STANDARD_ERROR: Final = 2


class Signals:
    """The first SIGTERM or SIGINT sets `stop`, each SIGHUP sets `reload`. A second SIGTERM or SIGINT ends the process.

    That is like a loss of power: confirmed messages are on the disk, and the next start has to recover.
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
        # From now on the loop does not handle these signals, because it waits for the storage at the end.
        for number in _STOP:
            loop.remove_signal_handler(number)
            signal.signal(number, _end_at_once)


def _end_at_once(number: int, _frame: FrameType | None) -> None:
    # Written without the log: the signal may have interrupted a log line, which holds the log's lock.
    os.write(_STANDARD_ERROR, b"flintmq: stopped at once\n")
    os._exit(128 + number)
