"""Readers that Spark calls: one for batch queries and one for streaming queries."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from flintmq.base.errors import ConfigurationError
from flintmq.spark.client import ReconnectingClient
from flintmq.spark.errors import user_errors
from flintmq.spark.malloc import keep_freed_memory
from flintmq.spark.source.browse import BrowsePartition, browse, browse_partitions
from flintmq.spark.source.decoder import ChunkDecoder
from flintmq.spark.source.lease import Lease
from flintmq.spark.source.offsets import (
    Offset,
    OffsetRange,
    batch_end,
    batch_ranges,
    is_at,
    is_batch_end,
    leases_of,
    numbers_of,
    offsets_of,
    proportions,
    ranges_before,
    saved_offset,
    shares,
    split,
)
from flintmq.spark.source.options import EARLIEST, ReadOptions
from flintmq.spark.source.queue_source import EVERYTHING, DataLost, QueueSource, is_stream
from flintmq.spark.source.stream import Stream
from flintmq.spark.source.trigger import TriggerDelay

# Without new messages, Spark asks about ninety times a second. Each answer therefore waits this long for a message.
IDLE_SECONDS: Final = 0.5
IDLE_POLL_SECONDS: Final = 0.02
# How often a micro-batch is planned again if a queue is lost or declared again at the same time.
_TRIES: Final = 3


def read_partition(options: ReadOptions, schema: StructType, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Read a partition in a task: one record batch for each chunk. The connection ends with the task."""
    assert isinstance(partition, (OffsetRange, BrowsePartition))
    keep_freed_memory()
    queue = partition.queue
    with (
        user_errors(options.endpoint, queue),
        ReconnectingClient(options.endpoint, confirms=False, patient=True, node=_node(partition)) as client,
    ):
        if isinstance(partition, BrowsePartition):
            decoder = ChunkDecoder(schema, queue, partition.partition, knows_times=False)
            chunks = browse(client, partition, options.fetch_bytes)
        else:
            decoder = ChunkDecoder(schema, queue, partition.partition, partition.generation)
            kind = Lease if partition.is_leased else Stream
            chunks = kind(client, options, queue).chunks(partition.start, partition.end)
        for chunk in chunks:
            yield decoder.decode(chunk)


def _node(partition: OffsetRange | BrowsePartition) -> int:
    """The number of the node that a task asks first.

    Each node of a cluster reads streams from its own disk, so their readers are spread over all of them.
    """
    task = TaskContext.get()
    is_stream = isinstance(partition, OffsetRange) and not partition.is_leased
    return task.partitionId() if task is not None and is_stream else 0


