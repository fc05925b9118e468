"""x-local-random (RabbitMQ): to one of the queues bound, at random.

RabbitMQ's picks among the queues of the node the publisher is connected to; here all queues are on that node. As
there, it takes classic queues only, bound by an empty key.
"""

from typing import final

from flintmq.base.errors import PreconditionFailed
from flintmq.broker.exchange.base import Binding
from flintmq.broker.exchange.random_pick import Drawing


@final
class LocalRandomExchange(Drawing):
    type = "x-local-random"

    def check_binding(self, binding: Binding) -> None:
        if binding.routing_key:
            raise PreconditionFailed(f"Non empty binding '{binding.routing_key}' key not permitted")
        if binding.queue is None:
            raise PreconditionFailed("Destination not found")
        if binding.queue.kind != "classic":
            raise PreconditionFailed(f"Queue type rabbit_{binding.queue.kind}_queue not valid for this exchange type")
