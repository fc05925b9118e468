"""Chunk after chunk of a range, the next of which the broker prepares while one is in use."""

from collections.abc import Callable, Iterator

import flintmq.client as fc
from flintmq.spark.client import ReconnectingClient


class Prefetcher:
    """`begin` asks for chunks from an offset on. After a loss of connection that is done again."""

    def __init__(
        self, client: ReconnectingClient, begin: Callable[[fc.Channel, int], Iterator[fc.StreamChunk]]
    ) -> None:
        self._client = client
        self._begin = begin
        self._channel: fc.Channel | None = None
        self._chunks: Iterator[fc.StreamChunk] = iter(())
        # Where they go on.
        self._offset = -1

    def chunk(self, offset: int) -> fc.StreamChunk | None:
        """The next one from this offset on, None when the broker has none. Raises FlintError."""

        def take(channel: fc.Channel) -> fc.StreamChunk | None:
            if channel is not self._channel or offset != self._offset:
                self._channel = channel
                self._chunks = self._begin(channel, offset)
            return next(self._chunks, None)

        try:
            chunk = self._client.call(take)
        except fc.ChannelClosed:
            self._offset = -1
            raise
        self._offset = -1 if chunk is None else chunk.next_offset
        return chunk
