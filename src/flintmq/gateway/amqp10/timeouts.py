"""Deliveries of a link that its client is too long about (RabbitMQ's consumer timeout).

What is not settled in time goes back to its queue, for others: the client hears that it is released, and gets nothing
more on this link before it has settled that. A delivery that a transaction has acquired, or given an outcome to, is the
transaction's affair; where it is unsettled after the discharge, the client has as long for it as for a new one.
"""

from collections import deque
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from flintmq.broker.message import Entry
from flintmq.broker.timers import Timed, Timers
from flintmq.protocol.amqp10.delivery import OutgoingDelivery

if TYPE_CHECKING:
    from flintmq.gateway.amqp10.outgoing import OutgoingLink

# Deliveries that are looked at once more for whether they are settled, beside twice those that are not.
_WATCHED_MIN: Final = 1024


@final
class Timeouts(Timed):
    """Of one link, in whose `timeout_ms` each of its deliveries is to be settled."""

    def __init__(self, owner: "OutgoingLink", timers: Timers, timeout_ms: i64) -> None:
        super().__init__()
        self._owner = owner
        self._timers = timers
        self._timeout_ms: i64 = timeout_ms
        # In the order in which they were sent, and with it that in which they are due.
        self._watched: deque[tuple[OutgoingDelivery, int]] = deque()
        # What is watched from a later time on: those that stand among the watched with this due time as well.
        self._restarted: dict[OutgoingDelivery, int] = {}
        # What was released because of the time, and what the client has yet to settle.
        self._late: dict[OutgoingDelivery, None] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether the client has to settle something before it gets more."""
        return bool(self._late)

    @property
    def late_count(self) -> int:
        """Deliveries that were released, and that the client has yet to settle."""
        return len(self._late)

    def sent(self, delivery: OutgoingDelivery, now_ms: i64) -> None:
        watched = self._watched
        if len(watched) >= _WATCHED_MIN and len(watched) > 2 * self._owner.link.unsettled:
            watched = deque([each for each in watched if _is_held(each[0])])
            self._watched = watched
            if self._restarted:
                self._restarted = {each: due for each, due in self._restarted.items() if _is_held(each)}
        due_ms = now_ms + self._timeout_ms
        watched.append((delivery, int(due_ms)))
        self._timers.at(due_ms, self)

    def restart(self, delivery: OutgoingDelivery, now_ms: i64) -> None:
        """A transaction is over that had a delivery, and the client still has it."""
        if _is_held(delivery):
            self._restarted[delivery] = int(now_ms + self._timeout_ms)
            self.sent(delivery, now_ms)

    def settled(self, delivery: OutgoingDelivery) -> None:
        """The client has said what it has to of a delivery."""
        if delivery in self._late:
            del self._late[delivery]
            if not self._late:
                self._owner.is_late(False)

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
                # First of all, so that the link does not get again what it gives back.
                self._late[delivery] = None
        if late:
            self._owner.is_late(True)
        for delivery in late:
            self._owner.give_back_late(delivery)
        if watched:
            self._timers.at(watched[0][1], self)

    def end(self) -> None:
        self._timers.cancel(self)
        self._watched.clear()
        self._restarted.clear()
        self._late.clear()


def _is_held(delivery: OutgoingDelivery) -> bool:
    """Whether the client has it, and no outcome was found for it yet."""
    return not delivery.is_settled and isinstance(delivery.mark, Entry)
