"""The bindings of a virtual host by destination, for deleting a queue or an exchange."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.work import WORK
from flintmq.broker.exchange.base import Binding, BindingKey, Exchange
from flintmq.broker.exchange.routing import Router
from flintmq.broker.queue.base import Queue
from flintmq.broker.tick import SteppedWork, Tick

# The work of removing one of several bindings at once.
_REMOVED_UNITS: Final = 4


@final
class Bindings(SteppedWork):
    """All bindings of a virtual host by destination. Exchanges know the bindings that start at them.

    Without this, deleting a queue would require a search in every exchange.

    When a queue or an exchange is deleted, its bindings are gone at once: nobody finds them, and the router passes over
    them. Exchanges forget them in steps, since there may be a hundred thousand of them.
    """

    def __init__(self, router: Router, tick: Tick) -> None:
        # The exchanges with bindings to a destination.
        self._sources: dict[Queue | Exchange, dict[Exchange, None]] = {}
        # Bindings by destination that an exchange has still to forget.
        self._stale: list[tuple[Exchange, dict[Queue | Exchange, dict[BindingKey, Binding]]]] = []
        self._is_busy = False
        self._router = router
        self._tick = tick

    def add(self, binding: Binding) -> bool:
        """Add a binding. Returns False if an equal one exists."""
        if not binding.source.bind(binding):
            return False
        self._sources.setdefault(binding.destination, {})[binding.source] = None
        return True

    def remove(self, binding: Binding) -> Binding | None:
        """Remove the binding that equals this one. Returns it, or None if there is none."""
        source, destination = binding.source, binding.destination
        removed = source.unbind(binding)
        if removed is not None and destination not in source.bindings:
            self._no_source(destination, source)
        return removed

    def to(self, destination: Queue | Exchange) -> list[Binding]:
        found: list[Binding] = []
        for source in self._sources.get(destination, {}):
            # There are none if the source is deleted.
            bindings = source.bindings.get(destination)
            if bindings is not None:
                found.extend(bindings.values())
        return found

    def remove_to(self, destination: Queue | Exchange) -> list[Exchange]:
        """Remove all bindings to a destination that is deleted. Returns the exchanges at which they started."""
        sources: list[Exchange] = []
        for source in self._sources.pop(destination, {}):
            gone = source.unbind_all(destination)
            if not gone:
                # The source is deleted.
                continue
            sources.append(source)
            WORK.spent += _REMOVED_UNITS * len(gone)
            if source.picks_one:
                for binding in gone.values():
                    source.remove(binding)
            else:
                self._forget_later(source, destination, gone)
        return sources

    def remove_from(self, source: Exchange) -> None:
        """Remove the bindings of an exchange that is deleted."""
        gone = source.bindings
        WORK.spent += _REMOVED_UNITS * source.binding_count
        source.bindings = {}
        source.binding_count = 0
        if gone:
            self._stale.append((source, gone))
            self._begin()

    def _no_source(self, destination: Queue | Exchange, source: Exchange) -> None:
        sources = self._sources.get(destination)
        if sources is not None:
            sources.pop(source, None)
            if not sources:
                del self._sources[destination]

    # -- steps --------------------------------------------------------------------------------------------------

    def _forget_later(
        self, source: Exchange, destination: Queue | Exchange, bindings: dict[BindingKey, Binding]
    ) -> None:
        if self._stale and self._stale[-1][0] is source:
            # One of many queues that are deleted together.
            self._stale[-1][1][destination] = bindings
        else:
            self._stale.append((source, {destination: bindings}))
        self._begin()

    def _begin(self) -> None:
        self._router.has_stale = True
        if not self._is_busy:
            self._is_busy = True
            self._tick.steps.append(self)

    def outlasts_errors(self) -> bool:
        return True

    def step(self, most: i64) -> bool:
        """Have exchanges forget bindings until `most` units of work are spent. Returns whether some are left."""
        enough = WORK.spent + most
        while self._stale and WORK.spent < enough:
            source, gone = self._stale.pop()
            while gone and WORK.spent < enough:
                destination, bindings = gone.popitem()
                while bindings and WORK.spent < enough:
                    WORK.spent += _REMOVED_UNITS
                    source.remove(bindings.popitem()[1])
                if bindings:
                    gone[destination] = bindings
                else:
                    self._no_source(destination, source)
            if gone:
                self._stale.append((source, gone))
        self._is_busy = bool(self._stale)
        self._router.has_stale = self._is_busy
        return self._is_busy
