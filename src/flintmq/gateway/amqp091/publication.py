"""What a basic.publish frame says, decoded once: publishers repeat themselves."""

from typing import final

from mypy_extensions import i64

from flintmq.base.errors import SyntaxFault
from flintmq.base.limits import ROUTE_CACHE_ENTRIES
from flintmq.broker.exchange.routing import Route
from flintmq.broker.message import Address
from flintmq.wire.amqp091.tables import pull_shortstr

# Class and method id, and the reserved ticket, before the exchange's name.
_ADDRESS_AT = 6


@final
class Publication:
    """A basic.publish method: its address with the route, and its flags."""

    def __init__(self, route: Route, mandatory: bool, immediate: bool) -> None:
        self.address = route.address
        self.route = route
        self.mandatory = mandatory
        self.immediate = immediate
        # The version of permissions and topology that the user was allowed it under.
        self.permitted: i64 = -1


@final
class Publications:
    """The publications of a user in a virtual host by their method payloads, as long as there are not too many."""

    def __init__(self) -> None:
        self._known: dict[bytes, Publication] = {}

    def get(self, payload: bytes) -> Publication:
        """Raises SyntaxFault when the payload is malformed."""
        known = self._known.get(payload)
        if known is not None:
            return known
        exchange, middle = pull_shortstr(payload, _ADDRESS_AT)
        routing_key, stop = pull_shortstr(payload, middle)
        end: i64 = len(payload)
        if stop != end - 1:
            raise SyntaxFault("basic.publish: one octet of flags is due after the routing key")
        flags = payload[end - 1]
        route = Route(Address(exchange, routing_key, payload[_ADDRESS_AT : end - 1]))
        made = Publication(route, (flags & 1) != 0, (flags & 2) != 0)
        if len(self._known) >= ROUTE_CACHE_ENTRIES:
            self._known.clear()
        self._known[payload] = made
        return made
