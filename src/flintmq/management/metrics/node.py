"""Metrics of the node as a whole, under RabbitMQ's names, and under our own if RabbitMQ has none."""

import platform
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from flintmq.broker.arguments import QUEUE_KINDS
from flintmq.broker.broker import Broker
from flintmq.broker.counters.traffic import Inflow, Outflow, Traffic
from flintmq.broker.queue.base import Queue
from flintmq.broker.tick import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED
from flintmq.gateway.amqp10.confirms import PROTOCOL
from flintmq.gateway.amqp10.outgoing_link import LinkConsumer
from flintmq.management.metrics.exposition import COUNTER, GAUGE, histogram, several, single
from flintmq.management.ports import Node
from flintmq.management.slices import each

AMQP_091: Final = "amqp091"
AMQP_10: Final = PROTOCOL
PROTOCOLS: Final = (AMQP_091, AMQP_10)
_DEAD_LETTER_REASONS: Final = (REJECTED, EXPIRED, MAXLEN, DELIVERY_LIMIT)
_ALARMS: Final = (
    ("memory_used_watermark", "memory", "Publishers wait because memory is low"),
    ("free_disk_space_watermark", "disk", "Publishers wait because the disk is nearly full"),
    ("file_descriptor_limit", "file_descriptor", "Never: a socket too many is refused instead"),
)
_STALLS: Final = "How late the event loop runs what is due, sampled ten times a second"
_ENDED: Final = "I/O workers that have ended while the broker runs, each with its clients"
_COSTLY: Final = "Dead letters and delayed messages that went nowhere because finding their queues takes too much work"
_UNSENDABLE: Final = "Messages that queues gave up because no frame could hold them, or that streams passed over"
# Name of the counter, suffix of the metric, help text.
_CHURN: Final = (
    ("connections_opened", "connections_opened_total", "Connections opened"),
    ("connections_closed", "connections_closed_total", "Connections closed or lost"),
    ("channels_opened", "channels_opened_total", "Channels opened, and sessions of AMQP 1.0 begun"),
    ("channels_closed", "channels_closed_total", "Channels closed, and sessions ended"),
    ("queues_declared", "queues_declared_total", "Declarations of queues, also of those that were there"),
    ("queues_created", "queues_created_total", "Queues made"),
    ("queues_deleted", "queues_deleted_total", "Queues deleted"),
)
_MEASURES: Final = (
    ("mem_used", "process_resident_memory_bytes", "Memory used in bytes"),
    ("mem_limit", "resident_memory_limit_bytes", "Memory in bytes above which publishers wait"),
    ("disk_free", "disk_space_available_bytes", "Bytes free on the disk of the data directory"),
    ("disk_free_limit", "disk_space_available_limit_bytes", "Free bytes of the disk below which publishers wait"),
    ("fd_used", "process_open_fds", "Open file descriptors"),
    ("fd_total", "process_max_fds", "File descriptors that may be open"),
    ("sockets_used", "process_open_tcp_sockets", "Connections of AMQP, open or about to be"),
    ("sockets_total", "process_max_tcp_sockets", "Connections of AMQP that there may be"),
)
_PUBLISHED: Final[tuple[tuple[str, str, Callable[[Inflow], int]], ...]] = (
    ("received", "Messages received from publishers", lambda inflow: inflow.published),
    ("confirmed", "Messages confirmed to publishers", lambda inflow: inflow.confirmed),
    (
        "routed",
        "Messages that went to a queue or stream at least",
        lambda inflow: inflow.published - inflow.returned - inflow.dropped,
    ),
    (
        "unroutable_returned",
        "Unroutable messages that were returned to their publishers",
        lambda inflow: inflow.returned,
    ),
    (
        "unroutable_dropped",
        "Unroutable messages that were dropped",
        lambda inflow: inflow.dropped,
    ),
)
_DELIVERED: Final[tuple[tuple[str, str, Callable[[Outflow], int]], ...]] = (
    (
        "delivered",
        "Messages delivered, or fetched",
        lambda outflow: outflow.delivered + outflow.delivered_no_ack + outflow.got + outflow.got_no_ack,
    ),
    (
        "delivered_consume_manual_ack",
        "Messages delivered to consumers that acknowledge them",
        lambda outflow: outflow.delivered,
    ),
    (
        "delivered_consume_auto_ack",
        "Messages delivered to consumers that need not acknowledge them",
        lambda outflow: outflow.delivered_no_ack,
    ),
    ("delivered_get_manual_ack", "Messages fetched with basic.get, to acknowledge", lambda outflow: outflow.got),
    ("delivered_get_auto_ack", "Messages fetched with basic.get, for good", lambda outflow: outflow.got_no_ack),
    ("get_empty", "How often basic.get found no message", lambda outflow: outflow.got_empty),
    ("redelivered", "Messages delivered that somebody may have had before", lambda outflow: outflow.redelivered),
    ("acknowledged", "Messages acknowledged by consumers", lambda outflow: outflow.acked),
)


