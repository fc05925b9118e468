"""Consumer timeouts of a link (RabbitMQ): a time limit for the client to settle each delivery.

A delivery that is not settled in time is released to its queue. The client is told, and gets nothing more on this link
until it has settled that delivery. A delivery that a transaction has acquired or retired has no limit. If the client
still has it after the discharge, its time begins anew.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from flintmq.broker.message import Entry
from flintmq.broker.timers import Timed, Timers
from flintmq.protocol.amqp10.sender import OutgoingDelivery, SenderLink

# The watch list is cleaned of settled deliveries when it is at least this long, and twice as long as those unsettled.
_WATCHED_MIN: Final = 1024


@final
class Timeouts(Timed):
    """The timeouts of one link: each delivery is to be settled within `timeout_ms` milliseconds.

    `set_late` is called with whether the client holds late deliveries, when that changes. `release` is called with each
    delivery that is late.
    """

    def __init__(
        self,
        link: SenderLink,
        timers: Timers,
        timeout_ms: i64,
        set_late: Callable[[bool], None],
        release: Callable[[OutgoingDelivery], None],
    ) -> None:
        super().__init__()
        self._link = link
        self._timers = timers
        self._set_late = set_late
        self._release = release
        self._timeout_ms: i64 = timeout_ms
        # Deliveries with their due times, in the order in which they were sent, which is that of the due times.
        self._watched: deque[tuple[OutgoingDelivery, int]] = deque()
        # Later due times of deliveries whose time began anew; each is among the watched with both due times.
        self._restarted: dict[OutgoingDelivery, int] = {}
        # Deliveries that were released because of the timeout, and that the client has yet to settle.
        self._late: dict[OutgoingDelivery, None] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether the client has to settle late deliveries before it gets more."""
        return bool(self._late)

    @property
    def late_count(self) -> int:
        """The number of deliveries that were released as late, and that the client has yet to settle."""
        return len(self._late)

    def sent(self, delivery: OutgoingDelivery, now_ms: i64) -> None:
        watched = self._watched
        if len(watched) >= _WATCHED_MIN and len(watched) > 2 * self._link.unsettled:
            watched = deque([each for each in watched if _is_held(each[0])])
            self._watched = watched
            if self._restarted:
                self._restarted = {each: due for each, due in self._restarted.items() if _is_held(each)}
        due_ms = now_ms + self._timeout_ms
        watched.append((delivery, int(due_ms)))
        self._timers.at(due_ms, self)

    def restart(self, delivery: OutgoingDelivery, now_ms: i64) -> None:
        """Begin the time of a delivery anew, if the client still has it: its transaction is over."""
        if _is_held(delivery):
            self._restarted[delivery] = int(now_ms + self._timeout_ms)
            self.sent(delivery, now_ms)

    def settled(self, delivery: OutgoingDelivery) -> None:
        """Note that the client has settled a delivery or given it an outcome."""
        if delivery in self._late:
            del self._late[delivery]
            if not self._late:
                self._set_late(False)

    def on_due(self, now_ms: i64) -> None:
        watched = self._watched
        late: list[OutgoingDelivery] = []
        while watched and (watched[0][1] <= now_ms or not _is_held(watched[0][0])):
            delivery, due_ms = watched.popleft()
            if self._restarted:
                if self._restarted.get(delivery, due_ms) > due_ms:
                    continue
                self._restarted.pop(delivery, None)
            if _is_held(delivery):
                late.append(delivery)
                # All are marked as late before any is released, so that the link does not get them again.
                self._late[delivery] = None
        if late:
            self._set_late(True)
        for delivery in late:
            self._release(delivery)
        if watched:
            self._timers.at(watched[0][1], self)

    def end(self) -> None:
        self._timers.cancel(self)
        self._watched.clear()
        self._restarted.clear()
        self._late.clear()


def _is_held(delivery: OutgoingDelivery) -> bool:
    """Whether the client has the delivery, and it has no outcome yet."""
    return not delivery.is_settled and isinstance(delivery.mark, Entry)
