"""x-random (RabbitMQ): routes to one of the bound destinations, each equally probable, whatever the routing key."""

from typing import final

from mypy_extensions import i64

from flintmq.broker.exchange.base import Binding, Exchange
from flintmq.broker.exchange.random_source import RandomSource
from flintmq.broker.message import Message, Table


class Drawing(Exchange):
    """An exchange that picks at random. Binding, unbinding and picking take constant time."""

    per_message = True

    def __init__(
        self, vhost: str, name: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> None:
        super().__init__(vhost, name, durable, auto_delete, internal, arguments)
        # The broker's source of random numbers. The maker of the exchange sets it.
        self.chance: RandomSource
        self._lots: list[Binding] = []
        self._places: dict[Binding, int] = {}

    def add(self, binding: Binding) -> None:
        self._places[binding] = len(self._lots)
        self._lots.append(binding)

    def remove(self, binding: Binding) -> None:
        place = self._places.pop(binding)
        last = self._lots.pop()
        if last is not binding:
            self._lots[place] = last
            self._places[last] = place

    def match(self, keys: list[str], message: Message | None) -> list[Binding]:
        count: i64 = len(self._lots)
        return [self._lots[self.chance.below(count)]] if count > 0 else []


@final
class RandomExchange(Drawing):
    type = "x-random"
