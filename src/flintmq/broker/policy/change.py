"""Applies changed policies to existing queues and exchanges in steps."""

from collections.abc import Callable
from typing import final

from mypy_extensions import i64

from flintmq.base.limits import POLICY_NAME_UNITS
from flintmq.base.work import WORK
from flintmq.broker.exchange.base import Exchange
from flintmq.broker.exchange.registry import ExchangeRegistry
from flintmq.broker.policy.policies import Policies
from flintmq.broker.queue.base import Queue
from flintmq.broker.tick import SteppedWork, Tick


@final
class PolicyChange(SteppedWork):
    """A change of a virtual host's policies. `concerns` says of a kind and a name whether the change may matter.

    Objects that are declared meanwhile get the new policies at once.
    """

    def __init__(
        self,
        queues: list[Queue],
        exchanges: ExchangeRegistry,
        policies: Policies,
        concerns: Callable[[str, str], bool],
        tick: Tick,
    ) -> None:
        self._tick = tick
        tick.policy_changes += 1
        self._policies = policies
        self._concerns = concerns
        self._all_exchanges = exchanges
        # Exchanges that are yet to be compared, the next one last.
        self._exchanges: list[Exchange] = list(exchanges.by_name.values())
        self._queues = queues
        self._queues.reverse()

    def outlasts_errors(self) -> bool:
        return True

    def step(self, most: i64) -> bool:
        """Compare names until `most` units of work are spent. Returns whether names are left."""
        policies = self._policies
        enough = WORK.spent + most
        while self._queues and WORK.spent < enough:
            WORK.spent += POLICY_NAME_UNITS
            queue = self._queues.pop()
            if not queue.gone and self._concerns(queue.kind, queue.name):
                queue.configure(policies.effective(queue.kind, queue.name, queue.arguments))
        while self._exchanges and WORK.spent < enough:
            WORK.spent += POLICY_NAME_UNITS
            exchange = self._exchanges.pop()
            is_there = self._all_exchanges.by_name.get(exchange.name) is exchange
            if is_there and self._concerns("exchange", exchange.name):
                self._all_exchanges.set_alternate(exchange, policies.alternate(exchange.name))
        is_over = not self._queues and not self._exchanges
        if is_over:
            self._tick.policy_changes -= 1
        return not is_over
