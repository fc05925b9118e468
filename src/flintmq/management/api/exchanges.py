"""Exchanges: declaration, deletion, statistics, and publishing over HTTP."""

from functools import partial
from typing import Any, Final

from msgspec import Struct, field
from starlette.responses import Response

from flintmq.broker.access.permission import CONFIGURE
from flintmq.broker.exchange.base import Exchange
from flintmq.broker.message import Address
from flintmq.broker.vhost import VHost
from flintmq.gateway.permissions import permit_exchange
from flintmq.management.errors import Missing
from flintmq.management.http.access import Right
from flintmq.management.http.call import Call, TableGiven, answer, no_content, put
from flintmq.management.http.listing import listed, picked
from flintmq.management.http.routes import NOT_AUDITED, Route
from flintmq.management.messages.publish import publish
from flintmq.management.messages.representation import checked_table, payload_of, properties_of
from flintmq.management.stats import counts
from flintmq.management.stats.counts import message_stats
from flintmq.management.stats.history import add_histories
from flintmq.management.values import arguments_shown


class ExchangeDeclaration(Struct):
    """Missing fields have the defaults of AMQP 0-9-1's exchange.declare (RabbitMQ)."""

    type: str = "direct"
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    arguments: TableGiven = field(default_factory=dict)
    argument_types: dict[str, Any] = field(default_factory=dict)


class Publish(Struct):
    """A message to publish. `payload_encoding` is string or base64."""

    routing_key: str | None
    payload: str
    payload_encoding: str
    properties: TableGiven = field(default_factory=dict)


class Published(Struct):
    routed: bool


def exchange_of(call: Call, variable: str = "name") -> Exchange:
    """The exchange in the path. Raises Missing."""
    found = call.vhost().exchanges.by_name.get(call.exchange(variable))
    if found is None:
        raise Missing
    return found


def facts(call: Call, exchange: Exchange) -> dict[str, object]:
    policies = call.broker.vhosts[exchange.vhost].policies
    ours = policies.find("exchange", exchange.name, False)
    shown: dict[str, object] = {
        "name": exchange.name,
        "vhost": exchange.vhost,
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        **arguments_shown(exchange.arguments),
        "policy": ours.name if ours else None,
        "user_who_performed_action": "rmq-internal",
    }
    passed = counts.of_exchange(exchange)
    if any(passed):
        shown["message_stats"] = message_stats(counts.EXCHANGE, passed, call.stats.exchanges.rates(exchange))
    return shown


async def _list(call: Call, vhosts: list[VHost]) -> Response:
    exchanges = [exchange for vhost in vhosts for exchange in vhost.exchanges.by_name.values()]
    return await listed(call, exchanges, lambda each: facts(call, each), _name, _sort_key)


def _name(exchange: Exchange) -> str:
    return exchange.name


def _sort_key(exchange: Exchange) -> tuple[str, str]:
    return exchange.vhost, exchange.name


async def _all(call: Call) -> Response:
    return await _list(call, call.visible_vhosts())


async def _of_vhost(call: Call) -> Response:
    return await _list(call, [call.vhost()])


async def _one(call: Call) -> Response:
    exchange = exchange_of(call)
    shown = {**facts(call, exchange), "incoming": [], "outgoing": []}
    points = partial(call.stats.exchanges.points, exchange)
    await add_histories(shown, counts.EXCHANGE, points, call.request.query_params)
    return answer(picked(call, shown))


async def _put(call: Call) -> Response:
    given = await call.body(ExchangeDeclaration)
    vhost, name = call.vhost(), call.path("name")
    arguments = checked_table(given.arguments, "arguments", given.argument_types)
    permit_exchange(call.caller.rights_in(vhost.name), vhost, name, arguments)
    was_there = name in vhost.exchanges.by_name
    if not was_there:
        call.check_alarms()
    vhost.exchanges.declare(name, given.type, given.durable, given.auto_delete, given.internal, arguments)
    await call.node.durable()
    return put(was_there)


async def _delete(call: Call) -> Response:
    exchange = exchange_of(call)
    call.caller.rights_in(exchange.vhost).check(CONFIGURE, "exchange", exchange.name)
    call.vhost().exchanges.delete(exchange.name, call.query("if-unused") == "true")
    await call.node.durable()
    return no_content()


async def _publish(call: Call) -> Response:
    given = await call.body(Publish)
    exchange = exchange_of(call)
    encoded = properties_of(given.properties)
    body = payload_of(given.payload, given.payload_encoding)
    call.check_alarms()
    address = Address(exchange.name, given.routing_key or "")
    routed = publish(call.node, call.vhost(), call.caller, call.peer, address, encoded, body)
    await call.node.durable()
    return answer(Published(routed))


_WHERE: Final = "/api/exchanges/{vhost}/{name}"
# Some clients write the default exchange with its own, empty name; amq.default is better.
_DEFAULT: Final = "/api/exchanges/{vhost}/"
_READS: Final = Right.VHOST_VISIBLE
ROUTES: Final = (
    Route("GET", "/api/exchanges", _all, Right.USER, "All exchanges that the caller may see.", list[dict[str, Any]]),
    Route("GET", "/api/exchanges/{vhost}", _of_vhost, _READS, "The exchanges of a virtual host.", list[dict[str, Any]]),
    Route("GET", _WHERE, _one, _READS, "An exchange.", dict[str, Any]),
    Route(
        "PUT", _WHERE, _put, Right.VHOST, "Declare an exchange.", takes=ExchangeDeclaration, action="exchange.declare"
    ),
    Route("DELETE", _WHERE, _delete, Right.VHOST, "Delete an exchange (if-unused).", action="exchange.delete"),
    Route("POST", f"{_WHERE}/publish", _publish, Right.VHOST, "Publish a message.", Published, Publish, NOT_AUDITED),
    Route(
        "POST",
        f"{_DEFAULT}/publish",
        _publish,
        Right.VHOST,
        "Publish to the default exchange, by its empty name.",
        Published,
        Publish,
        NOT_AUDITED,
    ),
)
