"""direct: routes to the destinations that are bound with exactly the message's routing key."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.work import WORK
from flintmq.broker.exchange.base import Binding, Exchange
from flintmq.broker.message import Message, Table

# The number of bindings with selectors whose costs are added up in one unit of work.
_SUMMED_PER_UNIT: Final = 8


@final
class DirectExchange(Exchange):
    type = "direct"

    def __init__(
        self, vhost: str, name: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> None:
        super().__init__(vhost, name, durable, auto_delete, internal, arguments)
        # Dictionaries serve as ordered sets: of thousands of queues bound by one key, each is removed in constant time.
        self._by_key: dict[str, dict[Binding, None]] = {}

    def add(self, binding: Binding) -> None:
        self._by_key.setdefault(binding.routing_key, {})[binding] = None

    def remove(self, binding: Binding) -> None:
        bindings = self._by_key[binding.routing_key]
        del bindings[binding]
        if not bindings:
            del self._by_key[binding.routing_key]

    def match_cost_beside(self, binding: Binding) -> i64:
        others = self._by_key.get(binding.routing_key, {})
        WORK.spent += len(others) // _SUMMED_PER_UNIT
        cost: i64 = 0
        for other in others:
            if not other.is_stale:
                cost += self.match_cost(other)
        return cost

    def match(self, keys: list[str], message: Message | None) -> list[Binding]:
        found: list[Binding] = []
        for key in keys:
            bindings = self._by_key.get(key)
            if bindings is not None:
                found.extend(bindings)
        return found
