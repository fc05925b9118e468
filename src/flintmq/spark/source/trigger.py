"""The options minMessagesPerTrigger and maxTriggerDelay, which delay a micro-batch until it is worth its cost."""

from typing import final


@final
class TriggerDelay:
    """Delays a micro-batch until `messages` messages wait, or `delay_seconds` after the first of them was seen.

    Without a delay, no micro-batch is held back. The caller passes the time of a monotonic clock.
    """

    def __init__(self, messages: int, delay_seconds: float) -> None:
        self._messages = messages
        self._delay_seconds = delay_seconds
        self._first_seen: float | None = None

    def reset(self) -> None:
        """Note that no message waits, because others took them: the next message starts the delay again."""
        self._first_seen = None

    def holds_back(self, waiting: int, now: float) -> bool:
        """Whether `waiting` messages, at least one, are held back; if not, the next message starts the delay again."""
        if waiting >= self._messages or self._delay_seconds == 0:
            self._first_seen = None
            return False
        if self._first_seen is None:
            self._first_seen = now
        if now - self._first_seen < self._delay_seconds:
            return True
        self._first_seen = None
        return False
