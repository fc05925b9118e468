"""x-random (RabbitMQ): to one of the destinations bound, each with the same chance, whatever the routing key."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.broker.exchange.base import Binding, Exchange
from flintmq.broker.exchange.hashing import MASK, hash_text, mix
from flintmq.broker.message import Message, Table

# Added for each message before it is mixed: 2**32 divided by the golden ratio visits all 32-bit numbers.
_STEP: Final = 0x9E37_79B9


@final
class Lots:
    """Bindings to draw from; to add, to remove and to draw costs the same however many there are."""

    def __init__(self, seed: str) -> None:
        self._state: i64 = hash_text(seed)
        self._bindings: list[Binding] = []
        self._places: dict[Binding, int] = {}

    def add(self, binding: Binding) -> None:
        self._places[binding] = len(self._bindings)
        self._bindings.append(binding)

    def remove(self, binding: Binding) -> None:
        place = self._places.pop(binding)
        last = self._bindings.pop()
        if last is not binding:
            self._bindings[place] = last
            self._places[last] = place

    def draw(self) -> list[Binding]:
        count: i64 = len(self._bindings)
        if count == 0:
            return []
        self._state = (self._state + _STEP) & MASK
        return [self._bindings[(mix(self._state) * count) >> 32]]


@final
class RandomExchange(Exchange):
    type = "x-random"
    per_message = True

    def __init__(
        self, vhost: str, name: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> None:
        super().__init__(vhost, name, durable, auto_delete, internal, arguments)
        self._lots = Lots(name)

    def add(self, binding: Binding) -> None:
        self._lots.add(binding)

    def remove(self, binding: Binding) -> None:
        self._lots.remove(binding)

    def match(self, keys: list[str], message: Message | None) -> list[Binding]:
        return self._lots.draw()
