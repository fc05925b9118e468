"""A stream queue as a source: its bounds, and ranges of its offsets."""

from collections.abc import Iterator

import flintmq.client as fc
from flintmq.base.errors import ConfigurationError, PreconditionFailed
from flintmq.spark.client import ReconnectingClient
from flintmq.spark.source.options import EARLIEST, LATEST, AtTime, Bound, ReadOptions
from flintmq.spark.source.prefetcher import Prefetcher
from flintmq.spark.source.queue_source import EVERYTHING, DataLost, QueueSource


class Stream(QueueSource):
    """One stream; its offsets are those of its records."""

    def __init__(self, client: ReconnectingClient, options: ReadOptions, queue: str) -> None:
        self._client = client
        self._queue = queue
        self._options = options
        self._number = 0

    @property
    def number(self) -> int:
        return self._number or self.bounds().number

    def bounds(self, timestamp_ms: int = 0) -> fc.StreamInfo:
        """The first and the next offset, and the first offset at or after a Unix time in ms. Raises FlintError."""
        bounds = self._client.call(lambda channel: channel.stream_query(self._queue, timestamp_ms))
        self._number = bounds.number
        return bounds

    # -- bounds by the options ------------------------------------------------------------------------------------

    def start(self) -> int:
        return self.starting(LATEST)

    def starting(self, default: Bound) -> int:
        """The start offset in the options; `default` if they set none. Raises FlintError."""
        return self._offset("starting", self._options.starting.get(self._queue, default))

    def ending(self) -> int:
        """The end offset in the options; the stream's end if they set none. Raises FlintError."""
        return self._offset("ending", self._options.ending.get(self._queue, LATEST))

    def _offset(self, which: str, wanted: Bound) -> int:
        if isinstance(wanted, AtTime):
            return self.bounds(wanted.timestamp_ms).offset_at
        bounds = self.bounds()
        if wanted == EARLIEST:
            return bounds.first_offset
        if wanted == LATEST:
            return bounds.next_offset
        offset = int(wanted)
        if offset > bounds.next_offset:
            raise ConfigurationError(
                f"the option {which}Offsets is {offset}, and the stream '{self._queue}' ends at {bounds.next_offset}"
            )
        if offset < bounds.first_offset:
            self._missing(offset, bounds.first_offset, bounds.first_offset - offset)
        return max(offset, bounds.first_offset)

    # -- progress --------------------------------------------------------------------------------------------------

    def resume(self, offset: int, number: int) -> int:
        bounds = self.bounds()
        if self._is_another(number, offset, bounds):
            return bounds.first_offset
        if offset < bounds.first_offset:
            self._missing(offset, bounds.first_offset, bounds.first_offset - offset)
        return max(offset, bounds.first_offset)

    def available(self, number: int, start: int, end: int) -> tuple[int, int]:
        return (end, end) if self._is_another(number, start, self.bounds()) else (start, end)

    def _is_another(self, number: int, offset: int, bounds: fc.StreamInfo) -> bool:
        """Whether `offset` is of an earlier stream with this name.

        Raises DataLost if failOnDataLoss is true and it is.
        """
        if offset <= bounds.next_offset and number in (0, bounds.number):
            return False
        if self._options.fail_on_data_loss:
            raise DataLost(
                f"the stream '{self._queue}' was deleted and declared again: it ends at offset {bounds.next_offset}, "
                f"and the earlier stream was read up to {offset}. Start with a new checkpoint location, or set the "
                "option failOnDataLoss to false to read the new one from its start"
            )
        return True

    def end(self) -> int:
        return self.bounds().next_offset

    def extend(self, start: int, messages: int, size: int) -> int:
        end = min(start + messages, self.end())
        if size == EVERYTHING or start == end:
            return end
        return self._client.call(lambda channel: channel.stream_span(self._queue, start, end, size))

    # -- messages -------------------------------------------------------------------------------------------------

    def chunks(self, start: int, end: int) -> Iterator[bytes]:
        """The messages from `start` up to, not including, `end`, as chunks (see wire/amqp091/chunk.py).

        Raises FlintError.
        """
        size = self._options.fetch_bytes
        prefetcher = Prefetcher(self._client, lambda channel, at: channel.stream_chunks(self._queue, at, end, size))
        offset = start
        while offset < end:
            chunk = _chunk_if_exists(prefetcher, offset)
            if chunk is None:
                following = self._after_gap(offset, end)
                self._missing(offset, following, following - offset)
                offset = following
                continue
            gone = chunk.next_offset - offset - chunk.record_count
            if gone:
                self._missing(offset, chunk.next_offset, gone)
            offset = chunk.next_offset
            yield chunk.data

    def _after_gap(self, offset: int, end: int) -> int:
        """The next offset that exists, or `end` if there is none before it."""
        first = self.bounds().first_offset
        return first if offset < first < end else end

    def _missing(self, offset: int, following: int, count: int) -> None:
        """Raise DataLost for missing messages, unless the option failOnDataLoss is false."""
        if self._options.fail_on_data_loss:
            raise DataLost(
                f"{count} of the messages {offset} to {following - 1} of stream '{self._queue}' are gone: retention "
                "dropped them before they were read, the stream was deleted and declared again, or its files are "
                "damaged. To continue without them, set the option failOnDataLoss to false"
            )


def _chunk_if_exists(prefetcher: Prefetcher, offset: int) -> fc.StreamChunk | None:
    """The chunk at this offset; None if the broker no longer has the offset."""
    try:
        return prefetcher.chunk(offset)
    except fc.ChannelClosed as error:
        if error.code == PreconditionFailed.code:
            return None
        raise
