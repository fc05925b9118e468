"""The only node: its resources and their limits."""

import os
from typing import Any, Final

from msgspec import Struct
from starlette.responses import Response

from flintmq.base.histogram import LastMinute
from flintmq.broker.exchange.types import EXCHANGE_TYPES
from flintmq.management.errors import Missing
from flintmq.management.http.access import Right
from flintmq.management.http.call import Call, answer, no_content
from flintmq.management.http.listing import listed, picked
from flintmq.management.http.routes import NOT_AUDITED, Route

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


class LastMinuteShown(Struct):
    """Durations of the last minute in seconds. Percentiles are bounds of the histogram in the metrics."""

    p50: float
    p99: float
    longest: float


class NodeShown(Struct):
    """RabbitMQ's fields as far as they apply; memory and disk in bytes, `uptime` in milliseconds.

    FlintMQ's own: `storage_failure`, empty while the storage works; `tick_seconds`, how long ticks took;
    `loop_stall_seconds`, how late the event loop was.
    """

    name: str
    type: str
    running: bool
    being_drained: bool
    os_pid: str
    uptime: int
    processors: int
    run_queue: int
    rates_mode: str
    mem_used: int
    mem_limit: int
    mem_alarm: bool
    disk_free: int
    disk_free_limit: int
    disk_free_alarm: bool
    fd_used: int
    fd_total: int
    sockets_used: int
    sockets_total: int
    proc_used: int
    proc_total: int
    storage_failure: str
    tick_seconds: LastMinuteShown
    loop_stall_seconds: LastMinuteShown
    partitions: tuple[str, ...]
    exchange_types: list[dict[str, Any]]
    enabled_plugins: tuple[str, ...]
    contexts: list[dict[str, Any]]


class NodeMemory(Struct):
    memory: dict[str, Any]


def contexts(call: Call) -> list[dict[str, Any]]:
    """The listeners of the API and the web interface."""
    node = call.node
    return [
        {"description": "FlintMQ Management", "path": "/", "ip": each.host, "port": each.port, "node": node.name}
        for each in node.listeners
        if each.protocol in ("http", "https")
    ]


def describe_node(call: Call) -> NodeShown:
    node = call.node
    measures = node.measures()
    alarms = {each.resource for each in node.alarms}
    return NodeShown(
        name=node.name,
        type="disc",
        running=True,
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
        partitions=(),
        exchange_types=[{"name": name, "description": "", "enabled": True} for name in sorted(EXCHANGE_TYPES)],
        enabled_plugins=(),
        contexts=contexts(call),
    )


def _last_minute(measured: LastMinute) -> LastMinuteShown:
    return LastMinuteShown(
        measured.quantile_seconds(0.5), measured.quantile_seconds(0.99), round(measured.longest_seconds, 6)
    )


def _check_name(call: Call) -> None:
    if call.path("node") != call.node.name:
        raise Missing


async def _list(call: Call) -> Response:
    return await listed(call, [describe_node(call)], lambda node: node, lambda node: node.name)


async def _get(call: Call) -> Response:
    _check_name(call)
    return answer(picked(call, describe_node(call)))


async def _memory(call: Call) -> Response:
    _check_name(call)
    used = call.node.measures()["mem_used"]
    total = {"rss": used, "allocated": used, "erlang": used}
    return answer(NodeMemory({**dict.fromkeys(_MEMORY, 0), "other_system": used, "total": total, "strategy": "rss"}))


async def _relative_memory(call: Call) -> Response:
    _check_name(call)
    return answer(NodeMemory({**dict.fromkeys(_MEMORY, 0), "other_system": 100, "total": 100}))


async def _rebalance(_call: Call) -> Response:
    return no_content()


_LIST: Any = list[NodeShown]
_MEMORY_PATH: Final = "/api/nodes/{node}/memory"

ROUTES: Final = (
    Route("GET", "/api/nodes", _list, Right.MONITORING, "All nodes: there is one.", _LIST),
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
        "Rebalance queues over nodes: does nothing, there is one.",
        action=NOT_AUDITED,
    ),
)
