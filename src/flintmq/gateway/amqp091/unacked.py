"""The unsettled deliveries of a channel by delivery tag."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import PreconditionFailed
from flintmq.broker.message import Entry
from flintmq.broker.queue.base import Queue
from flintmq.gateway.amqp091.consumer import ChannelConsumer
from flintmq.wire.amqp091.tables import UINT64_MAX

# Outcomes of deliveries.
ACCEPT: Final = 0
REJECT: Final = 1
REQUEUE: Final = 2
# Settled slots at the front are cut off when there are this many, and half of all: so rarely that it costs nothing.
_TRIM_SLOTS: Final = 1024


@final
class Delivery:
    """An entry that a client has since `since_ms` (Unix time); `consumer` is None for a delivery of basic.get.

    `size` is the number of bytes that windows count. `is_staged`: the commit of a transaction will settle it.
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
    """Unsettled deliveries in a list, since tags are consecutive: `_slots[_head]` is the oldest, with tag `_first`."""

    def __init__(self) -> None:
        self._slots: list[Delivery | None] = []
        self._head: i64 = 0
        self._first: i64 = 1

    def add(self, delivery: Delivery | None) -> i64:
        """Add a delivery and return its tag. None uses a tag for a delivery that needs no settlement."""
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
        """The number of tags from the oldest to the newest, including settled ones: the work to search all."""
        return len(self._slots) - self._head

    def take(self, tag: i64, multiple: bool) -> list[Delivery]:
        """Remove and return the delivery with this tag; with `multiple`, all up to it (0: all).

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
        """Remove the first `count` slots, and settled ones directly after them. Returns their deliveries."""
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
        """Remove the deliveries that a committed transaction settles."""
        slots = self._slots
        before: i64 = self._head - self._first
        for delivery in staged:
            slots[before + delivery.tag] = None
        self._take_front(0)

    def find(self, tag: i64, multiple: bool) -> list[Delivery]:
        """Return what `take` would return, except deliveries that are staged already, and remove nothing.

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
