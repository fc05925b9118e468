"""Routing: from an address through exchanges to queues, cached where possible."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import AccessRefused, NotFound, PreconditionFailed
from flintmq.base.limits import MESSAGE_WORK_UNITS
from flintmq.base.work import WORK
from flintmq.broker.bounds import check_name
from flintmq.broker.counters.churn import Churn
from flintmq.broker.counters.traffic import ExchangeTraffic
from flintmq.broker.exchange.base import Exchange
from flintmq.broker.message import Address, Message
from flintmq.broker.queue.base import Queue

# The number of matching bindings that are followed in one unit of work.
_MATCHED_PER_UNIT: Final = 8
# The counters of a route whose exchange was not looked up yet.
NO_TRAFFIC: Final = ExchangeTraffic()


@final
class Route:
    """A cached route of an address, valid for a version of the topology.

    Only the router reads and writes it, but for the address. `visited` has the exchanges that were asked, `queues` the
    result. `per_message`: one of the exchanges depends on more than the routing key, so that the route has to be
    computed for each message.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self.version: i64 = -1
        self.per_message = False
        # The number of queues if it is not one. For a route that is computed per message, the router counts the work
        # instead.
        self.cost: i64 = 0
        self.queues: list[Queue] = []
        # The counters of its exchange.
        self.traffic = NO_TRAFFIC
        self.visited: list[Exchange] = []


@final
class Router:
    """Finds the queues of a message. `exchanges` are those of one virtual host, by name.

    `version` grows with every change that can affect a route. A route of the current version is valid without any
    check; an older one is valid if none of the exchanges on its way has changed since.
    """

    def __init__(self, vhost: str, exchanges: dict[str, Exchange], churn: Churn) -> None:
        self.version: i64 = 0
        # Whether exchanges may match bindings to deleted queues and exchanges.
        self.has_stale = False
        # The number of published messages.
        self.published: i64 = 0
        # Routes of versions before this one are invalid.
        self._oldest: i64 = 0
        self._vhost = vhost
        self._exchanges = exchanges
        self._churn = churn

    def changed(self, exchange: Exchange) -> None:
        """Take note of changed bindings of an exchange."""
        self.version += 1
        exchange.changed = self.version

    def all_changed(self) -> None:
        """Invalidate all routes: exchanges came or went, or alternate exchanges changed."""
        self.version += 1
        self._oldest = self.version

    def exchange(self, name: str) -> Exchange:
        """Return the exchange of this name. Raises NotFound."""
        found = self._exchanges.get(name)
        if found is None:
            raise NotFound(f"no exchange '{name}' in vhost '{self._vhost}'")
        return found

    def queues(self, route: Route, message: Message) -> list[Queue]:
        """Return the queues of a message, each once. The caller must not change the list.

        Raises NotFound if there is no such exchange, AccessRefused if it is internal, PreconditionFailed for a name or
        key that is too long.
        """
        if route.version != self.version:
            self._renew(route)
        queues = route.queues
        if route.per_message:
            queues = self._route_once(route.visited[0], [route.address.routing_key], message)
        # Counted inline because every message passes here, and a call would cost more than the addition.
        self.published += 1
        traffic = route.traffic
        traffic.published_in += 1
        traffic.published_out += len(queues)
        return queues

    def queues_of_keys(self, route: Route, message: Message, more_keys: list[str]) -> list[Queue]:
        """Return the queues of a message with further routing keys (CC, BCC). Raises the errors of `queues`."""
        if route.version != self.version:
            self._renew(route)
        WORK.spent += len(more_keys)
        keys = list(dict.fromkeys([route.address.routing_key, *more_keys]))
        queues = self._route_once(route.visited[0], keys, message)
        self._count(route, queues)
        return queues

    def _count(self, route: Route, queues: list[Queue]) -> None:
        self.published += 1
        traffic = route.traffic
        traffic.published_in += 1
        traffic.published_out += len(queues)

    def queues_from(self, exchange: Exchange, keys: list[str], message: Message) -> list[Queue]:
        """Return the queues to which an exchange, internal or not, routes a message.

        Returns no queues if finding them takes too much work, which is counted.
        """
        try:
            return self._route_once(exchange, keys, message)
        except PreconditionFailed:
            self._churn.routes_given_up += 1
            return []

    def _route_once(self, exchange: Exchange, keys: list[str], message: Message) -> list[Queue]:
        found = self._walk([exchange], keys, message)
        assert found is not None
        if len(found) > 1:
            WORK.spent += len(found)
        return found

    def check(self, route: Route) -> None:
        """Raises the errors of `queues`."""
        if route.version != self.version:
            self._renew(route)

    def _renew(self, route: Route) -> None:
        if route.version < self._oldest or any(exchange.changed > route.version for exchange in route.visited):
            exchange = self.exchange(route.address.exchange)
            # Checked once for all messages of an address. An address that no delivery can carry leads to no queue.
            check_name("exchange name", exchange.name)
            check_name("routing key", route.address.routing_key)
            if exchange.internal:
                raise AccessRefused(f"cannot publish to internal exchange '{exchange.name}' in vhost '{self._vhost}'")
            route.visited = [exchange]
            route.traffic = exchange.traffic
            found = self._walk(route.visited, [route.address.routing_key], None)
            route.per_message = found is None
            route.queues = [] if found is None else found
            route.cost = 0 if found is None or len(found) == 1 else len(found)
        route.version = self.version

    def _walk(self, visited: list[Exchange], keys: list[str], message: Message | None) -> list[Queue] | None:
        """Follow bindings and alternate exchanges from the only exchange in `visited`; append the others to it.

        Each exchange is visited once, however many paths lead to it. Returns None if a message is needed and none is
        given. Raises PreconditionFailed beyond MESSAGE_WORK_UNITS.
        """
        before = WORK.begin(MESSAGE_WORK_UNITS)
        try:
            return self._walk_on(visited, keys, message)
        finally:
            WORK.end(before)

    def _walk_on(self, visited: list[Exchange], keys: list[str], message: Message | None) -> list[Queue] | None:
        queues: dict[Queue, None] = {}
        seen = set(visited)
        at: i64 = 0
        while at < len(visited):
            exchange = visited[at]
            at += 1
            if message is None and exchange.per_message:
                return None
            found_any = False
            matched = exchange.match(keys, message)
            WORK.spent += len(matched) // _MATCHED_PER_UNIT
            if self.has_stale:
                matched = [binding for binding in matched if not binding.is_stale]
            if WORK.is_over():
                raise _too_much(visited[0])
            for binding in matched:
                if binding.filter is not None:
                    if message is None:
                        return None
                    is_wanted = binding.filter.matches(message)
                    if WORK.is_over():
                        raise _too_much(visited[0])
                    if not is_wanted:
                        continue
                found_any = True
                queue = binding.queue
                if queue is not None:
                    queues[queue] = None
                    continue
                following = binding.exchange
                if following is not None and following not in seen:
                    seen.add(following)
                    visited.append(following)
            if not found_any and exchange.alternate:
                alternate = self._exchanges.get(exchange.alternate)
                if alternate is not None and alternate not in seen:
                    seen.add(alternate)
                    visited.append(alternate)
        return list(queues)


def _too_much(exchange: Exchange) -> PreconditionFailed:
    return PreconditionFailed(
        f"exchange '{exchange.name}' in vhost '{exchange.vhost}' would take more than {MESSAGE_WORK_UNITS} units of "
        "work to find the queues of this message: publish it with shorter headers, or bind with fewer or simpler "
        "selectors"
    )
