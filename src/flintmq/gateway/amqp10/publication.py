"""Where messages are published to, with the route there and what the user was allowed: publishers repeat themselves."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import SCOPE_LINK, InvalidField
from flintmq.base.limits import ROUTE_CACHE_ENTRIES
from flintmq.broker.access.permission import WRITE, Rights
from flintmq.broker.exchange.routing import Route
from flintmq.broker.message import Address
from flintmq.broker.vhost import VHost

# What a short string of AMQP 0-9-1 holds.
_NAME_MAX_BYTES: Final = 255


@final
class Publication:
    """An address with its route."""

    def __init__(self, exchange: str, routing_key: str) -> None:
        self.address = Address(exchange, routing_key)
        self.route = Route(self.address)
        # The version of permissions and topology that the user was allowed it under.
        self.permitted: i64 = -1

    def permit(self, rights: Rights, vhost: VHost, more_keys: list[str] | None) -> None:
        """Find out whether the user may publish there; it holds until permissions or exchanges change.

        Raises AccessRefused.
        """
        name = self.address.exchange
        rights.check(WRITE, "exchange", name)
        exchange = vhost.exchanges.by_name.get(name)
        if exchange is not None and exchange.type == "topic":
            for key in [self.address.routing_key, *(more_keys or [])]:
                rights.check_topic(WRITE, name, key)
        self.permitted = rights.version + vhost.router.version


@final
class Publications:
    """The publications of a user in a virtual host, as long as there are not too many."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Publication] = {}

    def get(self, exchange: str, routing_key: str) -> Publication:
        """Raises InvalidField for names that AMQP 0-9-1, and the journal, have no room for."""
        known = self._known.get((exchange, routing_key))
        if known is None:
            for what, name in (("exchange name", exchange), ("routing key", routing_key)):
                if len(name.encode()) > _NAME_MAX_BYTES:
                    raise InvalidField(f"a {what} has {_NAME_MAX_BYTES} bytes at most", SCOPE_LINK)
            known = Publication(exchange, routing_key)
            if len(self._known) >= ROUTE_CACHE_ENTRIES:
                self._known.clear()
            self._known[exchange, routing_key] = known
        return known
