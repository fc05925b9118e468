"""The interface of a queue to a streaming query, for streams and leased queues: messages have increasing offsets."""

from abc import abstractmethod
from typing import Final

import flintmq.client as fc
from flintmq.base.errors import FlintError, PreconditionFailed
from flintmq.spark.client import ReconnectingClient

# A limit of messages or bytes that is no limit.
EVERYTHING: Final = 1 << 62


class DataLost(FlintError):
    """Messages that the query has to read no longer exist."""


class BatchUnread(FlintError):
    """Spark has committed a batch that no task has read: settling it would lose its messages."""


class QueueSource:
    """One queue, as the driver uses it. All methods and properties raise FlintError."""

    @property
    def lease(self) -> int:
        """The number of the lease that the offsets belong to; 0 for a stream."""
        return 0

    @property
    def number(self) -> int:
        """The number of the lease or stream: it differs from that of an earlier lease or stream of the same name."""
        return self.lease

    def close(self) -> None:
        """End background work. The source is not used afterwards."""

    def begin(self, offset: int, number: int) -> int:
        """The first offset of a query without a batch, whose initial offset was `offset` of the lease or stream
        `number`.
        """
        return self.resume(offset, number)

    @abstractmethod
    def start(self) -> int:
        """The offset at which the options tell the query to start."""

    @abstractmethod
    def resume(self, offset: int, number: int) -> int:
        """The next offset to read, if Spark has committed everything before `offset`. A lease settles that.

        `number` is the number of the lease or stream in the checkpoint; 0 if it has none. Raises DataLost if messages
        from `offset` on no longer exist, unless the option failOnDataLoss is false.
        """

    def check_read(self, number: int, start: int, end: int) -> None:
        """Check that tasks have read a batch that Spark has committed: offsets `start` up to, not including, `end`.

        Raises BatchUnread if the messages would be settled and no task has read them. A stream keeps its messages, and
        does not check.
        """

    def available(self, number: int, start: int, end: int) -> tuple[int, int]:
        """The part of a planned batch that can still be read, as its first offset and its end.

        Raises DataLost if that is not the whole batch, unless the option failOnDataLoss is false.
        """
        return start, end

    @abstractmethod
    def end(self) -> int:
        """The offset after the last message that exists now."""

    @abstractmethod
    def extend(self, start: int, messages: int, size: int) -> int:
        """The end of the next micro-batch, which begins at `start`.

        It has at most `messages` messages and about `size` bytes. A lease leases them.
        """


def is_stream(client: ReconnectingClient, queue: str) -> bool:
    """Whether the queue is a stream. Raises FlintError, for example if there is no such queue."""
    try:
        client.call(lambda channel: channel.stream_query(queue))
    except fc.ChannelClosed as error:
        if error.code == PreconditionFailed.code:
            return False
        raise
    return True
