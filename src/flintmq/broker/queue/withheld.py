"""What consumers rejected, and must not come to them again (amqp-0-9-1 basic.reject.requeue): the strict dialect's.

A context is the channel an entry was rejected on. The entries wait here for a consumer of another one, or for the end
of their channel, while the queue goes on with what is behind them.
"""

from bisect import insort
from typing import Final, final

from flintmq.broker.message import Entry

# Where fewer come than this part of what is here, each is put in its place, and all others are left alone.
_SORT_DIVISOR: Final = 16


@final
class Withheld:
    def __init__(self) -> None:
        self.entries: list[tuple[Entry, object]] = []

    def keep(self, entries: list[Entry], context: object) -> None:
        if len(entries) * _SORT_DIVISOR < len(self.entries):
            for entry in entries:
                insort(self.entries, (entry, context), key=_position_of)
        else:
            self.entries.extend([(entry, context) for entry in entries])
            self.entries.sort(key=_position_of)

    def take(self, context: object | None) -> Entry | None:
        """The oldest one that this context may have."""
        for at, (entry, rejecter) in enumerate(self.entries):
            if rejecter is not context:
                del self.entries[at]
                return entry
        return None

    def release(self, context: object) -> list[Entry]:
        """All that was withheld from this context, which has ended."""
        free = [entry for entry, rejecter in self.entries if rejecter is context]
        self.entries = [kept for kept in self.entries if kept[1] is not context]
        return free


def _position_of(kept: tuple[Entry, object]) -> int:
    return kept[0].position
