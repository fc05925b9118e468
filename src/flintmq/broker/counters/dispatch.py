"""The dispatch of a tick: how many messages a queue delivers in its turn, and for how long queues have turns."""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from flintmq.base.limits import CREDIT_BACKLOG_MESSAGES, DISPATCH_BURST_MESSAGES, DISPATCH_TURN_MESSAGES

# An unreachable number of messages.
_NO_LIMIT: Final = 1 << 62


def _no_clock() -> float:
    return 0.0


@final
class Dispatch:
    """The bounds of a dispatch.

    While no client waits for another, each queue has one turn in a tick, of DISPATCH_BURST_MESSAGES. Otherwise turns
    are of DISPATCH_TURN_MESSAGES, and queues have more of them until `seconds` have passed. `clock` returns seconds
    from any start; the owner of the broker sets it.
    """

    def __init__(self) -> None:
        self.clock: Callable[[], float] = _no_clock
        # The time for the turns of one tick; 0.0: it is not bounded.
        self.seconds = 0.0
        # The most messages that a queue delivers in its turn, whether consumers want more or not.
        self.burst: i64 = DISPATCH_BURST_MESSAGES
        # Whether a queue with many messages has consumers that took some in this tick.
        self.is_behind = False
        # The ready messages above which publishers outrun the consumers of a queue. How many messages they published to
        # such queues, and how many the consumers took: whoever reads these counters resets them.
        self.backlog_max: i64 = CREDIT_BACKLOG_MESSAGES
        self.overrun: i64 = 0
        self.taken: i64 = 0
        # How many messages came to empty queues with consumers. Whoever reads it resets it.
        self.awaited: i64 = 0
        self._until = 0.0

    def bound_backlog(self, messages: int) -> None:
        """Let publishers outrun consumers from this number of ready messages on; 0: never."""
        self.backlog_max = messages if messages > 0 else _NO_LIMIT

    def limit(self, seconds: float) -> None:
        """Bound the following dispatches in time; 0.0: do not."""
        self.seconds = seconds
        self.burst = DISPATCH_BURST_MESSAGES if seconds == 0.0 else DISPATCH_TURN_MESSAGES

    def begin(self) -> None:
        """Begin the turns. What a tick does before them, such as expiring messages, takes none of their time."""
        if self.is_bounded:
            self._until = self.clock() + self.seconds

    @property
    def is_bounded(self) -> bool:
        """Whether queues that have more to deliver have further turns in this tick, until the time is over."""
        return self.seconds != 0.0

    def is_over(self) -> bool:
        """Whether the time of this tick's turns is over. It never is if it is not bounded."""
        return self.is_bounded and self.clock() >= self._until
