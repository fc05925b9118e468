"""x-local-random (RabbitMQ): to one of the queues bound, at random.

RabbitMQ's picks among the queues of the node the publisher is connected to; here all queues are on that node. As
there, it takes classic queues only, bound by an empty key.
"""

from typing import final

from flintmq.base.errors import PreconditionFailed
from flintmq.broker.exchange.base import Binding, Exchange
from flintmq.broker.exchange.random_pick import Lots
from flintmq.broker.message import Message, Table


@final
class LocalRandomExchange(Exchange):
    type = "x-local-random"
    per_message = True

    def __init__(
        self, vhost: str, name: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> None:
        super().__init__(vhost, name, durable, auto_delete, internal, arguments)
        self._lots = Lots(name)

    def check_binding(self, binding: Binding) -> None:
        if binding.routing_key:
            raise PreconditionFailed(f"Non empty binding '{binding.routing_key}' key not permitted")
        if binding.queue is None:
            raise PreconditionFailed("Destination not found")
        if binding.queue.kind != "classic":
            raise PreconditionFailed(f"Queue type rabbit_{binding.queue.kind}_queue not valid for this exchange type")

    def add(self, binding: Binding) -> None:
        self._lots.add(binding)

    def remove(self, binding: Binding) -> None:
        self._lots.remove(binding)

    def match(self, keys: list[str], message: Message | None) -> list[Binding]:
        return self._lots.draw()
