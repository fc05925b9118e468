"""The intake: how many bytes of each connection one tick takes in, so that no client waits long for another.

Everything that was read is handled before queues are dispatched. What many busy publishers send in the meantime delays
the others' deliveries and acknowledgements, so the intake of one tick is bounded in time.
"""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.limits import INTAKE_SECONDS, SHARE_MIN_BYTES, SYNCING_INTAKE_SECONDS, TICK_READ_BYTES

# The most that one system call reads.
_BUFFER_BYTES: Final = 256 * 1024
# The number of ticks for which shares stay small after several clients were busy.
_CONTENDED_TICKS: Final = 16
# The weight of the last tick in the mean cost of a byte, and the most times the mean that one tick counts for: the cost
# is overstated in a tick in which the system ran another process.
_WEIGHT: Final = 0.125
_OUTLIER: Final = 2.0


@final
class Intake:
    """The share of each connection: the bytes that one tick takes in of it.

    A client that is alone has a share of TICK_READ_BYTES, because large batches cost less per message. While others
    send, too, or queues deliver more slowly than messages arrive, handling the shares of all clients together takes
    INTAKE_SECONDS, or SYNCING_INTAKE_SECONDS.
    """

    def __init__(self) -> None:
        self.share: i64 = TICK_READ_BYTES
        # The time that handling bytes took since the last tick. Peers add to it.
        self.seconds = 0.0
        self._contended: i64 = 0
        # The mean cost of a byte, measured while shares are bounded by it.
        self._seconds_per_byte = 0.0
        self._buffer = bytearray(_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._view_bytes: i64 = _BUFFER_BYTES

    def buffer(self) -> memoryview:
        """Return the memory for the next read of any connection: as much as its share, or one large read."""
        size: i64 = min(self.share, _BUFFER_BYTES)
        if size != self._view_bytes:
            self._view = memoryview(self._buffer)[:size]
            self._view_bytes = size
        return self._view

    def received(self, size: i64) -> bytes:
        """Return the bytes that were read into `buffer`."""
        return bytes(self._view[:size])

    def end_tick(self, taken: list[int], is_behind: bool, is_syncing: bool) -> None:
        """Compute the shares of the next tick.

        `taken` has the bytes of each connection that was read from. `is_behind`: the broker has work left of this tick,
        such as messages that consumers want. `is_syncing`: the journal has bytes that are not synced.
        """
        seconds = self.seconds
        self.seconds = 0.0
        most = SYNCING_INTAKE_SECONDS if is_syncing else INTAKE_SECONDS
        if seconds > most and (len(taken) > 1 or is_behind):
            self._contended = _CONTENDED_TICKS
        elif self._contended == 0:
            return
        else:
            self._contended -= 1
            if self._contended == 0:
                self.share = TICK_READ_BYTES
                return
        total = sum(taken)
        if total == 0 or seconds <= 0.0:
            return
        cost = seconds / total
        mean = self._seconds_per_byte
        mean = cost if mean == 0.0 else mean + (min(cost, _OUTLIER * mean) - mean) * _WEIGHT
        self._seconds_per_byte = mean
        budget = most / mean
        fair = budget / len(taken)
        # What modest clients leave of their shares goes to the others.
        left = budget
        greedy = 0
        for size in taken:
            if size < fair and size < self.share:
                left -= size
            else:
                greedy += 1
        self.share = max(SHARE_MIN_BYTES, min(int(left / max(greedy, 1)), TICK_READ_BYTES))
