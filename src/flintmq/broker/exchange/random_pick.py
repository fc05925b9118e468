"""x-random (RabbitMQ): routes to one of the bound destinations, each equally probable, whatever the routing key."""

from typing import final

from mypy_extensions import i64

from flintmq.broker.exchange.base import Binding, Exchange
from flintmq.broker.exchange.random_source import RandomSource
from flintmq.broker.message import Message, Table


class RandomPickExchange(Exchange):
    """An exchange that picks at random. Binding, unbinding and picking take constant time."""

    per_message = True

    def __init__(
        self, vhost: str, name: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> None:
        super().__init__(vhost, name, durable, auto_delete, internal, arguments)
        self.picks_one = True
        # The broker's source of random numbers. The maker of the exchange sets it.
        self.random_source: RandomSource
        self._bindings_by_slot: list[Binding] = []
        self._slots: dict[Binding, int] = {}

    def add(self, binding: Binding) -> None:
        self._slots[binding] = len(self._bindings_by_slot)
        self._bindings_by_slot.append(binding)

    def remove(self, binding: Binding) -> None:
        slot = self._slots.pop(binding)
        last = self._bindings_by_slot.pop()
        if last is not binding:
            self._bindings_by_slot[slot] = last
            self._slots[last] = slot

    def match(self, keys: list[str], message: Message | None) -> list[Binding]:
        count: i64 = len(self._bindings_by_slot)
        return [self._bindings_by_slot[self.random_source.below(count)]] if count > 0 else []


@final
class RandomExchange(RandomPickExchange):
    type = "x-random"
