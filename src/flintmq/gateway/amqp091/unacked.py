"""Deliveries of a channel that its client has not settled yet, by delivery tag."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import PreconditionFailed
from flintmq.broker.message import Entry
from flintmq.broker.queue.base import Queue
from flintmq.gateway.amqp091.consumer import ChannelConsumer
from flintmq.wire.amqp091.tables import UINT64_MAX

# How a delivery is settled.
ACCEPT: Final = 0
REJECT: Final = 1
REQUEUE: Final = 2
# Settled slots at the front are cut off from here on, once they are half of all: rare enough to be free.
_TRIM_SLOTS: Final = 1024


@final
class Delivery:
    """An entry in a client's hands since `since_ms`; `consumer` is None when it was taken by basic.get.

    `size` is what it takes of windows. `is_staged`: a transaction will settle it once it is committed.
    """

    def __init__(self, entry: Entry, queue: Queue, consumer: ChannelConsumer | None, size: i64, since_ms: i64) -> None:
        self.entry = entry
        self.queue = queue
        self.consumer = consumer
        self.size: i64 = size
        self.since_ms: i64 = since_ms
        self.tag: i64 = 0
        self.is_staged = False


@final
class Unacked:
    """Tags are given out in order, so a list by tag serves: `_slots[_head]` is the oldest, with tag `_first`."""

    def __init__(self) -> None:
        self._slots: list[Delivery | None] = []
        self._head: i64 = 0
        self._first: i64 = 1

    def add(self, delivery: Delivery | None) -> i64:
        """Returns the delivery tag. None uses up a tag for what needs no settlement."""
        slots = self._slots
        if delivery is None and self._head == len(slots):
            tag: i64 = self._first
            self._first += 1
            return tag
        slots.append(delivery)
        last: i64 = self._first + len(slots) - self._head - 1
        if delivery is not None:
            delivery.tag = last
        return last

    @property
    def span(self) -> i64:
        """Tags from the oldest to the newest, the settled ones in between included: what has to be walked through."""
        return len(self._slots) - self._head

    def take(self, tag: i64, multiple: bool) -> list[Delivery]:
        """The delivery of that tag, or all up to it (0: all there are), which are no longer unacknowledged.

        Raises PreconditionFailed for a tag that is not outstanding.
        """
        slots = self._slots
        count: i64 = len(slots) - self._head
        if multiple and tag == 0:
            return self._take_front(count)
        if tag < self._first or tag >= self._first + count:
            raise PreconditionFailed(f"unknown delivery tag {int(tag) & UINT64_MAX}")
        at: i64 = self._head + tag - self._first
        found = slots[at]
        if found is None:
            raise PreconditionFailed(f"unknown delivery tag {tag}")
        if multiple or at == self._head:
            return self._take_front(at + 1 - self._head)
        slots[at] = None
        return [found]

    def _take_front(self, count: i64) -> list[Delivery]:
        """Take out the first `count` slots, and the settled ones behind them."""
        slots = self._slots
        taken: list[Delivery] = []
        head: i64 = self._head
        stop: i64 = head + count
        size: i64 = len(slots)
        while head < size:
            found = slots[head]
            if found is not None:
                if head >= stop:
                    break
                taken.append(found)
                slots[head] = None
            head += 1
        self._first += head - self._head
        self._head = head
        if head == size or (head >= _TRIM_SLOTS and head * 2 >= size):
            del slots[:head]
            self._head = 0
        return taken

    def take_all(self) -> list[Delivery]:
        return self.take(0, True)

    def outstanding(self) -> list[Delivery]:
        """Deliveries that no transaction is going to settle, oldest first. They stay unacknowledged."""
        return [found for found in self._slots[self._head :] if found is not None and not found.is_staged]

    def take_outstanding(self) -> list[Delivery]:
        """Remove and return the deliveries that no transaction is going to settle, oldest first."""
        found: list[Delivery] = []
        slots = self._slots
        at: i64 = self._head
        while at < len(slots):
            delivery = slots[at]
            if delivery is not None and not delivery.is_staged:
                found.append(delivery)
                slots[at] = None
            at += 1
        self._take_front(0)
        return found

    def drop_staged(self, staged: list[Delivery]) -> None:
        """A transaction is committed: what it settles is no longer unacknowledged."""
        slots = self._slots
        before: i64 = self._head - self._first
        for delivery in staged:
            slots[before + delivery.tag] = None
        self._take_front(0)

    def find(self, tag: i64, multiple: bool) -> list[Delivery]:
        """What `take` would give, but for deliveries that are staged already; nothing is taken.

        Raises PreconditionFailed for a tag that is not outstanding.
        """
        count: i64 = len(self._slots) - self._head
        if multiple and tag == 0:
            return self.outstanding()
        if tag < self._first or tag >= self._first + count:
            raise PreconditionFailed(f"unknown delivery tag {int(tag) & UINT64_MAX}")
        at: i64 = self._head + tag - self._first
        found = self._slots[at]
        if found is None or found.is_staged:
            raise PreconditionFailed(f"unknown delivery tag {tag}")
        if not multiple:
            return [found]
        return [each for each in self._slots[self._head : at + 1] if each is not None and not each.is_staged]