class BatchReader(DataSourceReader):
    """Reads ranges of streams, which are fixed when the query is planned, and browses ordinary queues."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        options = self._options
        ranges: list[OffsetRange] = []
        found: list[InputPartition] = []
        with ReconnectingClient(options.endpoint, confirms=False, patient=False) as client:
            for number, queue in enumerate(options.queues):
                with user_errors(options.endpoint, queue):
                    if is_stream(client, queue):
                        ranges.append(self._range(Stream(client, options, queue), queue, number))
                    else:
                        found += browse_partitions(client, options, queue, number)
        found += split(ranges, options.min_partitions, options.max_messages_per_partition)
        # If there are no partitions, Spark adds one that this reader does not know.
        return found or [OffsetRange(options.queues[0], 0, 0, 0)]

    def _range(self, stream: Stream, queue: str, number: int) -> OffsetRange:
        start = stream.starting(EARLIEST)
        end = stream.ending()
        if start > end:
            raise ConfigurationError(
                f"the options set the start to offset {start} of the stream '{queue}' and the end to {end}, which is "
                "before the start"
            )
        return OffsetRange(queue, number, start, end, generation=stream.number)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options, self._schema, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans and reads micro-batches. All methods but `read` run in one process beside the driver, on one connection."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._client: ReconnectingClient | None = None
        self._known: dict[str, QueueSource] = {}
        self._initial: Offset | None = None
        self._begun: tuple[dict[str, int], dict[str, int]] | None = None
        # The ends of the last batch that Spark has planned, and of the last one that it has committed.
        self._planned: Offset | None = None
        self._committed: Offset | None = None
        self._trigger_delay = TriggerDelay(options.min_messages_per_trigger, options.max_trigger_delay_ms / 1000)
        # The ends of the queues when a query with the trigger availableNow began.
        self._available_now: dict[str, int] | None = None

    def initialOffset(self) -> Offset:
        """The start of the query.

        Spark asks repeatedly before the first batch, and "latest" must not move meanwhile.
        """
        if self._initial is None:
            with self._user_errors():
                self._initial = saved_offset(
                    {queue: source.start() for queue, source in self._sources().items()}, **self._numbers()
                )
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.max_messages_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        with self._user_errors():
            self._available_now = {queue: source.end() for queue, source in self._sources().items()}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """The end of the next batch. Spark asks for it only after it has committed everything before `start`."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else EVERYTHING
        with self._user_errors():
            for _ in range(_TRIES - 1):
                try:
                    found = self._next(start, most)
                except DataLost:
                    # Messages were lost during the wait. If that is allowed, the next try uses those that exist.
                    if self._options.fail_on_data_loss:
                        raise
                    continue
                if found is not None:
                    return found
            return self._next(start, most) or start

    def _next(self, start: Offset, most: int) -> Offset | None:
        """The end of the next batch; None if a queue was declared again meanwhile. Raises FlintError."""
        sources = self._sources()
        saved = offsets_of(start, sources)
        numbers = numbers_of(start)
        for queue, (first, end) in ranges_before(start).items():
            sources[queue].check_read(numbers.get(queue, 0), first, end)
        offsets, numbers = (saved, numbers) if is_batch_end(start) else self._begin(saved, numbers)
        since = {
            queue: source.resume(offsets[queue], numbers.get(queue, 0)) if queue in offsets else source.start()
            for queue, source in sources.items()
        }
        before = self._numbers()
        found = self._wait_for_news(since)
        ends = self._extend(since, found, most)
        if ends == since and any(found.values()) and self._available_now is None:
            # A paused queue has messages, but leases none.
            time.sleep(IDLE_SECONDS)
        if self._numbers() != before:
            return None
        return start if is_at(start, ends, **before) else batch_end(since, ends, **before)

    def _begin(self, saved: dict[str, int], numbers: dict[str, int]) -> tuple[dict[str, int], dict[str, int]]:
        """The first offsets of a query without batches, and their leases and streams; kept once known."""
        if self._begun is None:
            sources = self._sources()
            offsets = {queue: sources[queue].begin(at, numbers.get(queue, 0)) for queue, at in saved.items()}
            self._begun = offsets, {queue: source.number for queue, source in sources.items()}
            if self._available_now is not None:
                # The positions of another lease count from 0 again.
                anew = {
                    queue: source.end() for queue, source in sources.items() if source.number != numbers.get(queue, 0)
                }
                self._available_now |= anew
        return self._begun

    def _extend(self, since: dict[str, int], found: dict[str, int], most: int) -> dict[str, int]:
        messages = shares(found, most)
        size = self._options.max_bytes_per_trigger
        sizes = dict.fromkeys(found, EVERYTHING) if size is None else proportions(found, size)
        return {
            queue: source.extend(since[queue], messages[queue], sizes[queue]) if messages[queue] else since[queue]
            for queue, source in self._sources().items()
        }

    def _wait_for_news(self, since: dict[str, int]) -> dict[str, int]:
        """How many new messages each queue has, as soon as there are enough; zeros after IDLE_SECONDS without them."""
        deadline = time.monotonic() + IDLE_SECONDS
        while True:
            ends = {queue: self._end(queue, source) for queue, source in self._sources().items()}
            found = {queue: max(end - since[queue], 0) for queue, end in ends.items()}
            if self._available_now is not None:
                return found
            now = time.monotonic()
            if not any(found.values()):
                self._trigger_delay.reset()
            elif not self._trigger_delay.holds_back(sum(found.values()), now):
                return found
            if now >= deadline:
                return dict.fromkeys(found, 0)
            time.sleep(IDLE_POLL_SECONDS)

    def _end(self, queue: str, source: QueueSource) -> int:
        return source.end() if self._available_now is None else self._available_now.get(queue, 0)

    def reportLatestOffset(self) -> Offset:
        """The ends of all queues, for Spark's progress reports."""
        with self._user_errors():
            try:
                return saved_offset(
                    {queue: source.end() for queue, source in self._sources().items()}, **self._numbers()
                )
            except DataLost:
                if self._options.fail_on_data_loss:
                    raise
                # The next batch begins with the messages that exist.
                return saved_offset({})

    def commit(self, end: Offset) -> None:
        """Note that Spark has committed the batch before `end`. Spark calls this before it plans the next one."""
        self._committed = end

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        options = self._options
        with self._user_errors():
            offsets_of(end, options.queues)
            leases = leases_of(end)
            self._check_progress(start, end)
            numbers = numbers_of(end)
            ranges = [
                OffsetRange(queue, options.queues.index(queue), first, stop, queue in leases, numbers.get(queue, 0))
                for queue, (first, stop) in batch_ranges(start, end).items()
            ]
            # After a restart, an earlier process may have planned this batch.
            available = [self._available(each) for each in ranges]
            return [*split(available, options.min_partitions, options.max_messages_per_partition)]

    def _check_progress(self, start: Offset, end: Offset) -> None:
        """Raises ConfigurationError if Spark plans a batch and has not committed the one before.

        Spark does so if it writes its checkpoint asynchronously. A lease would then have settled messages that the
        checkpoint asks for again after a restart.
        """
        if start == end:
            return
        if start == self._planned and self._committed != start and leases_of(end):
            raise ConfigurationError(
                "the query has the option asyncProgressTrackingEnabled, with which its checkpoint falls behind: "
                "messages of an ordinary queue would be settled before the checkpoint has them, and could not be read "
                "again. Remove the option"
            )
        self._planned = end

    def _available(self, planned: OffsetRange) -> OffsetRange:
        start, end = self._sources()[planned.queue].available(planned.generation, planned.start, planned.end)
        return replace(planned, start=start, end=end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options, self._schema, partition)

    def stop(self) -> None:
        for source in self._known.values():
            source.close()
        if self._client is not None:
            self._client.close()

    def _numbers(self) -> Offset:
        sources = self._sources()
        leases = {queue: source.lease for queue, source in sources.items() if source.lease}
        streams = {queue: source.number for queue, source in sources.items() if source.number and queue not in leases}
        return {"leases": leases, "streams": streams}

    def _user_errors(self) -> AbstractContextManager[None]:
        return user_errors(self._options.endpoint)

    def _sources(self) -> dict[str, QueueSource]:
        """The source of each queue; the broker is asked once which kind each queue is."""
        options = self._options
        if self._client is None:
            self._client = ReconnectingClient(options.endpoint, confirms=False, patient=False)
        if not self._known:
            self._known = {queue: queue_source(self._client, options, queue) for queue in options.queues}
        return self._known


def queue_source(client: ReconnectingClient, options: ReadOptions, queue: str) -> QueueSource:
    """A stream or a lease, by the kind of the queue.

    Raises FlintError; ConfigurationError for options it cannot have.
    """
    if is_stream(client, queue):
        return Stream(client, options, queue)
    return Lease(client, options, queue)
