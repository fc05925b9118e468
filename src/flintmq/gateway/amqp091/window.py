"""Prefetch windows: how much may be sent unacknowledged, in messages and bytes of bodies (amqp-0-9-1 basic.qos)."""

from typing import final

from mypy_extensions import i64


@final
class Window:
    """A prefetch window: the numbers of unacknowledged messages and bytes, and their limits; 0: no limit."""

    def __init__(self, messages_max: i64 = 0, bytes_max: i64 = 0) -> None:
        self.messages_max: i64 = messages_max
        self.bytes_max: i64 = bytes_max
        self.messages: i64 = 0
        self.bytes: i64 = 0

    @property
    def is_limited(self) -> bool:
        return self.messages_max != 0 or self.bytes_max != 0

    def limit(self, messages_max: i64, bytes_max: i64) -> None:
        self.messages_max = messages_max
        self.bytes_max = bytes_max

    def is_open(self) -> bool:
        return self.messages_max == 0 or self.messages < self.messages_max

    @property
    def is_waited_for(self) -> bool:
        """Whether a consumer may wait for it; with a limit of bytes always, because a body may be too large."""
        return self.bytes_max != 0 or not self.is_open()

    def fits(self, size: i64) -> bool:
        """Whether a body of this size may be added. A single one always may, because the limit is for prefetching."""
        return self.bytes_max == 0 or self.messages == 0 or self.bytes + size <= self.bytes_max

    def take(self, size: i64) -> None:
        self.messages += 1
        self.bytes += size

    def release(self, size: i64) -> None:
        self.messages -= 1
        self.bytes -= size
