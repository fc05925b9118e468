"""Last-value queues: only the newest message of each key waits for a consumer (queue argument x-last-value-key).

A replaced entry is settled only after the newer one is in the journal, because a crash between the two would leave
none. If a restart finds both, the older one is replaced again.
"""

from collections.abc import Callable
from typing import final

from mypy_extensions import i64

from flintmq.broker.fields import Field, key_of
from flintmq.broker.message import Entry, Message
from flintmq.broker.queue.features import COMING, LEAVING, SETTLEMENT, Feature


@final
class _Value:
    """The `size` entries of one key. `ready` is the one that waits; `newest` is the highest number so far."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.ready: Entry | None = None
        self.newest: i64 = -1
        self.size: i64 = 0


@final
class LastValues(Feature):
    """The entries of a queue by their keys, which are read from `field`.

    An older entry is taken out of the store with `remove` when a newer one has its key, and later settled with `drop`.
    """

    def __init__(self, field: Field, remove: Callable[[Entry], None], drop: Callable[[Entry], None]) -> None:
        self._field = field
        self._remove = remove
        self._drop = drop
        self._by_key: dict[str, _Value] = {}
        # Values by the numbers of their entries on the queue, ready or acquired.
        self._by_seq: dict[int, _Value] = {}
        # Replaced entries that are not settled yet.
        self._replaced: list[Entry] = []

    def __len__(self) -> int:
        return len(self._by_key)

    def hears(self) -> int:
        return COMING | LEAVING | SETTLEMENT

    def waiting(self, message: Message) -> Entry | None:
        """Return the ready entry that this message would replace; None if there is none."""
        key = key_of(self._field, message)
        value = self._by_key.get(key) if key is not None else None
        return None if value is None else value.ready

    def settle_replaced(self) -> None:
        """Settle replaced entries: their replacements are in the journal by now."""
        if self._replaced:
            replaced, self._replaced = self._replaced, []
            for entry in replaced:
                self._drop(entry)

    # -- the life of an entry -----------------------------------------------------------------------------------

    def taken(self, entry: Entry, now_ms: i64) -> None:
        self.settle_replaced()

    def restored(self, entry: Entry, is_outside: bool) -> None:
        if is_outside:
            self.ready(entry)
            self.left(entry)

    def ready(self, entry: Entry) -> bool:
        if not self.returned(entry):
            return False
        key = key_of(self._field, entry.message)
        if key is not None:
            older = self._put(entry, key)
            if older is not None:
                self._remove(older)
                self._forget(older)
                self._replaced.append(older)
        return True

    def _put(self, entry: Entry, key: str) -> Entry | None:
        """Make an entry the newest of its key. Returns the ready entry that it replaces, if any."""
        value = self._by_key.get(key)
        if value is None:
            value = _Value(key)
            self._by_key[key] = value
        older = value.ready
        value.ready = entry
        value.newest = entry.seq
        if int(entry.seq) not in self._by_seq:
            self._by_seq[int(entry.seq)] = value
            value.size += 1
        return older

    def ready_again(self, entry: Entry) -> bool:
        if not self.returned(entry):
            return False
        value = self._by_seq.get(int(entry.seq))
        if value is not None:
            value.ready = entry
        return True

    def left(self, entry: Entry) -> None:
        value = self._by_seq.get(int(entry.seq))
        if value is not None and value.ready is entry:
            value.ready = None

    def returned(self, entry: Entry) -> bool:
        value = self._by_seq.get(int(entry.seq))
        if value is None or value.newest == entry.seq:
            return True
        # A newer entry came while this one was acquired.
        self._drop(entry)
        return False

    def retired(self, entry: Entry) -> None:
        self.settle_replaced()
        self._forget(entry)

    def _forget(self, entry: Entry) -> None:
        value = self._by_seq.pop(int(entry.seq), None)
        if value is None:
            return
        if value.ready is entry:
            value.ready = None
        value.size -= 1
        if value.size == 0:
            del self._by_key[value.key]
