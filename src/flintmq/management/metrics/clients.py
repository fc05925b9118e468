"""Metrics of connections and channels. A session of AMQP 1.0 counts as a channel, as in RabbitMQ."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

from flintmq.gateway.amqp091.channel import ServerChannel
from flintmq.gateway.amqp10.session import ServerSession
from flintmq.management.metrics.exposition import COUNTER, GAUGE, Family, several
from flintmq.management.metrics.node import AMQP_10, by_protocol
from flintmq.management.ports import Node, Socket
from flintmq.management.slices import each
from flintmq.management.stats import counts
from flintmq.management.stats.connections import (
    AnyChannel,
    channels_of,
    connection_of,
    name_of,
    number_of,
    sessions_of,
)


@final
class OpenChannel:
    """A channel of an open connection. Its counts are read once, so that they are consistent."""

    def __init__(self, socket: Socket, channel: AnyChannel) -> None:
        self.socket = socket
        self.channel = channel
        if isinstance(channel, ServerChannel):
            self._counts = counts.of_channel(channel)
        else:
            self._counts = counts.of_session(channel)

    def count(self, name: str) -> int:
        return int(self._counts[counts.CHANNEL.index(name)])

    @property
    def consumers(self) -> int:
        channel = self.channel
        if isinstance(channel, ServerChannel):
            return len(channel.deliveries.consumers)
        return sum([link.link.session is channel.engine for link in channel.connection.senders.values()])

    @property
    def unacked(self) -> int:
        channel = self.channel
        if isinstance(channel, ServerChannel):
            return channel.deliveries.unacked_count
        links = channel.connection.senders.values()
        return sum([int(link.link.unsettled) for link in links if link.link.session is channel.engine])

    @property
    def unconfirmed(self) -> int:
        channel = self.channel
        if not isinstance(channel, ServerChannel) or not channel.confirms.is_confirming:
            return 0
        return int(channel.confirms.published - channel.confirms.confirmed)

    @property
    def prefetch(self) -> int:
        channel = self.channel
        return int(channel.deliveries.window.messages_max) if isinstance(channel, ServerChannel) else 0


async def open_channels(sockets: Sequence[Socket]) -> list[OpenChannel]:
    found: list[OpenChannel] = []

    def look(socket: Socket) -> None:
        found.extend([OpenChannel(socket, channel) for channel in channels_of(socket)])
        found.extend([OpenChannel(socket, session) for session in sessions_of(socket)])

    await each(sockets, look)
    return found


def _counted(name: str) -> Callable[[OpenChannel], int]:
    return lambda channel: channel.count(name)


CONNECTIONS: Final[tuple[Family[Socket], ...]] = (
    Family(
        "connection_coarse_metrics",
        "connection_incoming_bytes_total",
        COUNTER,
        "Bytes received on a connection",
        lambda socket: socket.received_bytes,
    ),
    Family(
        "connection_coarse_metrics",
        "connection_outgoing_bytes_total",
        COUNTER,
        "Bytes sent on a connection",
        lambda socket: socket.sent_bytes,
    ),
    Family(
        "connection_metrics",
        "connection_channels",
        GAUGE,
        "Channels on a connection",
        lambda socket: len(channels_of(socket)) + len(sessions_of(socket)),
    ),
)

_PUBLISHED: Final = "channel_exchange_metrics"
_DELIVERED: Final = "channel_queue_metrics"

CHANNELS: Final[tuple[Family[OpenChannel], ...]] = (
    Family("channel_metrics", "channel_consumers", GAUGE, "Consumers on a channel", lambda channel: channel.consumers),
    Family(
        "channel_metrics",
        "channel_messages_unacked",
        GAUGE,
        "Messages delivered but not yet acknowledged",
        lambda channel: channel.unacked,
    ),
    Family(
        "channel_metrics",
        "channel_messages_unconfirmed",
        GAUGE,
        "Messages published but not yet confirmed",
        lambda channel: channel.unconfirmed,
    ),
    Family(
        "channel_metrics",
        "channel_prefetch",
        GAUGE,
        "Messages that all consumers of a channel may have unacknowledged; 0 for any number",
        lambda channel: channel.prefetch,
    ),
    *[
        Family(group, f"channel_{name}_total", COUNTER, text, _counted(counted))
        for group, name, text, counted in (
            (_PUBLISHED, "messages_published", "Messages published on a channel", "publish"),
            (_PUBLISHED, "messages_confirmed", "Messages confirmed to their publisher", "confirm"),
            (
                _PUBLISHED,
                "messages_unroutable_returned",
                "Unroutable messages that were returned to their publisher",
                "return_unroutable",
            ),
            (
                _PUBLISHED,
                "messages_unroutable_dropped",
                "Unroutable messages that were dropped",
                "drop_unroutable",
            ),
            (_DELIVERED, "get_ack", "Messages fetched with basic.get, to acknowledge", "get"),
            (_DELIVERED, "get", "Messages fetched with basic.get, for good", "get_no_ack"),
            (_DELIVERED, "get_empty", "How often basic.get found no message", "get_empty"),
            (_DELIVERED, "messages_delivered_ack", "Messages delivered, to acknowledge", "deliver"),
            (_DELIVERED, "messages_delivered", "Messages delivered, for good", "deliver_no_ack"),
            (_DELIVERED, "messages_redelivered", "Messages delivered that somebody may have had before", "redeliver"),
            (_DELIVERED, "messages_acked", "Messages acknowledged", "ack"),
        )
    ],
)


def connection_labels(socket: Socket) -> Mapping[str, str]:
    connection = connection_of(socket)
    access = connection.access
    vhost = "" if access is None else access.vhost.name
    return {"connection": name_of(socket), "vhost": vhost, "user": connection.user}


def channel_labels(channel: OpenChannel) -> Mapping[str, str]:
    return {**connection_labels(channel.socket), "channel": str(number_of(channel.channel))}


def _publishing(channel: OpenChannel) -> tuple[bool, int, bool]:
    return isinstance(channel.channel, ServerSession), channel.unconfirmed, channel.count("publish") > 0


async def publishers(node: Node, channels: Sequence[OpenChannel]) -> str:
    """Metrics of publishers: channels that have published, and messages received for confirmation."""
    churn = node.broker.tick.churn
    confirmed = confirmed_10 = 0
    for traffic in (churn.gone, *[vhost.traffic for vhost in node.broker.vhosts.values()]):
        confirmed += int(traffic.confirmed)
        if AMQP_10 in traffic.inflows:
            confirmed_10 += int(traffic.inflows[AMQP_10].confirmed)
    waiting = {True: 0, False: 0}
    publishing = {True: 0, False: 0}
    for is_session, unconfirmed, has_published in await each(channels, _publishing):
        waiting[is_session] += unconfirmed
        publishing[is_session] += has_published
    wanted = confirmed + sum(waiting.values()) + int(churn.unconfirmed)
    return several(
        "rabbitmq_global_messages_received_confirm_total",
        COUNTER,
        "Messages received from publishers that want them confirmed",
        by_protocol(wanted, confirmed_10 + waiting[True]),
    ) + several(
        "rabbitmq_global_publishers",
        GAUGE,
        "Channels on which something was published",
        by_protocol(sum(publishing.values()), publishing[True]),
    )
