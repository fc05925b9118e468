"""What the broker counts, under the names that RabbitMQ's statistics have for it."""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Final

from flintmq.broker.counters.traffic import Outflow
from flintmq.broker.exchange.base import Exchange
from flintmq.broker.queue.base import Queue
from flintmq.broker.vhost import VHost
from flintmq.gateway.amqp091.channel import ServerChannel
from flintmq.gateway.amqp10.session import ServerSession

# Counts by place; `Names` say what is where.
Counts = tuple[int, ...]
Names = tuple[str, ...]
# What they were at a time (Unix time in ms).
Point = tuple[int, Counts]

_OUT: Final[Names] = ("deliver", "deliver_no_ack", "get", "get_no_ack", "get_empty", "ack", "redeliver")
QUEUE: Final[Names] = ("publish", *_OUT)
CHANNEL: Final[Names] = ("publish", "confirm", "return_unroutable", "drop_unroutable", *_OUT)
EXCHANGE: Final[Names] = ("publish_in", "publish_out")
VHOST: Final[Names] = CHANNEL
# How much there is, beside how much has passed.
HELD: Final[Names] = ("messages", "messages_ready", "messages_unacknowledged")
# What passed a queue, then what is on it.
QUEUE_HISTORY: Final[Names] = (*QUEUE, *HELD)
SOCKET: Final[Names] = ("recv_oct", "send_oct")
# What RabbitMQ sums up as one.
DELIVER_GET: Final = "deliver_get"
_PARTS_OF_DELIVER_GET: Final = ("deliver", "deliver_no_ack", "get", "get_no_ack")


def _out(outflow: Outflow) -> Counts:
    return (
        outflow.delivered,
        outflow.delivered_no_ack,
        outflow.got,
        outflow.got_no_ack,
        outflow.got_empty,
        outflow.acked,
        outflow.redelivered,
    )


def of_queue(queue: Queue) -> Counts:
    return queue.published, *_out(queue)


def held_by(queue: Queue) -> Counts:
    ready, unacked = queue.message_count, queue.unacked
    # What readers have of a stream is on it still.
    return ready if queue.keeps_all else ready + unacked, ready, unacked


def of_channel(channel: ServerChannel) -> Counts:
    published = (channel.published, channel.answers.confirmed, channel.returned, channel.dropped)
    return *published, *_out(channel.deliveries)


def of_session(session: ServerSession) -> Counts:
    """What is accepted of it, a connection of AMQP 1.0 counts for all of its virtual host only."""
    return session.published, 0, session.returned, session.dropped, *_out(session.outflow)


def of_exchange(exchange: Exchange) -> Counts:
    return exchange.passing.came, exchange.passing.went


def published_in(vhost: VHost) -> Counts:
    """All of a virtual host but what went out of the queues there are."""
    traffic = vhost.traffic
    return vhost.router.published, traffic.confirmed, traffic.returned, traffic.dropped, *_out(traffic.gone)


def plus(one: Sequence[int], other: Sequence[int]) -> Counts:
    return tuple([a + b for a, b in zip(one, other, strict=True)])


def read(names: Names, name: str) -> Callable[[Sequence[float]], float]:
    """Takes one of the names, or DELIVER_GET, out of what is at the places of `names`."""
    if name != DELIVER_GET:
        return itemgetter(names.index(name))
    places = itemgetter(*[names.index(part) for part in _PARTS_OF_DELIVER_GET])
    return lambda values: sum(places(values))


def message_stats(names: Names, counts: Sequence[int], rates: Sequence[float]) -> dict[str, object]:
    """Counts and rates in the shape of RabbitMQ's message_stats."""
    shown: dict[str, object] = {}
    given, given_rate = 0, 0.0
    for name, count, rate in zip(names, counts, rates, strict=True):
        shown[name] = count
        shown[f"{name}_details"] = {"rate": rate}
        if name in _PARTS_OF_DELIVER_GET:
            given += count
            given_rate += rate
    if _PARTS_OF_DELIVER_GET[0] in names:
        shown[DELIVER_GET] = given
        shown[f"{DELIVER_GET}_details"] = {"rate": round(given_rate, 3)}
    return shown
