"""The credit of publishers: those that outrun the consumers of a queue are read as fast as its consumers take messages.

RabbitMQ's credit flow does the same: without it, the backlog of a busy queue would grow until memory is low, and then
all publishers would have to wait.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from flintmq.base.limits import CREDIT_MESSAGES_PER_SECOND
from flintmq.broker.counters.dispatch import Dispatch
from flintmq.server.back_pressure import CREDIT

if TYPE_CHECKING:
    from flintmq.server.peer import Peer

# The longest time for which credit is saved, and the time between two grants while no tick runs, in seconds.
_SAVED_SECONDS: Final = 0.01
_PAUSE_SECONDS: Final = 0.001


@final
class Credit:
    """The peers that have published to queues with too large a backlog, in the order in which they are read again.

    Together they may publish as many messages as the consumers of these queues have taken, and at least
    CREDIT_MESSAGES_PER_SECOND.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, dispatch: Dispatch) -> None:
        self._loop = loop
        self._dispatch = dispatch
        # Each peer with the messages that it has published beyond its credit.
        self._waiting: deque[tuple[Peer, int]] = deque()
        self._messages = 0.0
        self._granted = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def charge(self, peer: "Peer", messages: i64) -> None:
        """Do not read a peer until it has credit for the messages that it has published to such queues."""
        if peer.gate.reasons & CREDIT == 0:
            peer.gate.add(CREDIT)
            peer.out_of_credit_at = self._loop.time()
            self._waiting.append((peer, int(messages)))

    def grant(self) -> None:
        """Read on from the peers that have credit again. Each tick calls this."""
        taken = float(self._dispatch.taken)
        self._dispatch.taken = 0
        waiting = self._waiting
        if not waiting:
            return
        now = self._loop.time()
        fresh = max(min(now - self._granted, _SAVED_SECONDS) * CREDIT_MESSAGES_PER_SECOND, taken)
        self._granted = now
        # Credit that nobody used is not saved for long.
        self._messages = min(self._messages + fresh, max(_SAVED_SECONDS * CREDIT_MESSAGES_PER_SECOND, taken))
        while waiting and self._messages > 0.0:
            peer, messages = waiting.popleft()
            self._messages -= messages
            peer.go_on(CREDIT)
        if waiting and self._timer is None:
            self._timer = self._loop.call_later(_PAUSE_SECONDS, self._grant_later)

    def _grant_later(self) -> None:
        self._timer = None
        self.grant()

    def close(self) -> None:
        """Leave no timer in the event loop."""
        if self._timer is not None:
            self._timer.cancel()
