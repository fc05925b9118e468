"""Where a message goes: from its address through the exchanges to queues, remembered as far as it can be."""

from typing import final

from mypy_extensions import i64

from flintmq.base.errors import AccessRefused, NotFound
from flintmq.broker.exchange.base import Exchange
from flintmq.broker.message import Address, Message
from flintmq.broker.queue.base import Queue


@final
class Route:
    """Where an address leads, remembered until the virtual host's topology changes."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.version: i64 = -1
        self.exchange: Exchange | None = None
        self.queues: list[Queue] = []


@final
class Router:
    """Finds the queues of a message. `exchanges` are those of one virtual host, by name."""

    def __init__(self, vhost: str, exchanges: dict[str, Exchange]) -> None:
        # Grows with every change of exchanges, queues or bindings: a Route of another version is out of date.
        self.version: i64 = 0
        self._vhost = vhost
        self._exchanges = exchanges

    def changed(self) -> None:
        """Exchanges, queues or bindings are not what they were."""
        self.version += 1

    def queues(self, route: Route, message: Message) -> list[Queue]:
        """The queues the message goes to, each once; the list is not the caller's to change.

        Raises NotFound when there is no such exchange, AccessRefused when it is internal.
        """
        if route.version != self.version:
            self._resolve(route)
        exchange = route.exchange
        assert exchange is not None
        if exchange.reads_headers:
            return exchange.route(route.address.routing_key, message)
        return route.queues

    def _resolve(self, route: Route) -> None:
        exchange = self.exchange(route.address.exchange)
        if exchange.internal:
            raise AccessRefused(f"cannot publish to internal exchange '{exchange.name}' in vhost '{self._vhost}'")
        route.exchange = exchange
        route.queues = [] if exchange.reads_headers else exchange.route(route.address.routing_key, None)
        route.version = self.version

    def exchange(self, name: str) -> Exchange:
        found = self._exchanges.get(name)
        if found is None:
            raise NotFound(f"no exchange '{name}' in vhost '{self._vhost}'")
        return found
