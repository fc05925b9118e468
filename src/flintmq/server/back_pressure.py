"""Back-pressure: the reasons for which a socket is not read.

A socket is read if and only if it has no reason. Each place that stops reading adds its own reason and removes only
this one, so no place lets a socket be read that another place has stopped.
"""

import asyncio
from typing import Final, final

from mypy_extensions import i64

# The connection has sent as much as a tick handles. The end of the tick removes it.
TICK: Final = 1
# The engine has complete frames left, because the connection has used up its units of work. The next tick continues
# with them.
WORK: Final = 2
# The journal has too many bytes that are not synced. Progress of the storage removes it.
JOURNAL: Final = 4
# The peer does not read its output, of which too much waits. The transport removes it.
OUTPUT: Final = 8
# The engine holds a publish, because memory or disk space is low. The end of the alarm removes it.
ALARM: Final = 16
# Incomplete messages of all connections take too much memory. The round robin removes it.
REASSEMBLY: Final = 32
# The broker stops. Only the close of the connection removes it.
SHUTDOWN: Final = 64
# The peer has not logged in and sends many small pieces. The throttle removes it after a rest.
UNAUTHENTICATED: Final = 128
# The peer publishes to a queue with a large backlog faster than its consumers take messages. New credit removes it.
CREDIT: Final = 256
# The peer's node answers a fetch, and its next method waits. The answer removes it.
DELEGATED: Final = 512

# With any of these, the engine does not continue with frames that it has received, either.
NOT_TAKEN_IN: Final = JOURNAL | OUTPUT | ALARM | REASSEMBLY | CREDIT | DELEGATED
# A connection that waits for the answer to its close is read in spite of these.
BEFORE_CLOSE: Final = TICK | WORK | JOURNAL | OUTPUT | ALARM | REASSEMBLY | SHUTDOWN | CREDIT | DELEGATED


@final
class ReadGate:
    """Pauses a transport with the first reason, and resumes it when the last one is removed."""

    def __init__(self) -> None:
        self.reasons: i64 = 0
        self._transport: asyncio.Transport | None = None

    def attach(self, transport: asyncio.Transport) -> None:
        """Control this transport, which is being read."""
        self._transport = transport

    def detach(self) -> None:
        """Control no transport any more: it is closed."""
        self._transport = None

    def add(self, reasons: i64) -> None:
        """Do not read before these reasons are removed."""
        was_open = self.reasons == 0
        self.reasons |= reasons
        transport = self._transport
        if was_open and transport is not None and not transport.is_closing():
            transport.pause_reading()

    def remove(self, reasons: i64) -> None:
        """Read on, unless other reasons remain. Removing a reason that was not added does nothing."""
        if self.reasons == 0:
            return
        self.reasons &= ~reasons
        transport = self._transport
        if self.reasons == 0 and transport is not None and not transport.is_closing():
            transport.resume_reading()
