"""Micro-batches of a size: one is held back until it is worth it, or has waited long enough."""

from typing import final


@final
class TriggerDelay:
    """Full with so many messages, or so long after the first of them was seen: what is first."""

    def __init__(self, messages: int, delay_seconds: float) -> None:
        self._messages = messages
        self._delay_seconds = delay_seconds
        self._first_seen: float | None = None

    def nothing(self) -> None:
        """None waits any more, for others took them: the next one begins a window."""
        self._first_seen = None

    def holds_back(self, waiting: int, now: float) -> bool:
        """Whether so many messages, one at least, wait for more. When they do not, the next window begins."""
        if waiting >= self._messages or self._delay_seconds == 0:
            self._first_seen = None
            return False
        if self._first_seen is None:
            self._first_seen = now
        if now - self._first_seen < self._delay_seconds:
            return True
        self._first_seen = None
        return False
