"""Prefetch of chunks: the broker prepares the next chunk of a range while a task decodes the current one."""

from collections.abc import Callable, Iterator

import flintmq.client as fc
from flintmq.spark.client import ReconnectingClient


class Prefetcher:
    """Requests chunks of one queue in order, and requests them again if the connection is lost.

    `begin` starts a request: it gets a channel and an offset, and returns the chunks from this offset on.
    """

    def __init__(
        self, client: ReconnectingClient, begin: Callable[[fc.Channel, int], Iterator[fc.StreamChunk]]
    ) -> None:
        self._client = client
        self._begin = begin
        self._channel: fc.Channel | None = None
        self._chunks: Iterator[fc.StreamChunk] = iter(())
        # The offset of the next chunk of the current request; -1 if there is no request.
        self._offset = -1

    def chunk(self, offset: int) -> fc.StreamChunk | None:
        """The chunk that begins at this offset or later; None if the broker has no more of them. Raises FlintError."""

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
