"""The broker's counters under the names of RabbitMQ's statistics."""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Final

from flintmq.broker.counters.traffic import Outflow
from flintmq.broker.exchange.base import Exchange
from flintmq.broker.queue.base import Queue
from flintmq.broker.vhost import VHost
from flintmq.gateway.amqp091.channel import ServerChannel
from flintmq.gateway.amqp10.session import ServerSession

# `Counts` are values by index; `Names` has the name of each index.
Counts = tuple[int, ...]
Names = tuple[str, ...]
# Counts at a time (Unix time in ms).
Point = tuple[int, Counts]

_OUT: Final[Names] = ("deliver", "deliver_no_ack", "get", "get_no_ack", "get_empty", "ack", "redeliver")
QUEUE: Final[Names] = ("publish", *_OUT)
CHANNEL: Final[Names] = ("publish", "confirm", "return_unroutable", "drop_unroutable", *_OUT)
EXCHANGE: Final[Names] = ("publish_in", "publish_out")
VHOST: Final[Names] = CHANNEL
# These are present numbers of messages; the others count messages that have passed.
HELD: Final[Names] = ("messages", "messages_ready", "messages_unacknowledged")
# The counts of messages that passed a queue, then the numbers of messages on it.
QUEUE_HISTORY: Final[Names] = (*QUEUE, *HELD)
SOCKET: Final[Names] = ("recv_oct", "send_oct")
# RabbitMQ's sum of all deliveries.
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
    # Messages that readers of a stream have are still in the stream.
    return ready if queue.keeps_all else ready + unacked, ready, unacked


def of_channel(channel: ServerChannel) -> Counts:
    publisher = channel.publisher
    published = (publisher.published, channel.confirms.confirmed, publisher.returned, publisher.dropped)
    return *published, *_out(channel.deliveries)


def of_session(session: ServerSession) -> Counts:
    """The counts of an AMQP 1.0 session. Confirms are 0, because a connection counts them only for its virtual host."""
    publisher = session.publisher
    return publisher.published, 0, publisher.returned, publisher.dropped, *_out(session.outflow)


def of_exchange(exchange: Exchange) -> Counts:
    return exchange.traffic.published_in, exchange.traffic.published_out


def published_in(vhost: VHost) -> Counts:
    """The counts of a virtual host, without the deliveries of its existing queues."""
    traffic = vhost.traffic
    return vhost.router.published, traffic.confirmed, traffic.returned, traffic.dropped, *_out(traffic.gone)


def plus(one: Sequence[int], other: Sequence[int]) -> Counts:
    return tuple([a + b for a, b in zip(one, other, strict=True)])


def read(names: Names, name: str) -> Callable[[Sequence[float]], float]:
    """A function that returns the value of one of `names`, or of DELIVER_GET, from a sequence of values."""
    if name != DELIVER_GET:
        return itemgetter(names.index(name))
    places = itemgetter(*[names.index(part) for part in _PARTS_OF_DELIVER_GET])
    return lambda values: sum(places(values))


def message_stats(names: Names, counts: Sequence[int], rates: Sequence[float]) -> dict[str, object]:
    """Counts and rates as RabbitMQ's message_stats object."""
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
