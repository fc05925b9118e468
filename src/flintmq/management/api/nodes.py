"""The node, its resources and their limits; and the other nodes of its cluster."""

import os
from typing import Any, Final, TypeAlias, TypeVar

from msgspec import UNSET, Struct, UnsetType
from starlette.responses import Response

from flintmq.base.histogram import LastMinute
from flintmq.broker.exchange.types import EXCHANGE_TYPES
from flintmq.management.errors import Missing
from flintmq.management.http.access import Right
from flintmq.management.http.call import Call, answer, no_content
from flintmq.management.http.listing import listed, picked
from flintmq.management.http.routes import NOT_AUDITED, Route
from flintmq.management.ports import ClusterNode

# RabbitMQ's categories of memory, which its tools require. Here all of them are 0 except the last.
_MEMORY: Final = (
    *("connection_readers", "connection_writers", "connection_channels", "connection_other", "queue_procs"),
    *(
        "quorum_queue_procs",
        "stream_queue_procs",
        "stream_queue_replica_reader_procs",
        "stream_queue_coordinator_procs",
    ),
    *("plugins", "metadata_store", "other_proc", "metrics", "mgmt_db", "mnesia", "quorum_ets", "metadata_store_ets"),
    *("other_ets", "binary", "msg_index", "code", "atom", "allocated_unused", "reserved_unallocated", "other_system"),
)


T = TypeVar("T")
# A field that is left out where it is not known.
Known: TypeAlias = T | UnsetType


class LastMinuteShown(Struct):
    """Durations of the last minute in seconds. Percentiles are bounds of the histogram in the metrics."""

    p50: float
    p99: float
    longest: float


class NodeShown(Struct):
    """RabbitMQ's fields as far as they apply; memory and disk in bytes, `uptime` in milliseconds.

    FlintMQ's own: `storage_failure`, empty while the storage works; `tick_seconds`, how long ticks took;
    `loop_stall_seconds`, how late the event loop was. And of each node of a cluster: `is_leader`, `is_in_sync`;
    `behind_bytes` and `behind_seconds`, how much of what the leader has changed it has not confirmed, null if it does
    not follow; its `address` for other nodes, and its `version`.

    Nodes that do not lead have no fields that only they could know: those from `being_drained` to `contexts`.
    """

    name: str
    type: str
    running: bool
    partitions: tuple[str, ...]
    being_drained: Known[bool] = UNSET
    os_pid: Known[str] = UNSET
    uptime: Known[int] = UNSET
    processors: Known[int] = UNSET
    run_queue: Known[int] = UNSET
    rates_mode: Known[str] = UNSET
    mem_used: Known[int] = UNSET
    mem_limit: Known[int] = UNSET
    mem_alarm: Known[bool] = UNSET
    disk_free: Known[int] = UNSET
    disk_free_limit: Known[int] = UNSET
    disk_free_alarm: Known[bool] = UNSET
    fd_used: Known[int] = UNSET
    fd_total: Known[int] = UNSET
    sockets_used: Known[int] = UNSET
    sockets_total: Known[int] = UNSET
    proc_used: Known[int] = UNSET
    proc_total: Known[int] = UNSET
    storage_failure: Known[str] = UNSET
    tick_seconds: Known[LastMinuteShown] = UNSET
    loop_stall_seconds: Known[LastMinuteShown] = UNSET
    exchange_types: Known[list[dict[str, Any]]] = UNSET
    enabled_plugins: Known[tuple[str, ...]] = UNSET
    contexts: Known[list[dict[str, Any]]] = UNSET
    is_leader: Known[bool] = UNSET
    is_in_sync: Known[bool] = UNSET
    behind_bytes: Known[int | None] = UNSET
    behind_seconds: Known[float | None] = UNSET
    address: Known[str] = UNSET
    version: Known[str] = UNSET


class NodeMemory(Struct):
    """RabbitMQ's kinds of memory; `not_available` for another node of the cluster, as in RabbitMQ."""

    memory: dict[str, Any] | str


_NOT_TOLD: Final = NodeMemory("not_available")


def contexts(call: Call) -> list[dict[str, Any]]:
    """The listeners of the API and the web interface."""
    node = call.node
    return [
        {"description": "FlintMQ Management", "path": "/", "ip": each.host, "port": each.port, "node": node.name}
        for each in node.listeners
        if each.protocol in ("http", "https")
    ]


