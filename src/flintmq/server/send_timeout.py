"""A client that reads nothing of what it is sent is cut off in the end, however alive it says it is.

It keeps messages from others and memory from everybody, and heartbeats only tell that somebody is there. What counts is
whether the kernel takes bytes for it: a slow reader takes some, again and again.
"""

import asyncio
from typing import Final, Protocol, final

# How often it is looked within the time that a client has. A process that stood still has looked once meanwhile, not
# more often: nobody is cut off for what the broker did not do.
_LOOKS: Final = 8


class Reader(Protocol):
    @property
    def taken_bytes(self) -> int:
        """How much the kernel has taken for it since it came; -1 where nothing waits to be taken."""

    def cut_off(self, seconds: float) -> None:
        """It has taken nothing for so long."""


@final
class SendTimeout:
    """Those for whom something waits. `seconds` is how long each may take nothing of it; 0 is for ever."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self.seconds = seconds
        self._loop = loop
        # What each had taken at the look before, and how many looks have found the same.
        self._watched: dict[Reader, tuple[int, int]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, reader: Reader) -> None:
        """Something waits for it. It is looked after until nothing does."""
        self._watched.setdefault(reader, (reader.taken_bytes, 0))
        if self._timer is None and self.seconds > 0:
            self._timer = self._loop.call_later(self.seconds / _LOOKS, self._look)

    def _look(self) -> None:
        self._timer = None
        for reader, (before, looks) in list(self._watched.items()):
            taken = reader.taken_bytes
            if taken < 0:
                del self._watched[reader]
            elif taken > before:
                self._watched[reader] = (taken, 0)
            elif looks + 1 < _LOOKS:
                self._watched[reader] = (before, looks + 1)
            else:
                del self._watched[reader]
                reader.cut_off(self.seconds)
        if self._watched and self.seconds > 0:
            self._timer = self._loop.call_later(self.seconds / _LOOKS, self._look)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._watched.clear()
