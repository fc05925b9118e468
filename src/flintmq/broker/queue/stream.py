"""The stream queue: a log by offset that any number of consumers read, each from where it likes."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import NotImplementedHere, PreconditionFailed, StorageError
from flintmq.base.limits import DISPATCH_BURST_MESSAGES
from flintmq.base.values import Timestamp
from flintmq.broker.agenda import Agenda
from flintmq.broker.consumer import Consumer
from flintmq.broker.message import Entry, Message, Table
from flintmq.broker.ports import StreamLog, StreamRecord
from flintmq.broker.queue.base import Queue

# Read ahead for one consumer: a few hundred kilobytes, so that a slow one holds little memory.
_READ_RECORDS: Final = 256
_READ_BYTES: Final = 256 * 1024


@final
class _Cursor:
    """Where one consumer is."""

    def __init__(self, consumer: Consumer, offset: int) -> None:
        self.consumer = consumer
        self.offset = offset
        self.ahead: list[StreamRecord] = []
        # Unsubscribed, perhaps by what happened to another one in the same round.
        self.ended = False


@final
class StreamQueue(Queue):
    """Messages stay after delivery; settling one only gives its consumer credit back.

    Consumers remember offsets, so they get durable records only: the offset of one that a crash took would belong to
    another message.
    """

    keeps_all = True

    def __init__(
        self,
        queue_id: int,
        vhost: str,
        name: str,
        arguments: Table,
        agenda: Agenda,
        log: StreamLog,
    ) -> None:
        super().__init__(queue_id, vhost, name, "stream", True, False, None, arguments, agenda)
        self.log = log
        self._cursors: list[_Cursor] = []
        self._is_waiting = False

    def enqueue(self, message: Message) -> Entry | None:
        self.log.append(message)
        if not self._is_ready and self.consumers:
            self.touch()
        return None

    @property
    def message_count(self) -> int:
        return self.log.next_offset - self.log.first_offset

    def get(self, context: object | None = None) -> Entry | None:
        raise NotImplementedHere(f"basic.get on stream queue '{self.name}': consume from it instead")

    def settle(self, entry: Entry) -> None:
        """The log keeps it."""

    def reject(self, entry: Entry) -> None:
        """The log keeps it."""

    def requeue(self, entries: list[Entry]) -> None:
        """The log still has them, and a consumer that wants them again subscribes at their offset."""

    def purge(self) -> int:
        raise NotImplementedHere(f"queue.purge on stream queue '{self.name}'")

    def discard(self) -> None:
        """The log's files go with it."""
        self._cursors = []

    def subscribe(self, consumer: Consumer, arguments: Table) -> None:
        if consumer.no_ack:
            raise NotImplementedHere(
                f"no-ack consumption of stream queue '{self.name}': acknowledge and set a prefetch"
            )
        offset = self._start_offset(arguments.get("x-stream-offset", "next"))
        super().subscribe(consumer, arguments)
        self._cursors.append(_Cursor(consumer, offset))

    def unsubscribe(self, consumer: Consumer) -> None:
        super().unsubscribe(consumer)
        for cursor in self._cursors:
            cursor.ended = cursor.consumer is consumer
        self._cursors = [cursor for cursor in self._cursors if not cursor.ended]

    def _start_offset(self, wanted: object) -> int:
        log = self.log
        if isinstance(wanted, bool):
            raise self._bad_offset(wanted)
        if isinstance(wanted, int):
            return min(max(wanted, log.first_offset), log.next_offset)
        if wanted == "first":
            return log.first_offset
        if wanted == "last":
            return max(log.next_offset - 1, log.first_offset)
        if wanted == "next":
            return log.next_offset
        if isinstance(wanted, Timestamp):
            return log.offset_at(wanted.seconds * 1000)
        raise self._bad_offset(wanted)

    def _bad_offset(self, wanted: object) -> PreconditionFailed:
        return PreconditionFailed(
            f"invalid arg 'x-stream-offset' for queue '{self.name}' in vhost '{self.vhost}': {wanted!r} is not "
            "first, last, next, an offset or a timestamp"
        )

    def dispatch(self) -> bool:
        log = self.log
        end = log.durable_offset
        more = False
        for cursor in list(self._cursors):
            if not cursor.ended:
                more |= self._feed(cursor, end)
        if end < log.next_offset and not self._is_waiting:
            self._is_waiting = True
            self.agenda.unsynced.append(self)
        return more

    def synced(self) -> None:
        """More may be durable now."""
        self._is_waiting = False
        self.touch()

    def _feed(self, cursor: _Cursor, end: int) -> bool:
        consumer = cursor.consumer
        burst: i64 = DISPATCH_BURST_MESSAGES
        while burst > 0 and consumer.can_take():
            if not cursor.ahead:
                if cursor.offset >= end:
                    return False
                try:
                    records = self.log.read(cursor.offset, min(end - cursor.offset, _READ_RECORDS), _READ_BYTES)
                except StorageError as error:
                    consumer.failed(error)
                    return False
                while records and records[-1].offset >= end:
                    # Records between were damaged and set aside, so the count reached too far.
                    records.pop()
                if not records:
                    cursor.offset = end
                    return False
                records.reverse()
                cursor.ahead = records
            record = cursor.ahead.pop()
            cursor.offset = record.offset + 1
            burst -= 1
            if consumer.is_choosy:
                burst -= consumer.suiting_cost
                if not consumer.suits(record.message):
                    continue
            consumer.deliver(self, Entry(record.message, record.offset))
        return burst <= 0
