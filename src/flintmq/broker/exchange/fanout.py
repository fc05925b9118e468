"""fanout: to every queue bound, whatever the routing key."""

from typing import final

from flintmq.broker.exchange.base import Binding, Exchange
from flintmq.broker.message import Message
from flintmq.broker.queue.base import Queue


@final
class FanoutExchange(Exchange):
    type = "fanout"

    def add(self, binding: Binding) -> None:
        """The bindings themselves are all there is to know."""

    def remove(self, binding: Binding) -> None:
        """As for `add`."""

    def route(self, routing_key: str, message: Message | None) -> list[Queue]:
        return list(dict.fromkeys([binding.queue for binding in self.bindings.values()]))