def by_protocol(whole: int, by_10: int) -> list[tuple[Mapping[str, str], int]]:
    """Split a total by protocol: everything that is not AMQP 1.0 counts as 0-9-1."""
    return [({"protocol": AMQP_091}, int(whole) - int(by_10)), ({"protocol": AMQP_10}, int(by_10))]


def identity(node: Node, endpoint: str) -> str:
    """The labels by which dashboards distinguish nodes, and the versions."""
    cluster = node.name if node.cluster is None else node.cluster.name
    said = {
        "rabbitmq_node": node.name,
        "rabbitmq_cluster": cluster,
        "rabbitmq_cluster_permanent_id": cluster,
        "rabbitmq_endpoint": endpoint,
    }
    build = {
        "rabbitmq_version": node.rabbitmq_version,
        "product_name": "FlintMQ",
        "product_version": node.version,
        "python_version": platform.python_version(),
    }
    return single("rabbitmq_identity_info", "untyped", "The node, and its cluster or itself", 1, said) + single(
        "rabbitmq_build_info", "untyped", "FlintMQ's version, and RabbitMQ's that it stands in for", 1, build
    )


def coarse(prefix: str, node: Node) -> str:
    """Resources that the process uses, and their limits."""
    measured = node.measures()
    return "".join(
        [single(prefix + name, GAUGE, text, measured[key]) for key, name, text in _MEASURES if key in measured]
    )


def uptime(prefix: str, node: Node) -> str:
    seconds = (node.now_ms() - node.started_ms) / 1000
    return single(f"{prefix}erlang_uptime_seconds", GAUGE, "Since the node began to accept connections", seconds)


def churn(prefix: str, broker: Broker) -> str:
    counted = broker.tick.churn
    return "".join([single(prefix + name, COUNTER, text, getattr(counted, key)) for key, name, text in _CHURN])


def auth_attempts(prefix: str, node: Node) -> str:
    """Logins by protocol; the API also has them by address."""
    tallies = node.attempts.by_protocol
    shown = (
        ("", "Logins that were tried", [each.succeeded + each.failed for each in tallies]),
        ("succeeded_", "Logins that succeeded", [each.succeeded for each in tallies]),
        ("failed_", "Logins that were refused", [each.failed for each in tallies]),
    )
    labels = [{"protocol": each.protocol} for each in tallies]
    return "".join(
        several(f"{prefix}auth_attempts_{name}total", COUNTER, text, zip(labels, counts, strict=True))
        for name, text, counts in shown
    )


def persister(prefix: str, node: Node) -> str:
    """Syncs under RabbitMQ's names; flintmq_sync_seconds is a histogram of them."""
    measured = node.timings["sync"]
    return single(
        f"{prefix}io_sync_ops_total", COUNTER, "Rounds of writing and syncing", sum(measured.counts)
    ) + single(f"{prefix}io_sync_time_seconds_total", COUNTER, "Time they took", measured.total_seconds)


def alarms(node: Node) -> str:
    on = {alarm.resource for alarm in node.alarms}
    shown = [
        single(f"rabbitmq_alarms_{name}", GAUGE, f"{text}: 1 where it is so", int(resource in on))
        for name, resource, text in _ALARMS
    ]
    lost = 0 if node.cluster is None else sum(not each.is_alive for each in node.cluster.nodes)
    return "".join(shown) + single(
        "rabbitmq_unreachable_cluster_peers_count", GAUGE, "Nodes of the cluster that were not heard of lately", lost
    )


def objects(prefix: str, broker: Broker, queues: Sequence[Queue]) -> str:
    """The numbers of connections, channels and queues."""
    vhosts, churn = broker.vhosts.values(), broker.tick.churn
    counts = (
        ("connections", "Connections open", sum(len(vhost.connections) for vhost in vhosts)),
        ("channels", "Channels open, and sessions", int(churn.channels_opened) - int(churn.channels_closed)),
        ("queues", "Queues there are", len(queues)),
    )
    return "".join([single(prefix + name, GAUGE, text, count) for name, text, count in counts])


class _Deliveries:
    """Deliveries from queues by kind of queue: the total, and the part over AMQP 1.0; and the numbers of consumers."""

    def __init__(self) -> None:
        self.whole = {kind: Outflow() for kind in QUEUE_KINDS}
        self.part = {kind: Outflow() for kind in QUEUE_KINDS}
        self.consumers = dict.fromkeys(PROTOCOLS, 0)

    def add(self, queue: Queue) -> None:
        self.whole[queue.kind].add(queue)
        if queue.outflows is not None and AMQP_10 in queue.outflows:
            self.part[queue.kind].add(queue.outflows[AMQP_10])
        links = sum([isinstance(consumer, LinkConsumer) for consumer in queue.consumers])
        self.consumers[AMQP_10] += links
        self.consumers[AMQP_091] += len(queue.consumers) - links

    def add_gone(self, traffic: Traffic) -> None:
        for (kind, protocol), outflow in traffic.gone_outflows.items():
            (self.part if protocol else self.whole)[kind].add(outflow)

    def samples(self, read: Callable[[Outflow], int]) -> list[tuple[Mapping[str, str], int]]:
        found: list[tuple[Mapping[str, str], int]] = []
        for kind in QUEUE_KINDS:
            by_10 = int(read(self.part[kind]))
            counts = {AMQP_091: int(read(self.whole[kind])) - by_10, AMQP_10: by_10}
            found += [
                ({"protocol": protocol, "queue_type": f"rabbit_{kind}_queue"}, count)
                for protocol, count in counts.items()
            ]
        return found


