"""Exclusions: consumers that must not get an entry again (amqp-0-9-1 basic.reject.requeue, amqp-1.0 §3.4.5).

Consumers of one client share a context: a channel on which an entry was rejected, in the strict dialect, or a link on
which an entry is undeliverable. Some exclusions last until the entry leaves the queue, others until another consumer
takes it; each ends with its context. A ready entry with exclusions waits here for a consumer of another context, while
the queue goes on with the entries behind it.
"""

from bisect import insort
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from flintmq.base.limits import ASKED_CONSUMERS_PER_UNIT, DISPATCH_BURST_MESSAGES
from flintmq.base.work import WORK
from flintmq.broker.message import Entry
from flintmq.broker.queue.base import Consumer
from flintmq.broker.queue.features import SETTLEMENT, Feature

# If the new entries are fewer than this fraction of the waiting ones, each is inserted instead of sorting all.
_SORT_DIVISOR: Final = 16

_Withheld = tuple[Entry, tuple[object, ...]]


@final
class Exclusions(Feature):
    """The exclusions of a queue. `changed` is called when there may be none left, or when `hears` may have changed."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        # Contexts that an entry excludes until it leaves the queue, by the number of the entry.
        self._contexts: dict[int, tuple[object, ...]] = {}
        # Ready entries in order, each with the contexts that must not have it.
        self._withheld: list[_Withheld] = []
        # How many of the withheld entries, from the first on, were offered by dispatches that had no time for the rest.
        self._offered = 0
        # Consumers to whom all of these were offered: they could take entries after each of those dispatches.
        self._offered_to: dict[Consumer, None] = {}
        # Whether some of these were not offered to a consumer that may have them, and that can take entries by now.
        self._is_behind = False

    def hears(self) -> int:
        return SETTLEMENT if self._contexts else 0

    @property
    def is_empty(self) -> bool:
        return not self._contexts and not self._withheld

    @property
    def withheld_count(self) -> int:
        return len(self._withheld)

    # -- contexts -----------------------------------------------------------------------------------------------

    def exclude(self, entry: Entry, context: object) -> None:
        """Withhold an entry from consumers of a context until it leaves the queue."""
        is_first = not self._contexts
        known = self._contexts.get(int(entry.seq), ())
        if context not in known:
            self._contexts[int(entry.seq)] = (*known, context)
        if is_first:
            self._changed()

    def retired(self, entry: Entry) -> None:
        if self._contexts.pop(int(entry.seq), None) is not None and not self._contexts:
            self._changed()

    def context_ended(self, context: object) -> list[Entry]:
        """Forget a context. Returns the entries that were withheld from this context alone."""
        for seq, contexts in list(self._contexts.items()):
            if context in contexts:
                others = _without(contexts, context)
                if others:
                    self._contexts[seq] = others
                else:
                    del self._contexts[seq]
        free: list[Entry] = []
        kept: list[_Withheld] = []
        for entry, contexts in self._withheld:
            others = _without(contexts, context)
            if others:
                kept.append((entry, others))
            else:
                free.append(entry)
        self._withheld = kept
        # Further consumers may have some of them now, so all are offered again.
        self._offered = 0
        self._changed()
        return free

    # -- withheld entries --------------------------------------------------------------------------------------

    def keep_back(self, entries: list[Entry]) -> list[Entry]:
        """Withhold those of the entries that not every consumer may have. Returns the others."""
        free: list[Entry] = []
        for entry in entries:
            contexts = self._contexts.get(int(entry.seq))
            if contexts is None:
                free.append(entry)
            else:
                self.withhold([entry], contexts)
        return free

    def withhold(self, entries: list[Entry], contexts: tuple[object, ...]) -> None:
        """Withhold entries: they wait for a consumer of another context than these."""
        if self._offered > 0:
            end = self._withheld[self._offered - 1][0].position
            for entry in entries:
                if entry.position < end:
                    # The entry is inserted among those that were offered already.
                    self._is_behind = True
        if len(entries) * _SORT_DIVISOR < len(self._withheld):
            for entry in entries:
                insort(self._withheld, (entry, contexts), key=_position)
        else:
            self._withheld.extend([(entry, contexts) for entry in entries])
            self._withheld.sort(key=_position)

    def take(self, context: object | None) -> Entry | None:
        """Take the oldest entry that consumers of this context may have; None if there is none."""
        for at, (entry, contexts) in enumerate(self._withheld):
            if context not in contexts:
                del self._withheld[at]
                if at < self._offered:
                    self._offered -= 1
                return entry
        return None

    def take_all(self) -> list[Entry]:
        """Take all withheld entries, because the queue is purged or deleted."""
        entries = [entry for entry, _ in self._withheld]
        self._withheld = []
        self._offered = 0
        return entries

    def take_expired(self, now_ms: i64) -> list[Entry]:
        """Take the withheld entries whose time to live is over."""
        gone: list[Entry] = []
        kept: list[_Withheld] = []
        offered = self._offered
        for at, each in enumerate(self._withheld):
            if each[0].expires_ms != 0 and each[0].expires_ms <= now_ms:
                gone.append(each[0])
                if at < offered:
                    self._offered -= 1
            else:
                kept.append(each)
        self._withheld = kept
        return gone

    # -- dispatch -----------------------------------------------------------------------------------------------

    def offer(self, takers: list[Consumer], deliver: Callable[[Entry, Consumer], None]) -> bool:
        """Give entries to consumers that may have them. Returns True if the next dispatch has to continue.

        `takers` are the consumers that can take entries. Afterwards `is_missed` says whether to offer all again.
        """
        if not takers:
            self._interrupt(takers)
            return False
        self._begin(takers)
        others: dict[tuple[object, ...], list[Consumer]] = {}
        withheld = self._withheld
        at = min(self._offered, len(withheld))
        kept = withheld[:at]
        enough = WORK.spent + DISPATCH_BURST_MESSAGES
        while at < len(withheld) and WORK.spent < enough:
            entry, contexts = withheld[at]
            at += 1
            if contexts not in others:
                others[contexts] = [consumer for consumer in takers if consumer.context not in contexts]
            WORK.spent += 1 + len(others[contexts]) // ASKED_CONSUMERS_PER_UNIT
            for consumer in others[contexts]:
                if consumer.would_take(entry.message):
                    deliver(entry, consumer)
                    break
            else:
                kept.append((entry, contexts))
        self._withheld = kept + withheld[at:]
        if at < len(withheld):
            self._offered = len(kept)
            self._interrupt(takers)
            return True
        self._offered = 0
        self._offered_to = {}
        if not self._withheld:
            self._changed()
        return False

    @property
    def is_missed(self) -> bool:
        """Whether some consumer may have missed an entry, although all were offered."""
        return self._offered == 0 and self._is_behind

    def _begin(self, takers: list[Consumer]) -> None:
        """Begin a dispatch: note if one of `takers` was not offered the entries before the next."""
        if self._offered == 0:
            self._is_behind = False
        elif not self._is_behind:
            for taker in takers:
                if taker not in self._offered_to:
                    self._is_behind = True

    def _interrupt(self, takers: list[Consumer]) -> None:
        """End a dispatch that did not offer all entries: note which of `takers` can still take entries."""
        self._offered_to = {taker: None for taker in takers if taker.can_take()}


def _without(contexts: tuple[object, ...], context: object) -> tuple[object, ...]:
    return tuple([other for other in contexts if other is not context])


def _position(withheld: _Withheld) -> int:
    return withheld[0].position
