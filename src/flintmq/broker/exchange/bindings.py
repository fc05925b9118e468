"""The edges of a virtual host's graph by where they lead: what goes when a queue or an exchange goes."""

from typing import Final, final

from flintmq.base.work import WORK
from flintmq.broker.exchange.base import Binding, BindingKey, Exchange
from flintmq.broker.queue.base import Queue

# What it takes to remove a binding together with others.
_REMOVED_UNITS: Final = 4


@final
class Bindings:
    """All bindings of a virtual host. Exchanges know those that start at them; here they are found from their ends.

    Without that, a queue that goes away would have to be looked for in every exchange.
    """

    def __init__(self) -> None:
        self._to: dict[Queue | Exchange, dict[Binding, None]] = {}

    def add(self, binding: Binding) -> bool:
        """False when the same one is there already."""
        if not binding.source.bind(binding):
            return False
        self._to.setdefault(binding.destination, {})[binding] = None
        return True

    def remove(self, source: Exchange, key: BindingKey) -> Binding | None:
        """The one that was there; None when there was none."""
        binding = source.unbind(key)
        if binding is not None:
            self._forget(binding)
        return binding

    def to(self, destination: Queue | Exchange) -> list[Binding]:
        return list(self._to.get(destination, {}))

    def remove_to(self, destination: Queue | Exchange) -> list[Exchange]:
        """Remove all that lead to what goes away; returns the exchanges they came from, each once."""
        gone = self._to.pop(destination, {})
        WORK.spent += _REMOVED_UNITS * len(gone)
        for binding in gone:
            binding.source.unbind(binding.key)
        return list(dict.fromkeys([binding.source for binding in gone]))

    def remove_from(self, source: Exchange) -> None:
        """The exchange goes away with its own bindings."""
        WORK.spent += _REMOVED_UNITS * len(source.bindings)
        for binding in source.bindings.values():
            self._forget(binding)

    def _forget(self, binding: Binding) -> None:
        others = self._to.get(binding.destination)
        if others is not None:
            del others[binding]
            if not others:
                del self._to[binding.destination]
