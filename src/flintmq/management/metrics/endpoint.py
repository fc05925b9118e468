"""The endpoints below /metrics, as in RabbitMQ's Prometheus plugin: sums, all objects, or selected families."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Final

from starlette.responses import Response, StreamingResponse

from flintmq.broker.broker import Broker
from flintmq.broker.exchange.base import Exchange
from flintmq.broker.queue.base import Queue
from flintmq.management.http.access import Right
from flintmq.management.http.call import Call
from flintmq.management.http.concurrency import METRICS
from flintmq.management.http.routes import Route
from flintmq.management.metrics import node as node_metrics
from flintmq.management.metrics.clients import (
    CHANNELS,
    CONNECTIONS,
    OpenChannel,
    channel_labels,
    connection_labels,
    open_channels,
    publishers,
)
from flintmq.management.metrics.cluster import cluster
from flintmq.management.metrics.exposition import CONTENT_TYPE, GAUGE, each_of, several, sums_of
from flintmq.management.metrics.families import (
    CLUSTER_EXCHANGES,
    EXCHANGES,
    OUR_EXCHANGES,
    OUR_QUEUES,
    QUEUES,
    exchange_labels,
    queue_labels,
    typed_labels,
)
from flintmq.management.metrics.pipelines import pipelines

_PREFIX: Final = "rabbitmq_"
_DETAILED: Final = "rabbitmq_detailed_"
_CLUSTER: Final = "rabbitmq_cluster_"
_OURS: Final = "flintmq_"


async def _aggregated(call: Call) -> Response:
    return _streamed(_sums(call))


async def _sums(call: Call) -> AsyncIterator[str]:
    queues, exchanges = _queues(call.broker, None), _exchanges(call.broker, None)
    sockets = list(call.node.sockets)
    channels = await open_channels(sockets)
    async for text in _whole(call, "aggregated", queues, channels):
        yield text
    yield await sums_of(_PREFIX, CONNECTIONS, sockets)
    yield await sums_of(_PREFIX, CHANNELS, channels)
    yield await sums_of(_PREFIX, QUEUES, queues)
    yield await sums_of(_PREFIX, EXCHANGES, exchanges)
    yield await sums_of(_OURS, OUR_QUEUES, queues)


async def _per_object(call: Call) -> Response:
    return _streamed(_objects(call))


async def _objects(call: Call) -> AsyncIterator[str]:
    queues, exchanges = _queues(call.broker, None), _exchanges(call.broker, None)
    sockets = list(call.node.sockets)
    channels = await open_channels(sockets)
    async for text in _whole(call, "per-object", queues, channels):
        yield text
    async for text in each_of(_PREFIX, CONNECTIONS, sockets, connection_labels):
        yield text
    async for text in each_of(_PREFIX, CHANNELS, channels, channel_labels):
        yield text
    async for text in each_of(_PREFIX, QUEUES, queues, queue_labels):
        yield text
    async for text in each_of(_OURS, OUR_QUEUES, queues, queue_labels):
        yield text
    async for text in each_of(_PREFIX, EXCHANGES, exchanges, exchange_labels):
        yield text
    async for text in each_of(_OURS, OUR_EXCHANGES, exchanges, exchange_labels):
        yield text


async def _whole(call: Call, endpoint: str, queues: list[Queue], channels: list[OpenChannel]) -> AsyncIterator[str]:
    """The metrics of the node, which both complete endpoints have."""
    node, broker = call.node, call.broker
    yield node_metrics.identity(node, endpoint)
    yield node_metrics.coarse(_PREFIX, node)
    yield node_metrics.uptime(_PREFIX, node)
    yield node_metrics.churn(_PREFIX, broker)
    yield node_metrics.persister(_PREFIX, node)
    yield node_metrics.auth_attempts(_PREFIX, node)
    yield node_metrics.alarms(node)
    yield cluster(node)
    yield node_metrics.objects(_PREFIX, broker, queues)
    yield await node_metrics.passed(broker, queues)
    yield await publishers(node, channels)
    yield node_metrics.dead_letters(broker)
    yield await node_metrics.ours(node, queues)
    yield await pipelines(broker)


async def _detailed(call: Call) -> Response:
    """The metrics that the query selects: `family` names groups of metrics, `vhost` virtual hosts; both may be
    repeated.
    """
    query = call.request.query_params
    return _streamed(_chosen(call, set(query.getlist("family")), set(query.getlist("vhost"))))


async def _chosen(call: Call, families: set[str], vhosts: set[str]) -> AsyncIterator[str]:
    node, broker = call.node, call.broker
    yield node_metrics.identity(node, "detailed")
    if "node_coarse_metrics" in families:
        yield node_metrics.coarse(_DETAILED, node)
    if "node_metrics" in families:
        yield node_metrics.uptime(_DETAILED, node)
    if "node_persister_metrics" in families:
        yield node_metrics.persister(_DETAILED, node)
    if "connection_churn_metrics" in families:
        yield node_metrics.churn(_DETAILED, broker)
    if "auth_attempt_metrics" in families:
        yield node_metrics.auth_attempts(_DETAILED, node)
    queues, exchanges = _queues(broker, vhosts), _exchanges(broker, vhosts)
    of_queues = [family for family in QUEUES if family.group in families]
    async for text in each_of(_DETAILED, of_queues, queues, queue_labels):
        yield text
    of_exchanges = [family for family in EXCHANGES if family.group in families]
    async for text in each_of(_DETAILED, of_exchanges, exchanges, exchange_labels):
        yield text
    sockets = [socket for socket in node.sockets if not vhosts or connection_labels(socket)["vhost"] in vhosts]
    of_connections = [family for family in CONNECTIONS if family.group in families]
    async for text in each_of(_DETAILED, of_connections, sockets, connection_labels):
        yield text
    of_channels = [family for family in CHANNELS if family.group in families]
    if of_channels:
        async for text in each_of(_DETAILED, of_channels, await open_channels(sockets), channel_labels):
            yield text
    if "vhost_status" in families:
        status = [({"vhost": name}, 1) for name in broker.vhosts if not vhosts or name in vhosts]
        yield several(f"{_CLUSTER}vhost_status", GAUGE, "Whether a virtual host is there: 1", status)
    named = [family for family in CLUSTER_EXCHANGES if family.group in families]
    async for text in each_of(_CLUSTER, named, exchanges, typed_labels):
        yield text


def _queues(broker: Broker, vhosts: set[str] | None) -> list[Queue]:
    """The queues of all virtual hosts, or of some."""
    return [
        queue
        for vhost in broker.vhosts.values()
        if not vhosts or vhost.name in vhosts
        for queue in vhost.queues.values()
    ]


def _exchanges(broker: Broker, vhosts: set[str] | None) -> list[Exchange]:
    return [
        exchange
        for vhost in broker.vhosts.values()
        if not vhosts or vhost.name in vhosts
        for exchange in vhost.exchanges.by_name.values()
    ]


def _streamed(texts: AsyncIterator[str]) -> Response:
    return StreamingResponse(texts, headers={"content-type": CONTENT_TYPE})


ROUTES: Final = (
    Route("GET", "/metrics", _aggregated, Right.MONITORING, "Metrics for Prometheus, summed up."),
    Route(
        "GET",
        "/metrics/per-object",
        _per_object,
        Right.MONITORING,
        "Metrics for Prometheus, of each object.",
        group=METRICS,
    ),
    Route(
        "GET",
        "/metrics/detailed",
        _detailed,
        Right.MONITORING,
        "Metrics for Prometheus: the families and virtual hosts that the query names, of each object.",
        group=METRICS,
    ),
)


def open_to_all(routes: Iterable[Route]) -> tuple[Route, ...]:
    """Copies of routes in which those of metrics need no login."""
    return tuple([replace(route, right=Right.ANYBODY) if route in ROUTES else route for route in routes])
