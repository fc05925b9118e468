"""The intake: what one tick takes in of all connections together, so that no client waits long for another.

Everything that was read is handled before queues are dispatched. What busy publishers send in the meantime delays the
others' deliveries and acknowledgements, so the intake of one tick is bounded in time.
"""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.limits import (
    CONTENDED_WORK_UNITS,
    INTAKE_MIN_SECONDS,
    INTAKE_SECONDS,
    SHARE_MIN_BYTES,
    SYNCING_INTAKE_SECONDS,
    TICK_READ_BYTES,
    TICK_WORK_UNITS,
)

# The most that one system call reads.
_BUFFER_BYTES: Final = 256 * 1024
# The number of ticks for which shares stay small after several clients were busy.
_CONTENDED_TICKS: Final = 16
# The weight of the last tick in the mean cost of a byte, and the most times the mean that one tick counts for: the cost
# is overstated in a tick in which the system ran another process.
_WEIGHT: Final = 0.125
_OUTLIER: Final = 2.0
# The factors of the time of the intake after a tick in which queues fell behind, and after one in which none did.
_SLOWER: Final = 0.7
_FASTER: Final = 1.1


@final
class Intake:
    """The share of each connection, in bytes, and the number of connections that one tick takes in.

    A client that is alone has a share of TICK_READ_BYTES, because large batches cost less per message. While others
    send, too, or queues deliver more slowly than messages arrive, handling the shares of all clients together takes
    INTAKE_SECONDS, or SYNCING_INTAKE_SECONDS. It takes less while queues are behind, until these keep up.
    """

    def __init__(self) -> None:
        self.share: i64 = TICK_READ_BYTES
        # How many clients that have used up their shares are read again before the next tick. The others have their
        # turn later.
        self.turns: i64 = 0
        # The units of work that one client may cause before the next tick.
        self.work: i64 = TICK_WORK_UNITS
        # The time that handling bytes took since the last tick. Peers add to it.
        self.seconds = 0.0
        self._contended: i64 = 0
        # The time that the intake of a tick may take while it is bounded.
        self._most = INTAKE_SECONDS
        # The mean cost of a byte, measured while shares are bounded by it.
        self._seconds_per_byte = 0.0
        self._buffer = bytearray(_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._view_bytes: i64 = _BUFFER_BYTES

    @property
    def is_contended(self) -> bool:
        """Whether clients wait for each other, so that the work of a tick is bounded in time."""
        return self._contended > 0

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

    def end_tick(
        self, taken: list[int], waiting: int, dispatch_seconds: float, is_behind: bool, is_syncing: bool
    ) -> None:
        """Compute the shares and turns of the next tick.

        `taken` has the bytes of each connection that was read from. `waiting` is the number of connections that wait
        for their turns, and were not read from. `dispatch_seconds` is the time for which the queues were dispatched.
        `is_behind`: consumers take messages more slowly than these arrive. `is_syncing`: the journal has bytes that are
        not synced.
        """
        seconds = self.seconds
        self.seconds = 0.0
        most = SYNCING_INTAKE_SECONDS if is_syncing else INTAKE_SECONDS
        if self._is_waited_for(taken, waiting, is_behind, seconds + dispatch_seconds > most):
            self._contended = _CONTENDED_TICKS
            self.work = CONTENDED_WORK_UNITS
        elif self._contended == 0:
            return
        else:
            self._contended -= 1
            if self._contended == 0:
                self.share = TICK_READ_BYTES
                self.work = TICK_WORK_UNITS
                self.turns = waiting
                self._most = INTAKE_SECONDS
                return
        most = max(self._most * _SLOWER, INTAKE_MIN_SECONDS) if is_behind else min(self._most * _FASTER, most)
        self._most = most
        total = sum(taken)
        if total == 0 or seconds <= 0.0:
            return
        cost = seconds / total
        mean = self._seconds_per_byte
        mean = cost if mean == 0.0 else mean + (min(cost, _OUTLIER * mean) - mean) * _WEIGHT
        self._seconds_per_byte = mean
        budget = most / mean
        fair = budget / (len(taken) + waiting)
        # What modest clients leave of their shares goes to the others.
        left = budget
        greedy = waiting
        for size in taken:
            if size < fair and size < self.share:
                left -= size
            else:
                greedy += 1
        self.share = max(SHARE_MIN_BYTES, min(int(left / max(greedy, 1)), TICK_READ_BYTES))
        self.turns = max(1, int(left / int(self.share)))

    def _is_waited_for(self, taken: list[int], waiting: int, is_behind: bool, is_long: bool) -> bool:
        """Return whether clients wait for each other: after a long tick, or while some still use up their shares."""
        if len(taken) + waiting <= 1 and not (is_behind and taken):
            return False
        return is_long or (self._contended > 0 and (waiting > 0 or max(taken, default=0) >= self.share))
