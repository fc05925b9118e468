"""Bindings, under all of RabbitMQ's paths: all, from an exchange, to an exchange or queue, and between two objects."""

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import chain
from typing import Any, Final, final
from urllib.parse import quote, quote_plus, unquote_plus

from msgspec import Struct, field
from starlette.responses import Response

from flintmq.broker.exchange.base import Binding, Exchange, canonical
from flintmq.broker.message import Table
from flintmq.broker.queue.base import Queue
from flintmq.broker.vhost import VHost
from flintmq.gateway.permissions import permit_binding
from flintmq.management.api.exchanges import exchange_of
from flintmq.management.api.queues import queue_of
from flintmq.management.errors import Missing
from flintmq.management.http.access import Right
from flintmq.management.http.call import Call, TableGiven, answer, created, no_content
from flintmq.management.http.listing import listed
from flintmq.management.http.routes import Route
from flintmq.management.messages.representation import checked_table
from flintmq.management.slices import gathered
from flintmq.management.values import arguments_shown

_HASH_CHARACTERS: Final = 22


class BindingDeclaration(Struct):
    routing_key: str = ""
    arguments: TableGiven = field(default_factory=dict)
    argument_types: dict[str, Any] = field(default_factory=dict)


@final
class _Edge:
    """A binding, or an implicit binding of the default exchange to a queue."""

    def __init__(self, vhost: str, source: str, destination: Queue | Exchange, key: str, arguments: Table) -> None:
        self.vhost = vhost
        self.source = source
        self.destination = destination.name
        self.destination_type = "queue" if isinstance(destination, Queue) else "exchange"
        self.key = key
        self.arguments = arguments

    def facts(self) -> dict[str, object]:
        return {
            "source": self.source,
            "vhost": self.vhost,
            "destination": self.destination,
            "destination_type": self.destination_type,
            "routing_key": self.key,
            **arguments_shown(self.arguments),
            "properties_key": properties_key(self.key, self.arguments),
        }

    def sort_key(self) -> tuple[str, str, str, str, str]:
        return self.vhost, self.source, self.destination_type, self.destination, self.key


def properties_key(key: str, arguments: Table) -> str:
    """RabbitMQ's properties_key: it identifies a binding among those between the same two objects. It has no slashes,
    because tools split their names of bindings there.
    """
    if not key and not arguments:
        return "~"
    quoted = quote_plus(key, errors="surrogatepass").replace("~", "%7E")
    if not arguments:
        return quoted
    digest = sha256(canonical(arguments).encode(errors="surrogatepass")).digest()
    return f"{quoted}~{urlsafe_b64encode(digest).decode()[:_HASH_CHARACTERS]}"


def _is_meant(wanted: str, edge: _Edge) -> bool:
    """Tell whether a path names this binding: by its properties_key, or with a less quoted routing key."""
    own = properties_key(edge.key, edge.arguments)
    key, *rest = wanted.split("~")
    return wanted == own or (unquote_plus(key) == edge.key != "" and rest == own.split("~")[1:])


def _edge(binding: Binding) -> _Edge:
    source = binding.source
    return _Edge(source.vhost, source.name, binding.destination, binding.routing_key, binding.arguments)


def _default(queue: Queue) -> _Edge:
    """The implicit binding of the default exchange to a queue, by the queue's name."""
    return _Edge(queue.vhost, "", queue, queue.name, {})


def _edges(vhosts: Iterable[VHost]) -> Iterator[_Edge]:
    """All bindings of some virtual hosts, created one by one; they may change meanwhile."""
    for vhost in vhosts:
        yield from map(_default, list(vhost.queues.values()))
        for exchange in list(vhost.exchanges.by_name.values()):
            yield from map(_edge, exchange.each_binding())


async def _listed(call: Call, edges: Iterator[_Edge]) -> Response:
    return await listed(call, await gathered(edges), _Edge.facts, lambda edge: edge.source, _Edge.sort_key)


async def _all(call: Call) -> Response:
    return await _listed(call, _edges(call.visible_vhosts()))


async def _of_vhost(call: Call) -> Response:
    return await _listed(call, _edges([call.vhost()]))


async def _from_exchange(call: Call) -> Response:
    exchange = exchange_of(call)
    if exchange.name == "":
        return await _listed(call, map(_default, list(call.vhost().queues.values())))
    return await _listed(call, map(_edge, exchange.each_binding()))


async def _to_exchange(call: Call) -> Response:
    return await _listed(call, map(_edge, call.vhost().exchanges.bindings.to(exchange_of(call))))


async def _to_queue(call: Call) -> Response:
    queue = queue_of(call)
    return await _listed(call, chain([_default(queue)], map(_edge, call.vhost().exchanges.bindings.to(queue))))


