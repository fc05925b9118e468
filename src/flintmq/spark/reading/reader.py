"""Readers of a stream queue: one for a batch, one for micro-batches."""

import time
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from flintmq.base.errors import ConfigurationError
from flintmq.spark.connecting import Connecting
from flintmq.spark.options import ReadOptions
from flintmq.spark.reading.decode import ChunkDecoder
from flintmq.spark.reading.offsets import OffsetRange, Place, batch_end, batch_range, offset_of, place, split
from flintmq.spark.reading.stream import DataLost, Stream

# While there is nothing new, Spark asks some ninety times a second; each answer waits for a message this long at most.
IDLE_SECONDS: Final = 0.5
IDLE_POLL_SECONDS: Final = 0.02


def read_range(options: ReadOptions, schema: StructType, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """What a task does, on an executor: a record batch for each chunk. Its connection ends with it."""
    assert isinstance(partition, OffsetRange)
    decoder = ChunkDecoder(schema, options.queue)
    with Connecting(options.endpoint, confirms=False, patient=True) as connecting:
        for chunk in Stream(connecting, options).chunks(partition.start, partition.end):
            yield decoder.decode(chunk)


class BatchReader(DataSourceReader):
    """A range that is fixed when the query is planned."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        options = self._options
        with Connecting(options.endpoint, confirms=False, patient=False) as connecting:
            stream = Stream(connecting, options)
            start = stream.start()
            end = stream.end()
        if start > end:
            raise ConfigurationError(
                f"the options say to start at offset {start} and to end at {end}, which is before it"
            )
        # Spark puts a partition of its own in the place of none.
        ranges = split(start, end, options.min_partitions, options.max_messages_per_partition)
        return [*ranges] or [OffsetRange(start, start)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(self._options, self._schema, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Micro-batches. All but `read` runs in one process beside the driver, which keeps one connection."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._connecting: Connecting | None = None
        # Where a query that is to read what is there, and then end, ends.
        self._available_now: int | None = None

    def initialOffset(self) -> Place:
        return place(self._options.queue, self._stream().start())

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.max_messages_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        self._available_now = self._stream().bounds().next_offset

    def latestOffset(self, start: Place, limit: ReadLimit) -> Place:
        queue = self._options.queue
        since = offset_of(start, queue)
        end = self._wait_for_news(since) if self._available_now is None else self._available_now
        if end < since:
            return self._made_anew(since, end)
        if isinstance(limit, ReadMaxRows):
            end = min(end, since + limit.max_rows)
        return start if end == since else batch_end(queue, since, end)

    def _wait_for_news(self, since: int) -> int:
        """The stream's end: as soon as it is behind `since`, or when idling has lasted long enough."""
        deadline = time.monotonic() + IDLE_SECONDS
        while True:
            end = self._stream().bounds().next_offset
            if end != since or time.monotonic() >= deadline:
                return end
            time.sleep(IDLE_POLL_SECONDS)

    def _made_anew(self, since: int, end: int) -> Place:
        """The stream ends before the place that was read up to: it is another one of that name."""
        queue = self._options.queue
        if self._options.fail_on_data_loss:
            raise DataLost(
                f"the stream '{queue}' ends at offset {end} and was read up to {since} before: it was deleted and made "
                "anew. Start with a new checkpoint location, or set the option failOnDataLoss to false to read the "
                "new one from its start"
            )
        return batch_end(queue, self._stream().bounds().first_offset, end)

    def reportLatestOffset(self) -> Place:
        return place(self._options.queue, self._stream().bounds().next_offset)

    def partitions(self, start: Place, end: Place) -> list[InputPartition]:
        options = self._options
        first, stop = batch_range(start, end, options.queue)
        return [*split(first, stop, options.min_partitions, options.max_messages_per_partition)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(self._options, self._schema, partition)

    def stop(self) -> None:
        if self._connecting is not None:
            self._connecting.close()

    def _stream(self) -> Stream:
        if self._connecting is None:
            self._connecting = Connecting(self._options.endpoint, confirms=False, patient=False)
        return Stream(self._connecting, self._options)
