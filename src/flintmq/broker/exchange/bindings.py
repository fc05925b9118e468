"""The bindings of a virtual host by destination, for deleting a queue or an exchange."""

from typing import Final, final

from flintmq.base.work import WORK
from flintmq.broker.exchange.base import Binding, BindingKey, Exchange
from flintmq.broker.queue.base import Queue

# The work of removing one of several bindings at once.
_REMOVED_UNITS: Final = 4


@final
class Bindings:
    """All bindings of a virtual host by destination. Exchanges know the bindings that start at them.

    Without this, deleting a queue would require a search in every exchange.
    """

    def __init__(self) -> None:
        self._to: dict[Queue | Exchange, dict[Binding, None]] = {}

    def add(self, binding: Binding) -> bool:
        """Add a binding. Returns False if an equal one exists."""
        if not binding.source.bind(binding):
            return False
        self._to.setdefault(binding.destination, {})[binding] = None
        return True

    def remove(self, source: Exchange, key: BindingKey) -> Binding | None:
        """Remove a binding. Returns it, or None if there is none."""
        binding = source.unbind(key)
        if binding is not None:
            self._forget(binding)
        return binding

    def to(self, destination: Queue | Exchange) -> list[Binding]:
        return list(self._to.get(destination, {}))

    def remove_to(self, destination: Queue | Exchange) -> list[Exchange]:
        """Remove all bindings to a destination. Returns the exchanges at which they started, each once."""
        gone = self._to.pop(destination, {})
        WORK.spent += _REMOVED_UNITS * len(gone)
        for binding in gone:
            binding.source.unbind(binding.key)
        return list(dict.fromkeys([binding.source for binding in gone]))

    def remove_from(self, source: Exchange) -> None:
        """Remove the bindings of an exchange that is deleted."""
        WORK.spent += _REMOVED_UNITS * len(source.bindings)
        for binding in source.bindings.values():
            self._forget(binding)

    def _forget(self, binding: Binding) -> None:
        others = self._to.get(binding.destination)
        if others is not None:
            del others[binding]
            if not others:
                del self._to[binding.destination]
