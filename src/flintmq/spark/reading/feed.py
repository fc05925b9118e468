"""What a query that goes on asks of a queue, be it a stream or leased: its messages have numbers that only grow."""

from abc import ABC, abstractmethod
from typing import Final

import flintmq.client as fc
from flintmq.base.errors import FlintError, PreconditionFailed
from flintmq.spark.connecting import Connecting

EVERYTHING: Final = 1 << 62


class DataLost(FlintError):
    """Messages that were to be read are not there any more."""


class Feed(ABC):
    """One queue, as the driver sees it. All methods raise FlintError."""

    @property
    def lease(self) -> int:
        """Which lease the offsets belong to, 0 for a stream's. Raises FlintError."""
        return 0

    @abstractmethod
    def start(self) -> int:
        """Where the options say to start."""

    @abstractmethod
    def resume(self, offset: int, lease: int) -> int:
        """Where to go on after all before `offset` has been read, and Spark has it. Raises DataLost if it cannot.

        `lease` is what that was when this offset was noted.
        """

    def there(self, lease: int, start: int, end: int) -> tuple[int, int]:
        """What can be read of a batch of this lease. Raises DataLost where that is not all, unless that is allowed."""
        return start, end

    @abstractmethod
    def end(self) -> int:
        """Behind what there is now."""

    @abstractmethod
    def extend(self, start: int, messages: int, size: int) -> int:
        """Where the next micro-batch ends: one of so many messages, and about so many bytes, at most."""


def is_stream(connecting: Connecting, queue: str) -> bool:
    """Raises FlintError, when there is no such queue for one."""
    try:
        connecting.call(lambda channel: channel.stream_query(queue))
    except fc.ChannelClosed as error:
        if error.code == PreconditionFailed.code:
            return False
        raise
    return True
