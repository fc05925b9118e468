"""x-local-random (RabbitMQ): routes to one of the bound queues at random.

RabbitMQ chooses among the queues on the publisher's node; here all queues are on it. As in RabbitMQ, it accepts classic
queues with an empty binding key only.
"""

from typing import final

from flintmq.base.errors import PreconditionFailed
from flintmq.broker.exchange.base import Binding
from flintmq.broker.exchange.random_pick import RandomPickExchange


@final
class LocalRandomExchange(RandomPickExchange):
    type = "x-local-random"

    def check_binding(self, binding: Binding) -> None:
        if binding.routing_key:
            raise PreconditionFailed(f"Non empty binding '{binding.routing_key}' key not permitted")
        if binding.queue is None:
            raise PreconditionFailed("Destination not found")
        if binding.queue.kind != "classic":
            raise PreconditionFailed(f"Queue type rabbit_{binding.queue.kind}_queue not valid for this exchange type")
