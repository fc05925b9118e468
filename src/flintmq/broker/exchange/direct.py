"""direct: to the queues bound with exactly the message's routing key."""

from typing import final

from flintmq.broker.exchange.base import Binding, Exchange
from flintmq.broker.message import Message, Table
from flintmq.broker.queue.base import Queue


@final
class DirectExchange(Exchange):
    type = "direct"

    def __init__(
        self, vhost: str, name: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> None:
        super().__init__(vhost, name, durable, auto_delete, internal, arguments)
        self._by_key: dict[str, list[Queue]] = {}

    def add(self, binding: Binding) -> None:
        # One entry per binding: two bindings that differ in arguments only are removed one at a time.
        self._by_key.setdefault(binding.routing_key, []).append(binding.queue)

    def remove(self, binding: Binding) -> None:
        queues = self._by_key[binding.routing_key]
        queues.remove(binding.queue)
        if not queues:
            del self._by_key[binding.routing_key]

    def route(self, routing_key: str, message: Message | None) -> list[Queue]:
        return list(dict.fromkeys(self._by_key.get(routing_key, [])))
