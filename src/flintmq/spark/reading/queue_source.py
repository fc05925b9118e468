"""What a query that goes on asks of a queue, be it a stream or leased: its messages have numbers that only grow."""

from abc import abstractmethod
from typing import Final

import flintmq.client as fc
from flintmq.base.errors import FlintError, PreconditionFailed
from flintmq.spark.client import ReconnectingClient

EVERYTHING: Final = 1 << 62


class DataLost(FlintError):
    """Messages that were to be read are not there any more."""


class BatchUnread(FlintError):
    """Spark has committed a batch whose messages no task has asked for: with it, they would be gone."""


class QueueSource:
    """One queue, as the driver sees it. All methods raise FlintError."""

    @property
    def lease(self) -> int:
        """Which lease the offsets belong to, 0 for a stream's. Raises FlintError."""
        return 0

    @property
    def number(self) -> int:
        """Which one it is of those that have the queue's name one after the other. Raises FlintError."""
        return self.lease

    def close(self) -> None:
        """Nobody asks any more."""

    def begin(self, offset: int, number: int) -> int:
        """Where a query begins that has had no batch yet, and whose options say this place. Raises FlintError."""
        return self.resume(offset, number)

    @abstractmethod
    def start(self) -> int:
        """Where the options say to start."""

    @abstractmethod
    def resume(self, offset: int, number: int) -> int:
        """Where to go on after all before `offset` has been read, and Spark has it. Raises DataLost if it cannot.

        `number` is what that was when this offset was noted, 0 where it was not.
        """

    def check_read(self, number: int, start: int, end: int) -> None:
        """Spark says that it is done with this batch. Raises BatchUnread where it goes by that and nobody has read it.

        A stream keeps its messages, whatever Spark says.
        """

    def available(self, number: int, start: int, end: int) -> tuple[int, int]:
        """What can be read of a batch of this one. Raises DataLost where that is not all, unless that is allowed."""
        return start, end

    @abstractmethod
    def end(self) -> int:
        """Behind what there is now."""

    @abstractmethod
    def extend(self, start: int, messages: int, size: int) -> int:
        """Where the next micro-batch ends: one of so many messages, and about so many bytes, at most."""


def is_stream(client: ReconnectingClient, queue: str) -> bool:
    """Raises FlintError, when there is no such queue for one."""
    try:
        client.call(lambda channel: channel.stream_query(queue))
    except fc.ChannelClosed as error:
        if error.code == PreconditionFailed.code:
            return False
        raise
    return True
