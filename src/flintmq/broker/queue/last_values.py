"""Last-value queues: of the messages with one key only the newest waits for a consumer (argument x-last-value-key).

The entry that a newer one replaces is settled, but not before the newer one is in the journal: a crash between the two
would leave none. Whatever is found beside its replacement after a restart is replaced again.
"""

from typing import final

from mypy_extensions import i64

from flintmq.broker.fields import Field, key_of
from flintmq.broker.message import Entry, Message


@final
class _Value:
    """The `size` entries of one key on a queue, of which `ready` waits; `newest` is the number of the newest yet."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.ready: Entry | None = None
        self.newest: i64 = -1
        self.size: i64 = 0


@final
class LastValues:
    """`replaced` are entries that were, and are not settled yet."""

    def __init__(self, field: Field) -> None:
        self.replaced: list[Entry] = []
        self._field = field
        self._by_key: dict[str, _Value] = {}
        # By the number of each entry that has a key and is on the queue, ready or in a consumer's hands.
        self._by_seq: dict[int, _Value] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def waiting(self, message: Message) -> Entry | None:
        """The entry that this message would replace."""
        key = key_of(self._field, message)
        value = self._by_key.get(key) if key is not None else None
        return None if value is None else value.ready

    def put(self, entry: Entry) -> Entry | None:
        """An entry becomes ready; returns the one it replaces."""
        key = key_of(self._field, entry.message)
        if key is None:
            return None
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

    def is_outdated(self, entry: Entry) -> bool:
        """Whether a newer one came while this entry was in a consumer's hands."""
        value = self._by_seq.get(int(entry.seq))
        return value is not None and value.newest != entry.seq

    def returned(self, entry: Entry) -> None:
        """An entry is ready once more."""
        value = self._by_seq.get(int(entry.seq))
        if value is not None:
            value.ready = entry

    def left(self, entry: Entry) -> None:
        """An entry is not ready any more."""
        value = self._by_seq.get(int(entry.seq))
        if value is not None and value.ready is entry:
            value.ready = None

    def gone(self, entry: Entry) -> None:
        """An entry has left the queue for good."""
        value = self._by_seq.pop(int(entry.seq), None)
        if value is None:
            return
        if value.ready is entry:
            value.ready = None
        value.size -= 1
        if value.size == 0:
            del self._by_key[value.key]