async def passed(broker: Broker, queues: Sequence[Queue]) -> str:
    """Totals that never decrease, also when something is closed or deleted, with RabbitMQ's labels. Messages that are
    published and taken over HTTP count as AMQP 0-9-1, as in RabbitMQ.
    """
    out = _Deliveries()
    await each(queues, out.add)
    churn = broker.tick.churn
    whole, by_10 = Inflow(), Inflow()
    whole.published = churn.published
    for traffic in (churn.gone, *[vhost.traffic for vhost in broker.vhosts.values()]):
        out.add_gone(traffic)
        whole.confirmed += traffic.confirmed
        whole.returned += traffic.returned
        whole.dropped += traffic.dropped
        if AMQP_10 in traffic.inflows:
            by_10.add(traffic.inflows[AMQP_10])
    for vhost in broker.vhosts.values():
        whole.published += vhost.router.published
    texts = [
        several(f"rabbitmq_global_messages_{name}_total", COUNTER, text, by_protocol(read(whole), read(by_10)))
        for name, text, read in _PUBLISHED
    ]
    texts += [
        several(f"rabbitmq_global_messages_{name}_total", COUNTER, text, out.samples(read))
        for name, text, read in _DELIVERED
    ]
    consumers = sum(out.consumers.values())
    labelled = by_protocol(consumers, out.consumers[AMQP_10])
    texts.append(several("rabbitmq_global_consumers", GAUGE, "Consumers there are", labelled))
    texts.append(single("rabbitmq_consumers", GAUGE, "Consumers there are", consumers))
    return "".join(texts)


def dead_letters(broker: Broker) -> str:
    counted = broker.tick.churn.dead_letters
    texts = []
    for reason in _DEAD_LETTER_REASONS:
        samples = [
            ({"queue_type": f"rabbit_{kind}_queue", "dead_letter_strategy": strategy}, count)
            for (kind, strategy, why), count in counted.items()
            if why == reason
        ]
        name = f"rabbitmq_global_messages_dead_lettered_{reason}_total"
        texts.append(several(name, COUNTER, f"Messages dead-lettered: {reason}", samples))
    return "".join(texts)


async def ours(node: Node, queues: Sequence[Queue]) -> str:
    """Metrics that only FlintMQ has."""
    broker = node.broker
    leased = streams = 0
    vhosts = list(broker.vhosts.values())
    leases = [lease for vhost in vhosts for lease in vhost.leases.all]
    for count in await each(leases, lambda lease: int(lease.count)):
        leased += count
    for keeps_all in await each(queues, lambda queue: queue.keeps_all):
        streams += keeps_all
    pages = broker.tick.pages
    backlog = broker.storage.backlog_bytes
    shown = (
        ("storage_backlog_bytes", "Bytes handed to the disk and not synced yet", backlog),
        ("storage_fenced", "1 once the storage has failed, and takes nothing any more", int(node.failure != "")),
        ("pages_memory_bytes", "Memory that packed messages of deep queues take", pages.held_bytes if pages else 0),
        ("dead_letters_waiting", "Dead letters that wait to be published", broker.dead_letter_count),
        ("streams", "Streams among the queues", streams),
        ("leases", "Names under which messages are leased", len(leases)),
        ("leased_messages", "Messages that are leased", leased),
        ("stages", "Transactional ids under which messages are staged", sum(len(v.stages.by_name) for v in vhosts)),
        ("vhosts_traced", "Virtual hosts of which the firehose copies all messages", sum(v.traced for v in vhosts)),
    )
    return (
        histogram("flintmq_tick_seconds", "How long the broker takes for a tick", node.timings["tick"])
        + histogram("flintmq_loop_stall_seconds", _STALLS, node.timings["stall"])
        + histogram("flintmq_sync_seconds", "How long it takes to write and sync a batch", node.timings["sync"])
        + "".join([single(f"flintmq_{name}", GAUGE, text, value) for name, text, value in shown])
        + single("flintmq_messages_unsendable_total", COUNTER, _UNSENDABLE, int(broker.tick.churn.unsendable))
        + single("flintmq_routes_given_up_total", COUNTER, _COSTLY, int(broker.tick.churn.routes_given_up))
        + single("flintmq_io_workers_ended_total", COUNTER, _ENDED, int(broker.tick.churn.io_workers_ended))
    )
