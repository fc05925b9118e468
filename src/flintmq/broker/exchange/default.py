"""The default exchange: the routing key is a queue's name (amqp-0-9-1 §3.1.3.1). Its bindings are the queues."""

from typing import final

from flintmq.broker.exchange.base import Binding, Exchange
from flintmq.broker.message import Message
from flintmq.broker.queue.base import Queue


@final
class DefaultExchange(Exchange):
    type = "direct"

    def __init__(self, vhost: str, queues: dict[str, Queue]) -> None:
        super().__init__(vhost, "", True, False, False, {})
        self._queues = queues

    def add(self, binding: Binding) -> None:
        """Nothing is ever bound here: the virtual host refuses it."""

    def remove(self, binding: Binding) -> None:
        """As for `add`."""

    def match(self, keys: list[str], message: Message | None) -> list[Binding]:
        found: list[Binding] = []
        for key in keys:
            queue = self._queues.get(key)
            if queue is not None:
                found.append(Binding(self, queue, key, {}))
        return found
