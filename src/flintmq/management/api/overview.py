"""Overview of the node: versions, totals, listeners."""

import platform
from typing import Any, Final

from msgspec import Struct
from starlette.responses import Response

from flintmq.broker.exchange.types import EXCHANGE_TYPES
from flintmq.management.api.nodes import contexts
from flintmq.management.api.parameters import cluster_name
from flintmq.management.http.access import Right
from flintmq.management.http.call import Call, answer
from flintmq.management.http.routes import Route
from flintmq.management.slices import each
from flintmq.management.stats.totals import message_stats, queue_totals

# RabbitMQ's names of the churn counters.
_CHURN: Final = {
    "connection_created": "connections_opened",
    "connection_closed": "connections_closed",
    "channel_created": "channels_opened",
    "channel_closed": "channels_closed",
    "queue_declared": "queues_declared",
    "queue_created": "queues_created",
    "queue_deleted": "queues_deleted",
}


class ExchangeType(Struct):
    name: str
    description: str = ""
    enabled: bool = True


class ObjectTotals(Struct):
    channels: int
    connections: int
    consumers: int
    exchanges: int
    queues: int


class ListenerShown(Struct):
    node: str
    protocol: str
    ip_address: str
    port: int
    socket_opts: list[str] = []


class ClusterShown(Struct):
    """How many nodes the cluster has, and how many hold everything that is confirmed. Nothing is confirmed while those
    are fewer than `min_in_sync`. `shortage` says why publishers wait for other nodes, and is empty if they do not.
    `term` grows with each new leader.
    """

    term: int
    nodes: int
    in_sync: int
    min_in_sync: int
    shortage: str


class Overview(Struct, omit_defaults=True):
    """RabbitMQ's fields; callers without the tag monitoring see fewer of them. `cluster` is FlintMQ's own, for a node
    that leads one.
    """

    management_version: str
    product_name: str
    product_version: str
    rabbitmq_version: str
    exchange_types: list[ExchangeType]
    object_totals: ObjectTotals
    node: str
    cluster_name: str
    default_queue_type: str
    rates_mode: str
    statistics_db_event_queue: int
    erlang_version: str = ""
    python_version: str = ""
    listeners: list[ListenerShown] = []
    contexts: list[dict[str, Any]] = []
    churn_rates: dict[str, int] = {}
    message_stats: dict[str, Any] = {}
    queue_totals: dict[str, Any] = {}
    cluster: ClusterShown | None = None


async def _overview(call: Call) -> Response:
    node = call.node
    vhosts = call.visible_vhosts()
    queues = [queue for vhost in vhosts for queue in vhost.queues.values()]
    churn = call.broker.tick.churn
    # If the caller may see all virtual hosts, the total series is used.
    sees_all = len(vhosts) == len(call.broker.vhosts)
    sampled = call.stats.vhosts
    series = [call.stats.total] if sees_all else [sampled[vhost.name] for vhost in vhosts if vhost.name in sampled]
    shown = Overview(
        management_version=node.rabbitmq_version,
        product_name="FlintMQ",
        product_version=node.version,
        rabbitmq_version=node.rabbitmq_version,
        exchange_types=[ExchangeType(name) for name in sorted(EXCHANGE_TYPES)],
        object_totals=ObjectTotals(
            channels=int(churn.channels_opened) - int(churn.channels_closed),
            connections=sum(len(vhost.connections) for vhost in vhosts),
            consumers=sum(await each(queues, lambda queue: len(queue.consumers))),
            exchanges=sum(len(vhost.exchanges.by_name) for vhost in vhosts),
            queues=len(queues),
        ),
        node=node.name,
        cluster_name=cluster_name(call),
        default_queue_type="classic",
        rates_mode="basic",
        statistics_db_event_queue=0,
        message_stats=message_stats(series, call.request.query_params),
        queue_totals=queue_totals(series, call.request.query_params),
    )
    cluster = node.cluster
    if cluster is not None:
        in_sync = sum(each.is_in_sync for each in cluster.nodes)
        shown.cluster = ClusterShown(cluster.term, len(cluster.nodes), in_sync, cluster.min_in_sync, node.shortage)
    if call.caller.is_monitoring:
        shown.python_version = platform.python_version()
        shown.contexts = contexts(call)
        shown.churn_rates = {name: int(getattr(churn, ours)) for name, ours in _CHURN.items()}
        shown.listeners = [ListenerShown(node.name, one.protocol, one.host, one.port) for one in node.listeners]
    return answer(shown)


ROUTES: Final = (Route("GET", "/api/overview", _overview, Right.USER, "Overview of the node.", Overview),)
