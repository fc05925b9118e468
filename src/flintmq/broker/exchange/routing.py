"""Where a message goes: from its address through the exchanges to queues, remembered as far as it can be."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import AccessRefused, NotFound, PreconditionFailed
from flintmq.base.limits import MESSAGE_WORK_UNITS
from flintmq.base.work import WORK
from flintmq.broker.bounds import check_name
from flintmq.broker.counters.churn import Churn
from flintmq.broker.counters.traffic import Passing
from flintmq.broker.exchange.base import Exchange
from flintmq.broker.message import Address, Message
from flintmq.broker.queue.base import Queue

# Bindings that were found and are followed in one unit of work.
_MATCHED_PER_UNIT: Final = 8
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
        # Its queues, where they are not one; of what has to be asked for each message, the router puts that on the
        # meter of work.
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

    def __init__(self, vhost: str, exchanges: dict[str, Exchange], churn: Churn) -> None:
        self.version: i64 = 0
        # Messages that were published.
        self.published: i64 = 0
        # Routes of versions before this one do not hold.
        self._oldest: i64 = 0
        self._vhost = vhost
        self._exchanges = exchanges
        self._churn = churn

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
            queues = self._asked(route.way[0], [route.address.routing_key], message)
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
        WORK.spent += len(more_keys)
        keys = list(dict.fromkeys([route.address.routing_key, *more_keys]))
        queues = self._asked(route.way[0], keys, message)
        self._count(route, queues)
        return queues

    def _count(self, route: Route, queues: list[Queue]) -> None:
        self.published += 1
        passing = route.passing
        passing.came += 1
        passing.went += len(queues)

    def queues_from(self, exchange: Exchange, keys: list[str], message: Message) -> list[Queue]:
        """Where an exchange sends a message, internal or not; nowhere, if that is too much work, which is counted."""
        try:
            return self._asked(exchange, keys, message)
        except PreconditionFailed:
            self._churn.routes_given_up += 1
            return []

    def _asked(self, exchange: Exchange, keys: list[str], message: Message) -> list[Queue]:
        found = self._walk([exchange], keys, message)
        assert found is not None
        if len(found) > 1:
            WORK.spent += len(found)
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
            route.cost = 0 if found is None or len(found) == 1 else len(found)
        route.version = self.version

    def _walk(self, way: list[Exchange], keys: list[str], message: Message | None) -> list[Queue] | None:
        """Follow bindings and alternates from the only exchange of `way`, to which every exchange visited is added.

        Each is visited once, however many ways lead to it. Without a message: None when one would be needed. Raises
        PreconditionFailed beyond MESSAGE_WORK_UNITS.
        """
        before = WORK.begin(MESSAGE_WORK_UNITS)
        try:
            return self._walk_on(way, keys, message)
        finally:
            WORK.end(before)

    def _walk_on(self, way: list[Exchange], keys: list[str], message: Message | None) -> list[Queue] | None:
        queues: dict[Queue, None] = {}
        seen = set(way)
        at: i64 = 0
        while at < len(way):
            exchange = way[at]
            at += 1
            if message is None and exchange.per_message:
                return None
            found_any = False
            matched = exchange.match(keys, message)
            WORK.spent += len(matched) // _MATCHED_PER_UNIT
            if WORK.is_over():
                raise _too_much(way[0])
            for binding in matched:
                if binding.filter is not None:
                    if message is None:
                        return None
                    is_wanted = binding.filter.matches(message)
                    if WORK.is_over():
                        raise _too_much(way[0])
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
                    way.append(following)
            if not found_any and exchange.alternate:
                alternate = self._exchanges.get(exchange.alternate)
                if alternate is not None and alternate not in seen:
                    seen.add(alternate)
                    way.append(alternate)
        return list(queues)


def _too_much(exchange: Exchange) -> PreconditionFailed:
    return PreconditionFailed(
        f"exchange '{exchange.name}' in vhost '{exchange.vhost}' would take more than {MESSAGE_WORK_UNITS} units of "
        "work to find the queues of this message: publish it with shorter headers, or bind with fewer or simpler "
        "selectors"
    )
