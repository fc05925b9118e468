"""fanout: routes to every bound destination, whatever the routing key."""

from typing import final

from flintmq.broker.exchange.base import Binding, Exchange
from flintmq.broker.message import Message, Table


@final
class FanoutExchange(Exchange):
    type = "fanout"

    def __init__(
        self, vhost: str, name: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> None:
        super().__init__(vhost, name, durable, auto_delete, internal, arguments)
        self.compares_all = True
        self._all: dict[Binding, None] = {}

    def add(self, binding: Binding) -> None:
        self._all[binding] = None

    def remove(self, binding: Binding) -> None:
        del self._all[binding]

    def match(self, keys: list[str], message: Message | None) -> list[Binding]:
        return list(self._all)
