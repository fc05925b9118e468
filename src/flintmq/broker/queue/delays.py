"""Messages that a queue holds back until a time: delayed and scheduled publishes, and retries with a pause.

A publisher can cancel its message by the message-id while it is held.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final, final

from mypy_extensions import i64

from flintmq.base.limits import DUE_STEP_MESSAGES
from flintmq.broker.message import REMOVED, Entry, Message
from flintmq.broker.timers import Timed, Timers

# Entries by message-id and user-id, then by sequence number.
_ByName = dict[tuple[str, str], dict[int, Entry]]
# Cancelled entries are removed from the heap when there are more of them than this, and than others.
_CANCELLED_ENTRIES_MAX: Final = 64


@final
class Delays(Timed):
    """Entries of a queue that are not ready yet. `due` is called for each whose time has come, in order of time."""

    def __init__(self, timers: Timers, due: Callable[[Entry], None]) -> None:
        super().__init__()
        self._timers = timers
        self._due = due
        self._heap: list[tuple[int, int, Entry]] = []
        self._count = 0
        # The index is made at the first cancellation, because most queues never have one.
        self._by_name: _ByName | None = None

    def hold(self, entry: Entry, until_ms: i64) -> None:
        heappush(self._heap, (int(until_ms), int(entry.seq), entry))
        self._count += 1
        if self._by_name is not None:
            self._index(self._by_name, entry)
        self._timers.at(until_ms, self)

    def on_due(self, now_ms: i64) -> None:
        heap = self._heap
        left: i64 = DUE_STEP_MESSAGES
        while heap and heap[0][0] <= now_ms and left > 0:
            entry = heappop(heap)[2]
            left -= 1
            if entry.state != REMOVED:
                self._count -= 1
                if self._by_name is not None:
                    self._unindex(self._by_name, entry)
                self._due(entry)
        if heap:
            # After a step, the rest waits so that others get their turn.
            self._timers.at(max(i64(heap[0][0]), now_ms + 1), self)

    def __len__(self) -> int:
        return self._count

    def entries(self) -> list[Entry]:
        """All held entries, the next due first."""
        return [entry for _, _, entry in sorted(self._heap, key=_time_of) if entry.state != REMOVED]

    def take_some(self, most: int) -> list[Entry]:
        """Take out `most` entries, in no order, because the queue is purged or deleted; empty if there are none."""
        found: list[Entry] = []
        while self._heap and not found:
            found = [entry for _, _, entry in self._heap[-most:] if entry.state != REMOVED]
            del self._heap[-most:]
        self._count -= len(found)
        if self._by_name is not None:
            for entry in found:
                self._unindex(self._by_name, entry)
        if not self._heap:
            self._timers.cancel(self)
        return found

    def cancel(self, command: Message) -> list[Entry]:
        """Take out the entries that a message with x-delay-cancel names.

        An entry with a user-id, which the broker has checked, can only be cancelled by a command with the same user-id.
        """
        if self._by_name is None:
            self._by_name = {}
            for entry in self.entries():
                self._index(self._by_name, entry)
        user = command.codec.property_text(command.properties, "user_id")
        found: list[Entry] = []
        for allowed in [user, ""]:
            found.extend(self._by_name.pop((command.options.cancels, allowed), {}).values())
        for entry in found:
            entry.state = REMOVED
        self._count -= len(found)
        self._remove_cancelled()
        return found

    def _remove_cancelled(self) -> None:
        cancelled = len(self._heap) - self._count
        if cancelled > _CANCELLED_ENTRIES_MAX and cancelled > self._count:
            self._heap = [item for item in self._heap if item[2].state != REMOVED]
            heapify(self._heap)

    def _index(self, index: _ByName, entry: Entry) -> None:
        name = _name_of(entry)
        if name[0]:
            index.setdefault(name, {})[int(entry.seq)] = entry

    def _unindex(self, index: _ByName, entry: Entry) -> None:
        name = _name_of(entry)
        of_name = index.get(name)
        if of_name is not None:
            of_name.pop(int(entry.seq), None)
            if not of_name:
                del index[name]


def _name_of(entry: Entry) -> tuple[str, str]:
    message = entry.message
    codec = message.codec
    return codec.property_text(message.properties, "message_id"), codec.property_text(message.properties, "user_id")


def _time_of(item: tuple[int, int, Entry]) -> tuple[int, int]:
    return item[0], item[1]
