"""A stream queue seen from Spark: its bounds, and ranges of it."""

from collections.abc import Iterator

import flintmq.client as fc
from flintmq.base.errors import ConfigurationError, FlintError, PreconditionFailed
from flintmq.spark.connecting import Connecting
from flintmq.spark.options import EARLIEST, LATEST, ReadOptions


class DataLost(FlintError):
    """Messages that were to be read are not in the stream any more."""


class Stream:
    def __init__(self, connecting: Connecting, options: ReadOptions) -> None:
        self._connecting = connecting
        self._queue = options.queue
        self._options = options

    def bounds(self, timestamp_ms: int = 0) -> fc.StreamInfo:
        """First and next offset, and the first at or after a time. Raises FlintError."""
        return self._connecting.call(lambda channel: channel.stream_query(self._queue, timestamp_ms))

    def start(self) -> int:
        """Where the options say to start. Raises FlintError."""
        return self._offset("starting", self._options.starting, self._options.starting_timestamp)

    def end(self) -> int:
        """Where the options say to end. Raises FlintError."""
        return self._offset("ending", self._options.ending, self._options.ending_timestamp)

    def _offset(self, which: str, wanted: str | int, timestamp_ms: int | None) -> int:
        bounds = self.bounds(timestamp_ms or 0)
        if timestamp_ms is not None:
            return bounds.offset_at
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

    def chunks(self, start: int, end: int) -> Iterator[bytes]:
        """The messages of a range, as chunks (see wire/amqp091/chunk.py). Raises FlintError."""
        offset = start
        while offset < end:
            chunk = self._fetch(offset, end)
            if chunk is None or chunk.next_offset == offset:
                following = self._behind_gap(offset, end)
                self._missing(offset, following, following - offset)
                offset = following
                continue
            gone = chunk.next_offset - offset - chunk.record_count
            if gone:
                self._missing(offset, chunk.next_offset, gone)
            offset = chunk.next_offset
            yield chunk.data

    def _fetch(self, offset: int, end: int) -> fc.StreamChunk | None:
        """None when the broker does not have this offset any more."""
        size = self._options.fetch_bytes
        try:
            return self._connecting.call(lambda channel: channel.stream_fetch(self._queue, offset, end, size))
        except fc.ChannelClosed as error:
            if error.code == PreconditionFailed.code:
                return None
            raise

    def _behind_gap(self, offset: int, end: int) -> int:
        """The next offset there is, or the end."""
        first = self.bounds().first_offset
        return first if offset < first < end else end

    def _missing(self, offset: int, following: int, count: int) -> None:
        """Raises DataLost unless that was allowed."""
        if self._options.fail_on_data_loss:
            raise DataLost(
                f"{count} of the messages {offset} to {following - 1} of stream '{self._queue}' are gone: retention "
                "dropped them before they were read, the stream was deleted and made anew, or its files are damaged. "
                "To go on without them, set the option failOnDataLoss to false"
            )
