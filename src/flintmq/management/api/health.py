"""Health checks for load balancers and monitoring: 200 and "ok", or 503 and the reason."""

from typing import Any, Final

from msgspec import Struct
from starlette.responses import Response

from flintmq.broker.queue.base import Queue
from flintmq.management.errors import BadRequest
from flintmq.management.http.access import Right
from flintmq.management.http.call import Call, answer
from flintmq.management.http.routes import Handler, Route
from flintmq.management.slices import each

_DAY_MS: Final = 86_400_000
_UNITS_MS: Final = {"days": _DAY_MS, "weeks": 7 * _DAY_MS, "months": 365 * _DAY_MS // 12, "years": 365 * _DAY_MS}
# Common names of protocols, and RabbitMQ's names for them.
_PROTOCOLS: Final = {
    **dict.fromkeys(("amqp091", "amqp0.9.1", "amqp0-9-1", "amqp0_9_1"), "amqp"),
    **dict.fromkeys(("amqp10", "amqp1.0", "amqp1-0", "amqp1_0"), "amqp"),
    "amqps": "amqp/ssl",
    **dict.fromkeys(("http1", "http1.1", "http_api", "management", "management_ui", "ui"), "http"),
}


class Health(Struct):
    """The result of a check. `status` is "ok" or "failed"; a failure has more fields."""

    status: str


def _ok(**facts: object) -> Response:
    return answer({"status": "ok", **facts})


def _failed(reason: str, **facts: object) -> Response:
    return answer({"status": "failed", "reason": reason, **facts}, 503)


def _alarms(reason: str) -> Handler:
    async def check(call: Call) -> Response:
        alarms = [{"resource": each.resource, "node": call.node.name} for each in call.node.alarms]
        if call.node.failure:
            alarms.append({"resource": "storage", "node": call.node.name, "reason": call.node.failure})
        if call.node.shortage:
            alarms.append({"resource": "cluster", "node": call.node.name, "reason": call.node.shortage})
        return _failed(reason, alarms=alarms) if alarms else _ok()

    return check


async def _port(call: Call) -> Response:
    text = call.path("port")
    if not (text.isascii() and text.isdigit() and len(text) <= 5):
        raise BadRequest("Invalid port")
    port = int(text)
    ports = [each.port for each in call.node.listeners]
    return _ok(port=port) if port in ports else _failed("No active listener", missing=port, ports=ports)


async def _protocols(call: Call) -> Response:
    wanted = {_PROTOCOLS.get(each, each) for each in call.path("protocols").lower().split(",")}
    active = sorted({each.protocol for each in call.node.listeners})
    missing = sorted(wanted.difference(active))
    return _failed("No active listener", missing=missing, protocols=active) if missing else _ok(protocols=active)


async def _vhosts(call: Call) -> Response:
    if call.node.failure:
        return _failed("Some virtual hosts are down", **{"virtual-hosts": sorted(call.broker.vhosts)})
    return _ok()


async def _certificates(call: Call) -> Response:
    within, unit = call.path("within"), call.path("unit").lower()
    if not (within.isascii() and within.isdigit() and len(within) <= 6):
        raise BadRequest("Invalid expiration value.")
    if unit not in _UNITS_MS:
        raise BadRequest("Time unit not recognised. Supported units: days, weeks, months, years.")
    until = call.node.now_ms() + int(within) * _UNITS_MS[unit]
    certificates = await call.node.certificates()
    expired = [
        {
            "node": call.node.name,
            "protocol": listener.protocol,
            "interface": listener.host,
            "port": listener.port,
            "certfile_expires_on": [each.expires_on for each in certificates if each.expires_ms <= until],
        }
        for listener in call.node.listeners
        if listener.protocol in ("amqp/ssl", "https")
    ]
    is_late = any(each.expires_ms <= until for each in certificates)
    return _failed("Certificates expiring", expired=expired) if is_late else _ok()


async def _in_service(call: Call) -> Response:
    if call.node.failure:
        return _failed("the storage has failed, so the node accepts no durable messages")
    return _ok()


async def _below_connection_limit(call: Call) -> Response:
    measures = call.node.measures()
    current, limit = measures["sockets_used"], measures["sockets_total"]
    if current >= limit:
        return _failed("node connection limit is reached", current=current, limit=limit)
    return _ok(current=current, limit=limit)


async def _quorum(call: Call) -> Response:
    """Names the durable queues, which all depend on the same nodes, as far as the caller may see them."""
    cluster = call.node.cluster
    if cluster is None or sum(node.is_in_sync for node in cluster.nodes) > cluster.min_in_sync:
        return _ok()
    found = [queue for vhost in call.visible_vhosts() for queue in vhost.queues.values() if queue.durable]
    return _failed(_CRITICAL, queues=await each(found, _critical_queue))


def _critical_queue(queue: Queue) -> dict[str, str]:
    return {
        "readable_name": f"queue '{queue.name}' in vhost '{queue.vhost}'",
        "name": queue.name,
        "virtual_host": queue.vhost,
        "type": queue.kind,
    }


async def _always(_call: Call) -> Response:
    """A check of what cannot fail here."""
    return _ok()


async def _alive(call: Call) -> Response:
    call.vhost()
    return await _in_service(call)


def _route(path: str, check: Handler, summary: str, right: Right = Right.USER) -> Route:
    gives: Any = Health
    return Route("GET", path, check, right, summary, gives)


_CHECKS: Final = "/api/health/checks"
_CRITICAL: Final = "There are queues whose messages would not be confirmed any more if one more node was shut down"
_LEADERS: Final = f"{_CHECKS}/quorum-queues-without-elected-leaders"
_LEADERLESS: Final = "Never fails: it is about queues without a leader, and queues here need none."

ROUTES: Final = (
    _route(
        f"{_CHECKS}/alarms",
        _alarms("There are alarms in effect in the cluster"),
        "Fails while an alarm blocks publishers, or publishers wait for other nodes.",
    ),
    _route(
        f"{_CHECKS}/local-alarms",
        _alarms("There are alarms in effect on the node"),
        "Fails while an alarm blocks publishers, or publishers wait for other nodes.",
    ),
    _route(f"{_CHECKS}/port-listener/{{port}}", _port, "Fails unless the node listens on this port."),
    _route(
        f"{_CHECKS}/protocol-listener/{{protocols}}", _protocols, "Fails unless the node listens for these protocols."
    ),
    _route(f"{_CHECKS}/virtual-hosts", _vhosts, "Fails when virtual hosts are down."),
    _route(
        f"{_CHECKS}/certificate-expiration/{{within}}/{{unit}}",
        _certificates,
        "Fails when a certificate expires within this number of days, weeks, months or years.",
    ),
    _route(f"{_CHECKS}/is-in-service", _in_service, "Fails when the storage has failed."),
    _route(f"{_CHECKS}/ready-to-serve-clients", _in_service, "Fails when the storage has failed."),
    _route(f"{_CHECKS}/below-node-connection-limit", _below_connection_limit, "Fails at the limit of connections."),
    _route(
        f"{_CHECKS}/node-is-quorum-critical",
        _quorum,
        "Fails if nothing would be confirmed any more with one node less in sync; never without a cluster.",
    ),
    _route(f"{_CHECKS}/node-is-mirror-sync-critical", _always, "Never fails: there are no mirrors."),
    _route(f"{_CHECKS}/reached-target-cluster-size", _always, "Never fails: there is no target."),
    _route(f"{_CHECKS}/metadata-store/initialized", _always, "Never fails: definitions are read first."),
    _route(f"{_CHECKS}/metadata-store/initialized/with-data", _always, "Never fails: definitions are read first."),
    _route(f"{_LEADERS}/all-vhosts", _always, _LEADERLESS),
    _route(f"{_LEADERS}/all-vhosts/pattern/{{pattern}}", _always, _LEADERLESS),
    _route(f"{_LEADERS}/vhost/{{vhost}}", _always, _LEADERLESS, Right.VHOST_VISIBLE),
    _route(f"{_LEADERS}/vhost/{{vhost}}/pattern/{{pattern}}", _always, _LEADERLESS, Right.VHOST_VISIBLE),
    _route("/api/healthchecks/node", _in_service, "Old path of is-in-service."),
    _route("/api/healthchecks/node/{node}", _in_service, "Old path of is-in-service."),
    _route(
        "/api/aliveness-test/{vhost}",
        _alive,
        "Fails when the storage has failed, or without the virtual host.",
        Right.VHOST,
    ),
)
