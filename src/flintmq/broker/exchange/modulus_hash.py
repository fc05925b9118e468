"""x-modulus-hash (RabbitMQ): routes to one destination by the hash of the routing key modulo their number.

A key keeps its destination until bindings change; then most keys move to another one, which x-consistent-hash avoids.
"""

from bisect import bisect_left
from typing import final

from flintmq.broker.exchange.base import Binding, Exchange
from flintmq.broker.exchange.hashes import hash_text
from flintmq.broker.message import Message, Table


@final
class ModulusHashExchange(Exchange):
    type = "x-modulus-hash"

    def __init__(
        self, vhost: str, name: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> None:
        super().__init__(vhost, name, durable, auto_delete, internal, arguments)
        self.picks_one = True
        # Sorted by their ranks, so that the order of binding, or of restoring, does not matter.
        self._order: list[Binding] = []
        self._ranks: list[tuple[str, str, str, str]] = []

    def add(self, binding: Binding) -> None:
        rank = _rank(binding)
        place = bisect_left(self._ranks, rank)
        self._ranks.insert(place, rank)
        self._order.insert(place, binding)

    def remove(self, binding: Binding) -> None:
        place = bisect_left(self._ranks, _rank(binding))
        del self._ranks[place]
        del self._order[place]

    def match(self, keys: list[str], message: Message | None) -> list[Binding]:
        if not self._order:
            return []
        return [self._order[hash_text(keys[0]) % len(self._order)]]


def _rank(binding: Binding) -> tuple[str, str, str, str]:
    return binding.destination_type, binding.destination.name, *binding.key
