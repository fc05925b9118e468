"""Details of channels, connections and consumers, which several resources include."""

from typing import final

from flintmq.broker.access.user import User
from flintmq.broker.queue.base import Consumer, Queue
from flintmq.gateway.amqp091.channel import ServerChannel
from flintmq.gateway.amqp091.consumer import ChannelConsumer
from flintmq.gateway.amqp10.outgoing_link import LinkConsumer
from flintmq.gateway.amqp10.session import ServerSession
from flintmq.management.http.call import Call
from flintmq.management.stats.connections import AnyChannel, ends_of, name_of, number_of

# The fields of a JSON object.
_Facts = dict[str, object]


@final
class Details:
    """Builds the details for one request."""

    def __init__(self, call: Call) -> None:
        self.node = call.node.name
        self.socket = call.node.socket_of
        cluster = call.node.cluster
        # The nodes that have the durable queues, and those of them that have everything that is confirmed.
        self.members = self.in_sync = [self.node]
        if cluster is not None:
            self.members = [each.name for each in cluster.nodes]
            self.in_sync = [each.name for each in cluster.nodes if each.is_in_sync]

    def connection_name(self, connection: object) -> str:
        socket = self.socket(connection)
        return "" if socket is None else name_of(socket)

    def channel_details(self, channel: AnyChannel) -> _Facts:
        connection = channel.connection
        socket = self.socket(connection)
        name = self.connection_name(connection)
        number = number_of(channel)
        ends = {} if socket is None else ends_of(socket)
        return {
            "connection_name": name,
            "name": f"{name} ({number})",
            "node": self.node,
            "number": number,
            "peer_host": ends.get("peer_host", ""),
            "peer_port": ends.get("peer_port", 0),
            "user": connection.user,
        }

    def connection_details(self, connection: object) -> _Facts:
        socket = self.socket(connection)
        if socket is None:
            return {}
        ends = ends_of(socket)
        return {"name": name_of(socket), "peer_host": ends["peer_host"], "peer_port": ends["peer_port"]}

    def user(self, consumer: Consumer) -> User | None:
        """The user of a consumer's connection; None if the consumer has no channel."""
        channel = _channel_of(consumer)
        if isinstance(channel, ServerChannel):
            return channel.user
        return None if channel is None else channel.access.user

    def consumer(self, queue: Queue, consumer: Consumer) -> _Facts:
        prefetch = timeout_ms = 0
        if isinstance(consumer, ChannelConsumer):
            prefetch = int(consumer.window.messages_max)
            timeout_ms = int(consumer.timeout_ms)
        elif isinstance(consumer, LinkConsumer):
            prefetch = int(consumer.owner.link.credit)
        channel = _channel_of(consumer)
        details = {} if channel is None else self.channel_details(channel)
        is_first = bool(queue.consumers) and queue.consumers[0] is consumer
        status = "up"
        if queue.settings.single_active:
            status = "single_active" if is_first else "waiting"
        return {
            "ack_required": not consumer.no_ack,
            "active": consumer.is_active() and status != "waiting",
            "activity_status": status,
            "arguments": {"x-priority": int(consumer.priority)} if consumer.priority else {},
            "channel_details": details,
            "consumer_tag": consumer.tag,
            # In milliseconds; 0 stands for no timeout, because rabbitmqadmin expects a number.
            "consumer_timeout": timeout_ms,
            "exclusive": consumer.exclusive,
            "prefetch_count": prefetch,
            "queue": {"name": queue.name, "vhost": queue.vhost},
        }


def _channel_of(consumer: Consumer) -> AnyChannel | None:
    if isinstance(consumer, ChannelConsumer):
        channel = consumer.channel
        return channel if isinstance(channel, ServerChannel) else None
    if isinstance(consumer, LinkConsumer):
        session = consumer.owner.session
        return session if isinstance(session, ServerSession) else None
    return None
