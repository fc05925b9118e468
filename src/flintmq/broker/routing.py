"""Where a message goes: from its address through the exchanges to queues, remembered as far as it can be."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import AccessRefused, NotFound
from flintmq.broker.bounds import check_name
from flintmq.broker.exchange.base import Exchange
from flintmq.broker.message import Address, Message
from flintmq.broker.queue.base import Queue
from flintmq.broker.traffic import Passing

# Of a route that leads nowhere yet.
NOWHERE: Final = Passing()


@final
class Route:
    """Where an address leads, as of a version of the topology. The router alone reads and writes all but the address.

    `way` are the exchanges that were asked, `queues` what they answered. `per_message`: one of them depends on more
    than the routing key, so that they have to be asked for each message.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self.version: i64 = -1
        self.per_message = False
        # What a message costs beyond one queue: further queues, or bindings that each message is compared with.
        self.cost: i64 = 0
        self.queues: list[Queue] = []
        # What its exchange counts.
        self.passing = NOWHERE
        self.way: list[Exchange] = []


@final
class Router:
    """Finds the queues of a message. `exchanges` are those of one virtual host, by name.

    `version` grows with every change of what can be on a route; a route of this version needs no look at anything
    else. An older one holds as long as none of the exchanges it went by has changed since.
    """

    def __init__(self, vhost: str, exchanges: dict[str, Exchange]) -> None:
        self.version: i64 = 0
        # Messages that were published.
        self.published: i64 = 0
        # Routes of versions before this one do not hold.
        self._oldest: i64 = 0
        self._vhost = vhost
        self._exchanges = exchanges

    def changed(self, exchange: Exchange) -> None:
        """The bindings of an exchange are not what they were."""
        self.version += 1
        exchange.changed = self.version

    def all_changed(self) -> None:
        """Exchanges came or went, or have other alternates."""
        self.version += 1
        self._oldest = self.version

    def exchange(self, name: str) -> Exchange:
        """Raises NotFound."""
        found = self._exchanges.get(name)
        if found is None:
            raise NotFound(f"no exchange '{name}' in vhost '{self._vhost}'")
        return found

    def queues(self, route: Route, message: Message) -> list[Queue]:
        """The queues the message goes to, each once; the list is not the caller's to change.

        Raises NotFound when there is no such exchange, AccessRefused when it is internal, PreconditionFailed for a name
        or a key that is too long.
        """
        if route.version != self.version:
            self._renew(route)
        queues = route.queues
        if route.per_message:
            queues = self.queues_from(route.way[0], [route.address.routing_key], message)
        # Every message passes here: a call for it would cost more than the counting.
        self.published += 1
        passing = route.passing
        passing.came += 1
        passing.went += len(queues)
        return queues

    def queues_of_keys(self, route: Route, message: Message, more_keys: list[str]) -> list[Queue]:
        """The same for a message that names further routing keys (CC, BCC)."""
        if route.version != self.version:
            self._renew(route)
        keys = list(dict.fromkeys([route.address.routing_key, *more_keys]))
        queues = self.queues_from(route.way[0], keys, message)
        self._count(route, queues)
        return queues

    def _count(self, route: Route, queues: list[Queue]) -> None:
        self.published += 1
        passing = route.passing
        passing.came += 1
        passing.went += len(queues)

    def queues_from(self, exchange: Exchange, keys: list[str], message: Message) -> list[Queue]:
        """Where an exchange sends a message, internal or not."""
        found = self._walk([exchange], keys, message)
        assert found is not None
        return found

    def check(self, route: Route) -> None:
        """Raises what `queues` would."""
        if route.version != self.version:
            self._renew(route)

    def _renew(self, route: Route) -> None:
        if route.version < self._oldest or any(exchange.changed > route.version for exchange in route.way):
            exchange = self.exchange(route.address.exchange)
            # Once for all messages of an address. One that no delivery could name is not for any queue.
            check_name("exchange name", exchange.name)
            check_name("routing key", route.address.routing_key)
            if exchange.internal:
                raise AccessRefused(f"cannot publish to internal exchange '{exchange.name}' in vhost '{self._vhost}'")
            route.way = [exchange]
            route.passing = exchange.passing
            found = self._walk(route.way, [route.address.routing_key], None)
            route.per_message = found is None
            route.queues = [] if found is None else found
            if found is None:
                route.cost = sum([_asking_cost(each, route.address.routing_key) for each in route.way])
            else:
                route.cost = len(found) if len(found) > 1 else 0
        route.version = self.version

    def _walk(self, way: list[Exchange], keys: list[str], message: Message | None) -> list[Queue] | None:
        """Follow bindings and alternates from the only exchange of `way`, to which every exchange visited is added.

        Each is visited once, however many ways lead to it. Without a message: None when one would be needed.
        """
        queues: dict[Queue, None] = {}
        seen = set(way)
        at: i64 = 0
        while at < len(way):
            exchange = way[at]
            at += 1
            if message is None and exchange.per_message:
                return None
            found_any = False
            for binding in exchange.match(keys, message):
                if binding.filter is not None:
                    if message is None:
                        return None
                    if not binding.filter.matches(message):
                        continue
                found_any = True
                queue = binding.queue
                if queue is not None:
                    queues[queue] = None
                    continue
                following = binding.exchange
                if following is not None and following not in seen:
                    seen.add(following)
                    way.append(following)
            if not found_any and exchange.alternate:
                alternate = self._exchanges.get(exchange.alternate)
                if alternate is not None and alternate not in seen:
                    seen.add(alternate)
                    way.append(alternate)
        return list(queues)


def _asking_cost(exchange: Exchange, key: str) -> int:
    """What it costs to ask an exchange about each message: the bindings to compare it with, and their filters."""
    compared = list(exchange.bindings.values()) if exchange.per_message else exchange.match([key], None)
    cost = len(compared)
    for binding in compared:
        if binding.filter is not None:
            cost += int(binding.filter.cost)
    return cost
