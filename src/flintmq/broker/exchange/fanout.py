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

    def add(self, binding: Binding) -> None:
        """Do nothing: `bindings` is all that matching needs."""

    def remove(self, binding: Binding) -> None:
        """Do nothing: `bindings` is all that matching needs."""

    def match(self, keys: list[str], message: Message | None) -> list[Binding]:
        return list(self.bindings.values())
