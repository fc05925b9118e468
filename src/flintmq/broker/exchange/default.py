"""The default exchange: the routing key is the name of a queue (amqp-0-9-1 §3.1.3.1).

It leads to queues by their names, and to reply addresses (direct reply-to). In the strict dialect clients may bind
further keys.
"""

from typing import final

from flintmq.broker.exchange.base import Binding, Exchange
from flintmq.broker.message import Message
from flintmq.broker.queue.base import Queue


@final
class DefaultExchange(Exchange):
    type = "direct"

    def __init__(self, vhost: str, queues: dict[str, Queue], replies: dict[str, Queue]) -> None:
        super().__init__(vhost, "", True, False, False, {})
        self._queues = queues
        self._replies = replies
        # Clients' bindings by routing key, for dialects that allow bindings here. Dictionaries serve as ordered sets.
        self._further: dict[str, dict[Binding, None]] = {}

    def add(self, binding: Binding) -> None:
        self._further.setdefault(binding.routing_key, {})[binding] = None

    def remove(self, binding: Binding) -> None:
        bound = self._further[binding.routing_key]
        del bound[binding]
        if not bound:
            del self._further[binding.routing_key]

    def match(self, keys: list[str], message: Message | None) -> list[Binding]:
        found: list[Binding] = []
        for key in keys:
            queue = self._queues.get(key)
            if queue is None:
                queue = self._replies.get(key)
            if queue is not None:
                found.append(Binding(self, queue, key, {}))
            found.extend(self._further.get(key, ()))
        return found
