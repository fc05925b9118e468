"""What consumers rejected, and must not come to them again (amqp-0-9-1 basic.reject.requeue, amqp-1.0 §3.4.5).

A context is the channel an entry was rejected on, in the strict dialect, or a link it cannot be delivered by. The
entries wait here for a consumer of another one, or for the end of those contexts, while the queue goes on with what is
behind them.
"""

from bisect import insort
from typing import Final, final

from mypy_extensions import i64

from flintmq.broker.message import Entry
from flintmq.broker.queue.consumer import Consumer

# Where fewer come than this part of what is here, each is put in its place, and all others are left alone.
_SORT_DIVISOR: Final = 16


@final
class Withheld:
    def __init__(self) -> None:
        # With the contexts that must not have it.
        self.entries: list[tuple[Entry, tuple[object, ...]]] = []
        # How many of them, from the first on, were offered to consumers by dispatches that had no time for the others.
        self.offered = 0
        # Consumers to whom all of these were offered: they could take something after each of those dispatches.
        self._offered_to: dict[Consumer, None] = {}
        # Whether some of these were not offered to somebody who may have them, and can take something by now.
        self._is_behind = False

    def begin(self, takers: list[Consumer]) -> None:
        """A dispatch is to offer what follows to these."""
        if self.offered == 0:
            self._is_behind = False
        elif not self._is_behind:
            for taker in takers:
                if taker not in self._offered_to:
                    self._is_behind = True

    def interrupt(self, takers: list[Consumer]) -> None:
        """It had no time for all, or nobody can take anything: these were the ones who could."""
        self._offered_to = {taker: None for taker in takers if taker.can_take()}

    def end(self) -> bool:
        """All were offered. Returns whether they are to be offered again, because some may have missed theirs."""
        self.offered = 0
        self._offered_to = {}
        return self._is_behind

    def keep(self, entries: list[Entry], contexts: tuple[object, ...]) -> None:
        if self.offered > 0:
            end = self.entries[self.offered - 1][0].position
            for entry in entries:
                if entry.position < end:
                    # It comes to stand among those.
                    self._is_behind = True
        if len(entries) * _SORT_DIVISOR < len(self.entries):
            for entry in entries:
                insort(self.entries, (entry, contexts), key=_position_of)
        else:
            self.entries.extend([(entry, contexts) for entry in entries])
            self.entries.sort(key=_position_of)

    def take(self, context: object | None) -> Entry | None:
        """The oldest one that this context may have."""
        for at, (entry, rejecters) in enumerate(self.entries):
            if context not in rejecters:
                del self.entries[at]
                if at < self.offered:
                    self.offered -= 1
                return entry
        return None

    def expired(self, now_ms: i64) -> list[Entry]:
        """Take out those whose time is up."""
        gone: list[Entry] = []
        kept: list[tuple[Entry, tuple[object, ...]]] = []
        offered = self.offered
        for at, each in enumerate(self.entries):
            if each[0].expires_ms != 0 and each[0].expires_ms <= now_ms:
                gone.append(each[0])
                if at < offered:
                    self.offered -= 1
            else:
                kept.append(each)
        self.entries = kept
        return gone

    def release(self, context: object) -> list[Entry]:
        """All that was withheld from this context alone, which has ended."""
        free: list[Entry] = []
        kept: list[tuple[Entry, tuple[object, ...]]] = []
        for entry, rejecters in self.entries:
            if context not in rejecters:
                kept.append((entry, rejecters))
            elif len(rejecters) == 1:
                free.append(entry)
            else:
                kept.append((entry, tuple([other for other in rejecters if other is not context])))
        self.entries = kept
        # Others may have them now: all are offered again, from the first on.
        self.offered = 0
        return free


def _position_of(kept: tuple[Entry, tuple[object, ...]]) -> int:
    return kept[0].position
