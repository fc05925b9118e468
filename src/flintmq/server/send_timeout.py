"""The send timeout: a client that reads nothing of its output is disconnected, even if it sends heartbeats.

Such a client keeps messages from other consumers, and memory from all. The kernel takes bytes for a slow reader now and
then, and none for a client that does not read.
"""

import asyncio
from typing import Final, Protocol, final

# Checks per timeout. After the process was stopped only one check is due, so no client is disconnected because of
# that.
_CHECKS: Final = 8


class Reader(Protocol):
    @property
    def taken_bytes(self) -> int:
        """The bytes that the kernel has taken for the client; -1 if no bytes wait to be taken."""

    def disconnect(self, seconds: float) -> None:
        """Disconnect the client, because the kernel has taken nothing for `seconds`."""


@final
class SendTimeout:
    """Clients with unsent output. `seconds` is the timeout; 0 means none. A change applies from the next check on."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self.seconds = seconds
        self._loop = loop
        # For each client: the bytes taken at the last change, and the checks since then.
        self._watched: dict[Reader, tuple[int, int]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, reader: Reader) -> None:
        """Check this client until it has no unsent output."""
        self._watched.setdefault(reader, (reader.taken_bytes, 0))
        if self._timer is None and self.seconds > 0:
            self._timer = self._loop.call_later(self.seconds / _CHECKS, self._check)

    def _check(self) -> None:
        self._timer = None
        for reader, (before, checks) in list(self._watched.items()):
            taken = reader.taken_bytes
            if taken < 0:
                del self._watched[reader]
            elif taken > before:
                self._watched[reader] = (taken, 0)
            elif checks + 1 < _CHECKS:
                self._watched[reader] = (before, checks + 1)
            else:
                del self._watched[reader]
                reader.disconnect(self.seconds)
        if self._watched and self.seconds > 0:
            self._timer = self._loop.call_later(self.seconds / _CHECKS, self._check)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._watched.clear()
