"""x-modulus-hash (RabbitMQ): routes to one destination by the hash of the routing key modulo their number.

A key keeps its destination until bindings change; then most keys move to another one, which x-consistent-hash avoids.
"""

from bisect import bisect_left, insort
from typing import final

from flintmq.broker.exchange.base import Binding, BindingKey, Exchange
from flintmq.broker.exchange.hashes import hash_text
from flintmq.broker.message import Message, Table


@final
class ModulusHashExchange(Exchange):
    type = "x-modulus-hash"

    def __init__(
        self, vhost: str, name: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> None:
        super().__init__(vhost, name, durable, auto_delete, internal, arguments)
        # Sorted, so that the order of binding, or of restoring, does not matter.
        self._order: list[BindingKey] = []

    def add(self, binding: Binding) -> None:
        insort(self._order, binding.key)

    def remove(self, binding: Binding) -> None:
        del self._order[bisect_left(self._order, binding.key)]

    def match(self, keys: list[str], message: Message | None) -> list[Binding]:
        if not self._order:
            return []
        return [self.bindings[self._order[hash_text(keys[0]) % len(self._order)]]]
