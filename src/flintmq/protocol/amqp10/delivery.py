"""Deliveries that at least one side has not settled yet, by delivery id."""

from typing import Final, final

from librt.strings import BytesWriter, write_i64_be
from mypy_extensions import i64

from flintmq.base.errors import InvalidField
from flintmq.protocol.amqp10.serial import after, distance
from flintmq.wire.amqp10.states import DeliveryState

# At least this many empty slots at the front are cut off, once they are half of all. Rare enough to cost nothing.
_TRIM_SLOTS: Final = 1024
# With more slots than this per unsettled delivery, the deliveries move into a dict: one delivery that is never settled
# must not keep a slot for each delivery after it.
_SPARSE_FACTOR: Final = 8


class Delivery:
    """A delivery. `id` is its delivery-id in the session; `mark` is any object that the owner wants to keep with it."""

    def __init__(self, delivery_id: i64, mark: object) -> None:
        self.id: i64 = delivery_id
        self.mark = mark
        # The last state that the peer gave.
        self.state: DeliveryState | None = None
        # Whether either side has settled it. It is then in no map of unsettled deliveries.
        self.is_settled = False


def tag_of(number: i64) -> bytes:
    """Return the delivery tag that `SenderLink.send` makes of a number: eight bytes."""
    w = BytesWriter()
    write_i64_be(w, number)
    return w.getvalue()


@final
class Unsettled:
    """The unsettled deliveries of one direction of a session, by id.

    Ids are mostly consecutive, so a list holds them: `_slots[_head]` is the delivery with id `_first`. Deliveries that
    stay unsettled while thousands of later ones are settled move to `_strays`.
    """

    def __init__(self) -> None:
        self._slots: list[Delivery | None] = []
        self._head: i64 = 0
        self._first: i64 = 0
        self._live: i64 = 0
        self._strays: dict[int, Delivery] = {}
        # The number of places that the last call of `between` looked at, which its caller charges as work.
        self.looked_at: i64 = 0

    def __len__(self) -> int:
        return self._live + len(self._strays)

    def add(self, delivery: Delivery) -> None:
        """Add a delivery. Raises InvalidField if another unsettled delivery has its id."""
        slots = self._slots
        size: i64 = len(slots)
        count: i64 = size - self._head
        if self._strays and delivery.id in self._strays:
            raise _taken(delivery.id)
        if count == 0:
            self._first = delivery.id
        else:
            gap: i64 = (delivery.id - self._first) & 0xFFFF_FFFF
            if gap != count:
                if gap < count or gap > count + _TRIM_SLOTS:
                    # A peer may choose any ids, as long as no two unsettled deliveries have the same.
                    if self.get(delivery.id) is not None:
                        raise _taken(delivery.id)
                    self._move_to_strays()
                    self._first = delivery.id
                else:
                    while count < gap:
                        slots.append(None)
                        count += 1
            elif count >= _TRIM_SLOTS and count > _SPARSE_FACTOR * (self._live + 1):
                self._move_to_strays()
                self._first = delivery.id
        self._slots.append(delivery)
        self._live += 1

    def get(self, delivery_id: i64) -> Delivery | None:
        """Return the unsettled delivery with this id, or None."""
        at: i64 = (delivery_id - self._first) & 0xFFFF_FFFF
        if at < len(self._slots) - self._head:
            found = self._slots[self._head + at]
            if found is not None:
                return found
        return self._strays.get(delivery_id) if self._strays else None

    def remove(self, delivery: Delivery) -> None:
        """Remove a delivery. Does nothing if it is not here."""
        slots = self._slots
        head: i64 = self._head
        size: i64 = len(slots)
        at: i64 = (delivery.id - self._first) & 0xFFFF_FFFF
        if at < size - head and slots[head + at] is delivery:
            slots[head + at] = None
            self._live -= 1
            if at == 0:
                while head < size and slots[head] is None:
                    head += 1
                self._first = after(self._first, head - self._head)
                self._head = head
                if head == size:
                    slots.clear()
                    self._head = 0
                elif head >= _TRIM_SLOTS and head * 2 >= size:
                    del slots[:head]
                    self._head = 0
        elif self._strays and self._strays.get(delivery.id) is delivery:
            del self._strays[delivery.id]

    def between(self, first: i64, last: i64) -> list[Delivery]:
        """Return the deliveries with ids from `first` to `last`, inclusive, in order of their ids. Removes nothing."""
        slots = self._slots
        head: i64 = self._head
        found: list[Delivery] = []
        steps: i64 = distance(first, last)
        if steps < 0:
            return found
        strays: i64 = len(self._strays)
        self.looked_at = min(strays, steps + 1)
        if steps < strays:
            for number in range(int(steps) + 1):
                stray = self._strays.get(after(first, number))
                if stray is not None:
                    found.append(stray)
        elif strays > 0:
            found += [each for each in self._strays.values() if (each.id - first) & 0xFFFF_FFFF <= steps]
        at: i64 = distance(self._first, first)
        stop: i64 = at + steps + 1
        if at < 0:
            at = 0
        if stop > len(slots) - head:
            stop = len(slots) - head
        if stop > at:
            self.looked_at += stop - at
        while at < stop:
            slot = slots[head + at]
            if slot is not None:
                found.append(slot)
            at += 1
        if self._strays:
            found.sort(key=lambda each: distance(first, each.id))
        return found

    def all(self) -> list[Delivery]:
        """Return all deliveries, the oldest first."""
        return [*self._strays.values(), *(slot for slot in self._slots[self._head :] if slot is not None)]

    def clear(self) -> None:
        self._slots = []
        self._head = 0
        self._live = 0
        self._strays = {}

    def _move_to_strays(self) -> None:
        for slot in self._slots:
            if slot is not None:
                self._strays[slot.id] = slot
        self._slots = []
        self._head = 0
        self._live = 0


def _taken(delivery_id: i64) -> InvalidField:
    return InvalidField(f"delivery-id {delivery_id} is that of a delivery which is not settled")
