"""The intake: what one tick takes in of all connections together, so that no client waits long for another.

Everything that was read is handled before queues are dispatched. What busy publishers send in the meantime delays the
others' deliveries and acknowledgements, so the intake of one tick is bounded in time.
"""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.limits import (
    CLIENT_INTAKE_SECONDS,
    CONTENDED_WORK_UNITS,
    INTAKE_MAX_SECONDS,
    INTAKE_MIN_SECONDS,
    INTAKE_SECONDS,
    MODEST_INTAKE_SECONDS,
    SHARE_MIN_BYTES,
    TICK_READ_BYTES,
    TICK_WORK_UNITS,
)

# The most that one system call reads.
_BUFFER_BYTES: Final = 256 * 1024
# The number of ticks for which shares stay small after several clients were busy, and for which ticks stay short after
# a modest client published something that a consumer waited for.
_CONTENDED_TICKS: Final = 16
_MODEST_TICKS: Final = 64
# The weight of the last tick in the mean cost of a byte, and the most times the mean that one tick counts for: the cost
# is overstated in a tick in which the system ran another process.
_WEIGHT: Final = 0.125
_OUTLIER: Final = 2.0
# While queues are behind, an intake takes at most so many times as long as the last dispatch. The weight is that of the
# last tick in the time of the intake.
_INTAKE_PER_DISPATCH: Final = 2.0
# The time of a dispatch, as so many times that of an intake.
_DISPATCH_PER_INTAKE: Final = 2.0
# The approximate time of a read, whatever its bytes, and the least portion of the measured time that bytes take.
_READ_SECONDS: Final = 0.000_003
_READ_PORTION: Final = 4.0
_MOST_WEIGHT: Final = 0.25


@final
class Intake:
    """The share of each connection, in bytes, and the number of connections that one tick takes in.

    A client that is alone has a share of TICK_READ_BYTES, because large batches cost less per message. While others
    send, too, or queues deliver more slowly than messages arrive, handling the shares of all clients together takes
    INTAKE_SECONDS, and longer with many clients. It takes MODEST_INTAKE_SECONDS if a client with less than its share
    publishes to an empty queue with consumers, and up to INTAKE_MAX_SECONDS if most bytes are for the journal. While
    queues are behind, it takes at most twice as long as their last dispatch.
    """

    def __init__(self) -> None:
        self.share: i64 = TICK_READ_BYTES
        # How many clients that have used up their shares are read again before the next tick. The others have their
        # turn later.
        self.turns: i64 = 0
        # The units of work that one client may cause before the next tick.
        self.work: i64 = TICK_WORK_UNITS
        # When the first bytes since the last tick were handled, by the stopwatch.
        self.began = 0.0
        self._contended: i64 = 0
        self._modest: i64 = 0
        # The time for which queues are dispatched in a tick, while it is bounded.
        self.dispatch_seconds = _DISPATCH_PER_INTAKE * INTAKE_SECONDS
        # The mean number of clients that a tick reads from.
        self._clients = 0.0
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
        self,
        taken: list[int],
        waiting: int,
        seconds: float,
        dispatch_seconds: float,
        is_behind: bool,
        is_modest: bool,
        unsynced: int,
    ) -> None:
        """Compute the shares and turns of the next tick.

        `taken` has the bytes of each connection that was read from, which took `seconds`. `waiting` is the number of
        connections that wait for their turns, and were not read from. `dispatch_seconds` is the time for which the
        queues were dispatched. `is_behind`: consumers take messages more slowly than these arrive. `is_modest`: a
        client that has not used up its share published to an empty queue with consumers. `unsynced` is the number
        of bytes in the journal that are not synced.
        """
        total = sum(taken)
        most = self._bounded(len(taken), is_modest, unsynced / total if total > 0 else 0.0)
        self.dispatch_seconds = _DISPATCH_PER_INTAKE * most
        if self._is_waited_for(taken, waiting, is_behind, seconds + dispatch_seconds > most):
            self._contended = _CONTENDED_TICKS
            self.work = CONTENDED_WORK_UNITS
            # Nothing may have come in yet that turns can be computed from.
            self.turns = max(self.turns, 1)
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
        if is_behind:
            most = max(min(_INTAKE_PER_DISPATCH * dispatch_seconds, most), INTAKE_MIN_SECONDS)
        self._most += (most - self._most) * _MOST_WEIGHT
        most = self._most
        if total == 0 or seconds <= 0.0:
            return
        # A share pays for its bytes, and not for the reads of the others.
        cost = max(seconds - len(taken) * _READ_SECONDS, seconds / _READ_PORTION) / total
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

    def _bounded(self, clients: int, is_modest: bool, unsynced: float) -> float:
        """Return the time that an intake may take, unless queues are behind.

        `unsynced` is the size of what is not synced, as so many times what came in this tick.
        """
        if is_modest and self._contended > 0:
            self._modest = _MODEST_TICKS
        elif self._modest > 0:
            self._modest -= 1
        self._clients += (clients - self._clients) * _MOST_WEIGHT
        base = MODEST_INTAKE_SECONDS if self._modest > 0 else INTAKE_SECONDS
        most = min(base + self._clients * CLIENT_INTAKE_SECONDS, INTAKE_MAX_SECONDS)
        # Durable messages wait for the disk anyway, and cost less in larger batches.
        return most + (INTAKE_MAX_SECONDS - most) * min(unsynced, 1.0)

    def _is_waited_for(self, taken: list[int], waiting: int, is_behind: bool, is_long: bool) -> bool:
        """Return whether clients wait for each other: after a long tick, or while some still use up their shares."""
        if len(taken) + waiting <= 1 and not (is_behind and taken):
            return False
        return is_long or (self._contended > 0 and (waiting > 0 or max(taken, default=0) >= self.share))
