"""x-modulus-hash (RabbitMQ): routes to one destination by the hash of the routing key modulo their number.

A key keeps its destination until bindings change; then most keys move to another one, which x-consistent-hash avoids.
"""

from bisect import bisect_left, insort
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
        # Sorted, so that the order of binding, or of restoring, does not matter.
        self._order: list[Binding] = []

    def add(self, binding: Binding) -> None:
        insort(self._order, binding, key=_rank)

    def remove(self, binding: Binding) -> None:
        del self._order[bisect_left(self._order, _rank(binding), key=_rank)]

    def match(self, keys: list[str], message: Message | None) -> list[Binding]:
        if not self._order:
            return []
        return [self._order[hash_text(keys[0]) % len(self._order)]]


def _rank(binding: Binding) -> tuple[str, str, str, str]:
    return binding.destination_type, binding.destination.name, *binding.key
