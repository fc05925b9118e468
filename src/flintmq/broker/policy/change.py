"""A change of policies on its way to the queues and exchanges that there are, so many names at a time."""

from collections.abc import Callable
from typing import final

from mypy_extensions import i64

from flintmq.broker.exchange.base import Exchange
from flintmq.broker.exchange.registry import Exchanges
from flintmq.broker.policy.policies import Policies
from flintmq.broker.queue.base import Queue
from flintmq.broker.tick import SteppedWork


@final
class PolicyChange(SteppedWork):
    """Of the policies of a virtual host. `concerns` tells of a kind and a name whether the change may matter there.

    What is declared meanwhile goes by the policies as they are then.
    """

    def __init__(
        self, queues: list[Queue], exchanges: Exchanges, policies: Policies, concerns: Callable[[str, str], bool]
    ) -> None:
        self._policies = policies
        self._concerns = concerns
        self._all_exchanges = exchanges
        # Those that are yet to be looked at, the next one last.
        self._exchanges: list[Exchange] = list(exchanges.by_name.values())
        self._queues = queues
        self._queues.reverse()

    def step(self, most: i64) -> bool:
        """Compare so many names at most; returns whether others are left."""
        policies = self._policies
        while most > 0 and self._queues:
            most -= 1
            queue = self._queues.pop()
            if not queue.gone and self._concerns(queue.kind, queue.name):
                queue.configure(policies.effective(queue.kind, queue.name, queue.arguments))
        while most > 0 and self._exchanges:
            most -= 1
            exchange = self._exchanges.pop()
            is_there = self._all_exchanges.by_name.get(exchange.name) is exchange
            if is_there and self._concerns("exchange", exchange.name):
                self._all_exchanges.set_alternate(exchange, policies.alternate(exchange.name))
        return bool(self._queues or self._exchanges)
