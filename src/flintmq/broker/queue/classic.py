"""The classic queue: in order, each entry to one consumer, gone once settled."""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from flintmq.base.limits import DISPATCH_BURST_MESSAGES
from flintmq.broker.consumer import Consumer
from flintmq.broker.message import Entry, Message, Table
from flintmq.broker.ports import Journal
from flintmq.broker.queue.base import Queue

# Entries of a block: long enough that the bookkeeping per entry vanishes, short enough to be reversed in microseconds.
_BLOCK_ENTRIES: Final = 1024


@final
class ClassicQueue(Queue):
    """Ready entries, oldest first: `_front` backwards, then each block of `_middle`, then `_back`.

    The front is kept newest first so that taking the oldest is a pop from the end of a list, which also lets go of
    it. What comes back was acquired before everything beyond the front, so it is sorted into the front alone.
    """

    def __init__(
        self,
        queue_id: int,
        vhost: str,
        name: str,
        durable: bool,
        auto_delete: bool,
        owner: object | None,
        arguments: Table,
        ready: list[Queue],
        journal: Journal,
    ) -> None:
        super().__init__(queue_id, vhost, name, durable, auto_delete, owner, arguments, ready)
        self._journal = journal
        # An exclusive queue ends with its connection, durable or not.
        self._survives = durable and owner is None
        self._front: list[Entry] = []
        self._middle: deque[list[Entry]] = deque()
        self._back: list[Entry] = []
        # Came back, and not sorted into the front yet: one by one that would take the square of their number.
        self._returned: list[Entry] = []
        self._count: i64 = 0
        self._seq: i64 = 0
        self._turn: i64 = 0

    def enqueue(self, message: Message) -> Entry | None:
        entry = Entry(message, self._seq)
        self._seq += 1
        self._append(entry)
        if not self._is_ready and self.consumers:
            self.touch()
        if message.persistent and self._survives:
            return entry
        return None

    def restore(self, entry: Entry) -> None:
        """Put back an entry that the journal kept; for start-up, in order."""
        self._append(entry)

    def start_at(self, seq: i64) -> None:
        """The number the next entry gets: higher than any the journal still speaks of."""
        self._seq = seq

    @property
    def message_count(self) -> int:
        return self._count

    def get(self) -> Entry | None:
        return self._take() if self._count > 0 else None

    def _append(self, entry: Entry) -> None:
        self._back.append(entry)
        self._count += 1
        if len(self._back) >= _BLOCK_ENTRIES:
            self._middle.append(self._back)
            self._back = []

    def _take(self) -> Entry:
        if self._returned:
            self._front.extend(self._returned)
            self._front.sort(key=_seq_of, reverse=True)
            self._returned = []
        if not self._front:
            if self._middle:
                self._front = self._middle.popleft()
            else:
                self._front = self._back
                self._back = []
            self._front.reverse()
        self._count -= 1
        return self._front.pop()

    def settle(self, entry: Entry) -> None:
        if entry.segment != 0:
            self._journal.settle(self.id, entry)

    def requeue(self, entries: list[Entry]) -> None:
        if self.gone:
            for entry in entries:
                self.settle(entry)
            return
        for entry in entries:
            entry.redelivered = True
        self._returned.extend(entries)
        self._count += len(entries)
        self.touch()

    def purge(self) -> int:
        count = self._count
        while self._count > 0:
            self.settle(self._take())
        return count

    def dispatch(self) -> bool:
        consumers = self.consumers
        if len(consumers) == 1:
            return self._dispatch_to(consumers[0])
        burst: i64 = DISPATCH_BURST_MESSAGES
        while burst > 0:
            if self._count == 0:
                return False
            consumer = self._next_consumer()
            if consumer is None:
                return False
            self._give(consumer)
            burst -= 1
        return True

    def _next_consumer(self) -> Consumer | None:
        """The next one in turn that can take an entry."""
        consumers = self.consumers
        count: i64 = len(consumers)
        tried: i64 = 0
        while tried < count:
            if self._turn >= count:
                self._turn = 0
            consumer = consumers[self._turn]
            self._turn += 1
            if consumer.can_take():
                return consumer
            tried += 1
        return None

    def _dispatch_to(self, consumer: Consumer) -> bool:
        burst: i64 = DISPATCH_BURST_MESSAGES
        while burst > 0:
            if self._count == 0 or not consumer.can_take():
                return False
            self._give(consumer)
            burst -= 1
        return True

    def _give(self, consumer: Consumer) -> None:
        entry = self._take()
        consumer.deliver(self, entry)
        if consumer.no_ack and entry.segment != 0:
            self._journal.settle(self.id, entry)


def _seq_of(entry: Entry) -> int:
    return entry.seq
