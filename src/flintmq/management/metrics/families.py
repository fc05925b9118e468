"""Metrics of queues and exchanges, under the names of RabbitMQ's Prometheus plugin.

Queues here are not processes, so RabbitMQ's metrics of queue processes are missing.
"""

from collections.abc import Mapping
from typing import Final

from flintmq.broker.exchange.base import Exchange
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.stream import StreamQueue
from flintmq.management.metrics.exposition import COUNTER, GAUGE, Family


def _messages(queue: Queue) -> int:
    # Messages that readers of a stream have are still in the stream.
    return queue.message_count if queue.keeps_all else queue.message_count + queue.unacked


def _lag(queue: Queue) -> int:
    return queue.lag if isinstance(queue, StreamQueue) else 0


def _is_stream(queue: Queue) -> bool:
    return queue.keeps_all


_COARSE: Final = "queue_coarse_metrics"
_DELIVERY: Final = "queue_delivery_metrics"

QUEUES: Final[tuple[Family[Queue], ...]] = (
    Family(
        _COARSE,
        "queue_messages_ready",
        GAUGE,
        "Messages ready to be delivered to consumers",
        lambda queue: queue.message_count,
    ),
    Family(
        _COARSE,
        "queue_messages_unacked",
        GAUGE,
        "Messages delivered to consumers but not yet acknowledged",
        lambda queue: queue.unacked,
    ),
    Family(_COARSE, "queue_messages", GAUGE, "Messages ready and unacknowledged: the depth of the queue", _messages),
    Family(
        "queue_consumer_count",
        "queue_consumers",
        GAUGE,
        "Consumers on a queue",
        lambda queue: len(queue.consumers),
    ),
    Family(
        "queue_metrics",
        "queue_messages_published_total",
        COUNTER,
        "Messages that came to the queue",
        lambda queue: queue.published,
    ),
    Family(
        "queue_metrics",
        "queue_messages_ready_bytes",
        GAUGE,
        "Size in bytes of the bodies of ready messages, or of a stream's files",
        lambda queue: queue.ready_bytes,
    ),
    Family(
        "queue_metrics",
        "queue_messages_unacked_bytes",
        GAUGE,
        "Size in bytes of the bodies of unacknowledged messages",
        lambda queue: queue.unacked_bytes,
    ),
    Family(
        "queue_metrics",
        "queue_messages_bytes",
        GAUGE,
        "Size in bytes of the bodies of ready and unacknowledged messages, or of a stream's files",
        lambda queue: queue.ready_bytes + queue.unacked_bytes,
    ),
    Family(
        _DELIVERY,
        "queue_get_ack_total",
        COUNTER,
        "Messages fetched with basic.get that have to be acknowledged",
        lambda queue: queue.got,
    ),
    Family(
        _DELIVERY,
        "queue_get_total",
        COUNTER,
        "Messages fetched with basic.get that need no acknowledgement",
        lambda queue: queue.got_no_ack,
    ),
    Family(
        _DELIVERY,
        "queue_messages_delivered_ack_total",
        COUNTER,
        "Messages delivered to consumers that have to acknowledge them",
        lambda queue: queue.delivered,
    ),
    Family(
        _DELIVERY,
        "queue_messages_delivered_total",
        COUNTER,
        "Messages delivered to consumers that need not acknowledge them",
        lambda queue: queue.delivered_no_ack,
    ),
    Family(
        _DELIVERY,
        "queue_messages_redelivered_total",
        COUNTER,
        "Messages delivered that somebody may have had before",
        lambda queue: queue.redelivered,
    ),
    Family(
        _DELIVERY,
        "queue_messages_acked_total",
        COUNTER,
        "Messages acknowledged by consumers",
        lambda queue: queue.acked,
    ),
    Family(
        "stream_consumer_metrics",
        "stream_consumer_max_offset_lag",
        GAUGE,
        "How many messages the last reader of a stream is behind its end",
        _lag,
        _is_stream,
    ),
)

EXCHANGES: Final[tuple[Family[Exchange], ...]] = (
    Family(
        "exchange_metrics",
        "exchange_messages_published_total",
        COUNTER,
        "Messages published to an exchange",
        lambda exchange: exchange.traffic.published_in,
    ),
)


# Metrics that only FlintMQ has.
OUR_QUEUES: Final[tuple[Family[Queue], ...]] = (
    Family(
        "queue_metrics",
        "queue_messages_held",
        GAUGE,
        "Messages held back until a time",
        lambda queue: queue.held_count,
    ),
)
OUR_EXCHANGES: Final[tuple[Family[Exchange], ...]] = (
    Family(
        "exchange_metrics",
        "exchange_messages_routed_total",
        COUNTER,
        "Queues that messages published to an exchange went to",
        lambda exchange: exchange.traffic.published_out,
    ),
)


# Metrics that RabbitMQ reports for the whole cluster.
CLUSTER_EXCHANGES: Final[tuple[Family[Exchange], ...]] = (
    Family("exchange_names", "exchange_name", GAUGE, "Whether an exchange is there: 1", lambda _exchange: 1),
    Family(
        "exchange_bindings",
        "exchange_bindings",
        GAUGE,
        "Bindings that begin at an exchange",
        lambda exchange: exchange.binding_count,
    ),
)


def queue_labels(queue: Queue) -> Mapping[str, str]:
    return {"vhost": queue.vhost, "queue": queue.name}


def exchange_labels(exchange: Exchange) -> Mapping[str, str]:
    return {"vhost": exchange.vhost, "exchange": exchange.name}


def typed_labels(exchange: Exchange) -> Mapping[str, str]:
    return {"vhost": exchange.vhost, "exchange": exchange.name, "type": exchange.type}