def _destination(call: Call, kind: str) -> Queue | Exchange:
    if kind == "e":
        return exchange_of(call, "destination")
    found = call.vhost().queues.get(call.path("destination"))
    if found is None:
        raise Missing
    return found


def _between(call: Call, kind: str) -> list[_Edge]:
    source, destination = exchange_of(call, "source"), _destination(call, kind)
    if source.name == "":
        return [_default(destination)] if isinstance(destination, Queue) else []
    found = call.vhost().exchanges.bindings.to(destination)
    return [_edge(binding) for binding in found if binding.source is source]


def _the_one(call: Call, kind: str) -> _Edge:
    wanted = call.path("props")
    for edge in _between(call, kind):
        if _is_meant(wanted, edge):
            return edge
    raise Missing


def _check(call: Call, source: Exchange, destination: Queue | Exchange, key: str) -> None:
    kind = "queue" if isinstance(destination, Queue) else "exchange"
    permit_binding(call.caller.rights_in(source.vhost), call.vhost(), kind, destination.name, source.name, key)
    if isinstance(destination, Queue):
        destination.check_access(None)


async def _bind(call: Call, kind: str) -> Response:
    given = await call.body(BindingDeclaration)
    source, destination = exchange_of(call, "source"), _destination(call, kind)
    key = given.routing_key
    arguments = checked_table(given.arguments, "arguments", given.argument_types)
    _check(call, source, destination, key)
    exchanges = call.vhost().exchanges
    if not source.has(Binding(source, destination, key, arguments)):
        call.check_alarms()
    if isinstance(destination, Queue):
        exchanges.bind_queue(destination, source.name, key, arguments)
    else:
        exchanges.bind_exchange(destination.name, source.name, key, arguments)
    await call.node.durable()
    # The location is relative to the request's path, and quoted once more, as parts of a path are.
    place = properties_key(key, arguments)
    return created("/".join(quote(part, safe="") for part in (destination.name, place)))


async def _unbind(call: Call, kind: str) -> Response:
    edge = _the_one(call, kind)
    source, destination = exchange_of(call, "source"), _destination(call, kind)
    _check(call, source, destination, edge.key)
    exchanges = call.vhost().exchanges
    if isinstance(destination, Queue):
        exchanges.unbind_queue(destination, source.name, edge.key, edge.arguments)
    else:
        exchanges.unbind_exchange(destination.name, source.name, edge.key, edge.arguments)
    await call.node.durable()
    return no_content()


def _routes_between(kind: str, to: str) -> list[Route]:
    """The routes of bindings between an exchange and `to`. `kind` is RabbitMQ's letter for the destination: q or e."""

    async def list_between(call: Call) -> Response:
        return await _listed(call, iter(_between(call, kind)))

    async def bind(call: Call) -> Response:
        return await _bind(call, kind)

    async def one(call: Call) -> Response:
        return answer(_the_one(call, kind).facts())

    async def unbind(call: Call) -> Response:
        return await _unbind(call, kind)

    noun = "queue" if kind == "q" else "exchange"
    where = f"/api/bindings/{{vhost}}/e/{{source}}/{kind}/{{destination}}"
    return [
        Route("GET", where, list_between, _READS, f"The bindings between an exchange and {to}.", list[dict[str, Any]]),
        Route(
            "POST",
            where,
            bind,
            Right.VHOST,
            f"Bind {to} to an exchange.",
            takes=BindingDeclaration,
            action=f"{noun}.bind",
        ),
        Route("GET", f"{where}/{{props}}", one, _READS, "One binding; props is its properties_key.", dict[str, Any]),
        Route("DELETE", f"{where}/{{props}}", unbind, Right.VHOST, "Delete a binding.", action=f"{noun}.unbind"),
    ]


_READS: Final = Right.VHOST_VISIBLE
_MANY: Final = list[dict[str, Any]]
_EXCHANGE: Final = "/api/exchanges/{vhost}/{name}/bindings"
_DEFAULT: Final = "/api/exchanges/{vhost}//bindings"
ROUTES: Final = (
    Route("GET", "/api/bindings", _all, Right.USER, "All bindings that the caller may see.", _MANY),
    Route("GET", "/api/bindings/{vhost}", _of_vhost, _READS, "The bindings of a virtual host.", _MANY),
    Route("GET", f"{_EXCHANGE}/source", _from_exchange, _READS, "Bindings from an exchange.", _MANY),
    Route(
        "GET",
        f"{_DEFAULT}/source",
        _from_exchange,
        _READS,
        "Bindings from the default exchange, by its empty name.",
        _MANY,
    ),
    Route("GET", f"{_EXCHANGE}/destination", _to_exchange, _READS, "Bindings to an exchange.", _MANY),
    Route("GET", "/api/queues/{vhost}/{name}/bindings", _to_queue, _READS, "Bindings to a queue.", _MANY),
    *_routes_between("q", "a queue"),
    *_routes_between("e", "another exchange"),
)