def _describe_this(call: Call) -> NodeShown:
    node = call.node
    measures = node.measures()
    alarms = {each.resource for each in node.alarms}
    return NodeShown(
        name=node.name,
        type="disc",
        running=True,
        partitions=(),
        being_drained=False,
        os_pid=str(os.getpid()),
        uptime=node.now_ms() - node.started_ms,
        processors=os.cpu_count() or 1,
        run_queue=0,
        rates_mode="basic",
        mem_used=measures["mem_used"],
        mem_limit=measures["mem_limit"],
        mem_alarm="memory" in alarms,
        disk_free=measures["disk_free"],
        disk_free_limit=measures["disk_free_limit"],
        disk_free_alarm="disk" in alarms,
        fd_used=measures["fd_used"],
        fd_total=measures["fd_total"],
        sockets_used=measures["sockets_used"],
        sockets_total=measures["sockets_total"],
        proc_used=measures["proc_used"],
        # Threads are not limited; RabbitMQ's default limit of processes is shown.
        proc_total=1_048_576,
        storage_failure=node.failure,
        tick_seconds=_last_minute(node.last_minute["tick"]),
        loop_stall_seconds=_last_minute(node.last_minute["stall"]),
        exchange_types=[{"name": name, "description": "", "enabled": True} for name in sorted(EXCHANGE_TYPES)],
        enabled_plugins=(),
        contexts=contexts(call),
    )


def _last_minute(measured: LastMinute) -> LastMinuteShown:
    return LastMinuteShown(
        measured.quantile_seconds(0.5), measured.quantile_seconds(0.99), round(measured.longest_seconds, 6)
    )


def _describe(call: Call) -> list[NodeShown]:
    """All nodes. Only the one that answers knows its own measures."""
    this, cluster = _describe_this(call), call.node.cluster
    if cluster is None:
        return [this]
    return [_in_cluster(this if each.name == this.name else None, each) for each in cluster.nodes]


def _in_cluster(this: NodeShown | None, node: ClusterNode) -> NodeShown:
    shown = this or NodeShown(node.name, "disc", node.is_alive, ())
    shown.is_leader, shown.is_in_sync = node.is_leader, node.is_in_sync
    shown.behind_bytes, shown.behind_seconds = node.behind_bytes, node.behind_seconds
    shown.address, shown.version = node.address, node.version
    return shown


def _is_this(call: Call) -> bool:
    """Whether the path names the node that answers, and not another one of its cluster. Raises Missing otherwise."""
    wanted, cluster = call.path("node"), call.node.cluster
    if wanted == call.node.name:
        return True
    if cluster is None or all(wanted != each.name for each in cluster.nodes):
        raise Missing
    return False


async def _list(call: Call) -> Response:
    return await listed(call, _describe(call), lambda node: node, lambda node: node.name)


async def _get(call: Call) -> Response:
    wanted = call.path("node")
    for node in _describe(call):
        if node.name == wanted:
            return answer(picked(call, node))
    raise Missing


async def _memory(call: Call) -> Response:
    if not _is_this(call):
        return answer(_NOT_TOLD)
    used = call.node.measures()["mem_used"]
    total = {"rss": used, "allocated": used, "erlang": used}
    return answer(NodeMemory({**dict.fromkeys(_MEMORY, 0), "other_system": used, "total": total, "strategy": "rss"}))


async def _relative_memory(call: Call) -> Response:
    if not _is_this(call):
        return answer(_NOT_TOLD)
    return answer(NodeMemory({**dict.fromkeys(_MEMORY, 0), "other_system": 100, "total": 100}))


async def _rebalance(_call: Call) -> Response:
    return no_content()


_LIST: Any = list[NodeShown]
_MEMORY_PATH: Final = "/api/nodes/{node}/memory"

ROUTES: Final = (
    Route("GET", "/api/nodes", _list, Right.MONITORING, "All nodes.", _LIST),
    Route("GET", "/api/nodes/{node}", _get, Right.MONITORING, "The node of this name.", NodeShown),
    Route("GET", _MEMORY_PATH, _memory, Right.MONITORING, "The memory that the node uses.", NodeMemory),
    Route(
        "GET",
        f"{_MEMORY_PATH}/relative",
        _relative_memory,
        Right.MONITORING,
        "The memory that the node uses, in percent.",
        NodeMemory,
    ),
    Route(
        "POST",
        "/api/rebalance/queues",
        _rebalance,
        Right.ADMINISTRATOR,
        "Rebalance queues over nodes: does nothing, because one node leads all queues.",
        action=NOT_AUDITED,
    ),
)
