"""The stream queue: a log by offset that any number of consumers read, each from an offset of its choice."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import NotImplementedHere, PreconditionFailed, StorageError
from flintmq.base.limits import STREAM_READERS_MAX
from flintmq.broker.arguments import READER
from flintmq.broker.message import UNSENDABLE, Entry, Message, Table
from flintmq.broker.ports import DefinitionStore, StreamLimits, StreamLog
from flintmq.broker.queue.base import Consumer, Queue
from flintmq.broker.queue.reader import Reader, start_offset, stream_filter
from flintmq.broker.queue.reader_offsets import ReaderOffsets
from flintmq.broker.tick import DurableReader, Tick
from flintmq.broker.timers import CallbackTimer

# Bytes that are read ahead for a consumer: a thousand consumers hold 32 MiB, and a consumer that reads a whole stream
# needs 32 reads per megabyte.
_AHEAD_BYTES: Final = 32 * 1024
# Retention by age is applied when a segment file is begun, and also at intervals of a twentieth of the maximum age,
# within these limits.
_AGE_PARTS: Final = 20
_AGE_CHECK_MIN_MS: Final = 1_000
_AGE_CHECK_MAX_MS: Final = 60_000
# The pause between removals while there is more to remove: each takes some tens of milliseconds.
_RETIRE_PAUSE_MS: Final = 200


@final
class StreamQueue(Queue, DurableReader):
    """A stream. Messages stay after delivery; settling one returns credit to its consumer, and advances its place.

    Consumers remember offsets, so they get only durable records: the offset of a message that a crash lost would later
    belong to another one. The `position` of an entry is the number of the reader that has it.
    """

    keeps_all = True

    def __init__(
        self,
        queue_id: int,
        vhost: str,
        name: str,
        arguments: Table,
        tick: Tick,
        log: StreamLog,
        definitions: DefinitionStore,
    ) -> None:
        super().__init__(queue_id, vhost, name, "stream", True, False, None, arguments, tick)
        self.log = log
        self._started_at: i64 = log.next_offset
        # Fetches of ranges since the broker started: the highest end offset, 0 for none, and the time of the last fetch
        # (Unix time in ms). Their readers keep their places themselves.
        self.fetched_offset: i64 = 0
        self.fetched_ms: i64 = 0
        self._readers: list[Reader] = []
        # Readers whose acknowledgements are tracked, by their numbers.
        self._tracked: dict[int, Reader] = {}
        self._numbers = 0
        self._is_waiting = False
        self.reader_offsets = ReaderOffsets(queue_id, tick, definitions)
        self._retention_timer = CallbackTimer(self._retire)
        self.configure(arguments)

    def configure(self, effective: Table) -> None:
        super().configure(effective)
        settings = self.settings
        self.log.limit(StreamLimits(settings.max_bytes, settings.max_age_ms, settings.segment_bytes))
        self.tick.timers.cancel(self._retention_timer)
        if settings.max_bytes >= 0 or settings.max_age_ms >= 0:
            # Retention waits: at start-up, a policy with a larger limit may follow.
            self.tick.timers.at(self.tick.now_ms + 1, self._retention_timer)

    def _retire(self, now_ms: int) -> None:
        """Remove segments that exceed the limits of age or size, and schedule the next check."""
        self.log.retire(now_ms)
        pause: i64 = 0
        if self.settings.max_age_ms >= 0:
            pause = min(max(self.settings.max_age_ms // _AGE_PARTS, _AGE_CHECK_MIN_MS), _AGE_CHECK_MAX_MS)
        if self.log.retires_more:
            pause = _RETIRE_PAUSE_MS
        if pause > 0:
            self.tick.timers.at(now_ms + pause, self._retention_timer)

    # -- messages -----------------------------------------------------------------------------------------------

    def enqueue(self, message: Message) -> Entry | None:
        self.log.append(message)
        if not self._is_ready and self.consumers:
            self.touch()
        return None

    @property
    def message_count(self) -> int:
        return self.log.next_offset - self.log.first_offset

    @property
    def published(self) -> int:
        return int(self.log.next_offset - self._started_at)

    @property
    def ready_bytes(self) -> int:
        """The size of the files, because the bytes of bodies are not counted."""
        return self.log.size_bytes

    def fetched(self, end: i64, count: i64) -> None:
        """Count a fetch of `count` messages that ended before the offset `end`."""
        self.delivered_no_ack += count
        self.fetched_offset = max(self.fetched_offset, end)
        self.fetched_ms = self.tick.now_ms

    def settle(self, entry: Entry) -> None:
        """Count an acknowledgement, and advance the place of its reader. The log keeps the message."""
        self.acked += 1
        self.unacked -= 1
        if self._tracked:
            self._note(entry)

    def reject(self, entry: Entry) -> None:
        """Advance the place of the entry's reader. The log keeps the message."""
        self.unacked -= 1
        if self._tracked:
            self._note(entry)

    def requeue(self, entries: list[Entry]) -> None:
        """Note that entries were returned. A consumer gets them again by subscribing at their offset."""
        self.unacked -= len(entries)
        for entry in entries:
            reader = self._tracked.get(entry.position)
            if reader is not None:
                reader.returned(entry.seq)

    def recall(self, entry: Entry) -> Entry | None:
        message = self.log.cursor(entry.seq, _AHEAD_BYTES).next(entry.seq + 1)
        if message is None:
            return None
        again = Entry(message, entry.seq)
        again.redelivered = True
        return again

    def discard(self) -> None:
        """Forget all readers. The caller deletes the files of the log."""
        self._readers = []
        self._tracked = {}
        self.tick.timers.cancel(self._retention_timer)
        self.reader_offsets.forget()

    def _note(self, entry: Entry) -> None:
        reader = self._tracked.get(entry.position)
        if reader is not None:
            reader.settled(entry.seq)
            self.reader_offsets.store_soon(reader)

    # -- consumers ----------------------------------------------------------------------------------------------

    def subscribe(self, consumer: Consumer, arguments: Table) -> None:
        if consumer.no_ack:
            raise NotImplementedHere(
                f"automatic acknowledgement not supported by stream queue '{self.name}' in vhost '{self.vhost}'"
            )
        offset, since_ms = start_offset(self.log, arguments.get("x-stream-offset", "next"), self.tick.now_ms)
        wanted = stream_filter(arguments)
        name = arguments.get(READER, "")
        assert isinstance(name, str)
        stored = self.reader_offsets.by_name
        if name in stored:
            offset, since_ms = start_offset(self.log, stored[name], self.tick.now_ms)
        elif name and len(stored) >= STREAM_READERS_MAX:
            raise PreconditionFailed(
                f"stream queue '{self.name}' in vhost '{self.vhost}' keeps the places of {STREAM_READERS_MAX} readers: "
                f"use one of their names for '{READER}', or none"
            )
        super().subscribe(consumer, arguments)
        self._numbers += 1
        reader = Reader(self._numbers, consumer, self.log.cursor(offset, _AHEAD_BYTES), wanted, since_ms)
        if wanted is not None:
            reader.cursor.wanted = wanted.occurring
        reader.name = name
        if self.settings.single_active or name:
            reader.group = "" if self.settings.single_active else name
            reader.tracks = True
            # The first offset is stored, too, so that the reader comes back there whatever is published meanwhile.
            reader.is_unkept = True
            reader.is_active = not any(other.group == reader.group for other in self._readers)
            self._tracked[reader.number] = reader
            self.reader_offsets.store_soon(reader)
        self._readers.append(reader)

    def unsubscribe(self, consumer: Consumer) -> None:
        super().unsubscribe(consumer)
        for reader in self._readers:
            if reader.consumer is consumer:
                reader.ended = True
                self.reader_offsets.store(reader)
                self._tracked.pop(reader.number, None)
                self._readers.remove(reader)
                if reader.is_active and reader.group is not None:
                    self._follow(reader)
                break

    def _follow(self, ended: Reader) -> None:
        """Activate the next reader of the group. It goes on at the place of `ended`, wherever it asked to begin."""
        for reader in self._readers:
            if reader.group == ended.group:
                reader.is_active = True
                reader.is_unkept = True
                reader.cursor = self.log.cursor(ended.place, _AHEAD_BYTES)
                if reader.wanted is not None:
                    reader.cursor.wanted = reader.wanted.occurring
                reader.since_ms = ended.since_ms
                self.reader_offsets.store_soon(reader)
                break

    @property
    def readers(self) -> list[Reader]:
        return self._readers[:]

    @property
    def lag(self) -> int:
        """How many messages the slowest reader is behind the end; 0 without readers."""
        end = self.log.next_offset
        return max([end - int(reader.cursor.offset) for reader in self._readers], default=0)

    def available_to(self, consumer: Consumer) -> int:
        """The number of messages from the reader's offset on; it does not get earlier ones."""
        for reader in self._readers:
            if reader.consumer is consumer:
                behind = self.log.next_offset - int(reader.cursor.offset)
                return max(behind, 0) + (reader.held is not None)
        return 0

    # -- the tick -----------------------------------------------------------------------------------------------

    def dispatch(self) -> bool:
        log = self.log
        end = log.durable_offset
        more = False
        for reader in list(self._readers):
            if reader.is_active and not reader.ended:
                more |= self._feed(reader, end)
                self.reader_offsets.store_soon(reader)
        if end < log.next_offset and not self._is_waiting:
            self._is_waiting = True
            self.tick.unsynced.append(self)
        return more

    def synced(self) -> None:
        """Have the stream dispatched, because more messages may be durable."""
        self._is_waiting = False
        self.touch()

    def _feed(self, reader: Reader, end: i64) -> bool:
        consumer = reader.consumer
        cursor = reader.cursor
        is_filtered = reader.wanted is not None or reader.since_ms != 0 or consumer.is_filtered
        burst: i64 = self.tick.dispatch.burst
        while burst > 0 and consumer.can_take():
            message = reader.held
            reader.held = None
            if message is None:
                try:
                    message = cursor.next(end)
                except StorageError as error:
                    consumer.failed(error)
                    return False
                if message is None:
                    # The reader may have moved far, skipping messages that it does not want.
                    reader.is_unkept = reader.tracks
                    return cursor.has_more
                burst -= 1
                if is_filtered:
                    burst -= consumer.matching_cost
                    if not reader.wants(message):
                        reader.is_unkept = True
                        continue
            if consumer.has_byte_window and not consumer.is_within_window(message):
                reader.held = message
                return False
            entry = Entry(message, cursor.offset - 1)
            entry.position = reader.number
            if reader.tracks:
                reader.delivered(entry.seq)
            self.delivered += 1
            self.unacked += 1
            consumer.deliver(self, entry)
            if entry.state == UNSENDABLE:
                # The stream keeps the message, and the reader skips it.
                self.delivered -= 1
                self.discard_unsendable(entry)
        return burst <= 0
