"""The interfaces of connections and channels that consumers, deliveries and transactions depend on."""

from abc import abstractmethod
from collections.abc import Callable

from mypy_extensions import i64

from flintmq.base.errors import AmqpError
from flintmq.broker.counters.traffic import Outflow
from flintmq.broker.message import Message
from flintmq.broker.queue.base import Consumer, Queue
from flintmq.broker.tap import Client
from flintmq.broker.vhost_access import Access
from flintmq.gateway.amqp091.service import Service
from flintmq.gateway.amqp091.window import Window
from flintmq.gateway.publishing import PublishTarget
from flintmq.protocol.amqp091.channel import ChannelOwner
from flintmq.protocol.amqp091.connection import Connection, ConnectionOwner


class ClientConnection(ConnectionOwner):
    """The connection of a client. `peer` names the other side; `number` is unique for the life of the node."""

    # The protocol engine.
    engine: Connection

    def __init__(self, peer: str, number: i64) -> None:
        self.peer = peer
        self.number: i64 = number
        self.user = ""
        # The prefetch window of all channels together.
        self.window = Window()
        # The deliveries of the channel that got the last message.
        self.last: Outflow | None = None
        # Has the node to which the client is connected answer a fetch, if that is another one. Its arguments are the
        # encoded DelegatedFetch, the size of an answer, and what is to be called with the offset behind the last
        # message and the number of messages: 0 if the node had no answer. Returns whether the node was asked.
        self.delegate: Callable[[bytes, int, Callable[[int, int], None]], bool] | None = None
        # Whether basic.qos limits the whole channel even without `global`.
        self.limits_channel = False

    @abstractmethod
    def fail(self, error: AmqpError) -> None:
        """Close the connection with this error."""

    @abstractmethod
    def measure(self) -> None:
        """Have consumers check whether a limit of bytes applies to them, because one was set or lifted."""

    @abstractmethod
    def resume(self) -> None:
        """Let the consumers of all channels go on: the socket, or a window, has room again."""


class ClientChannel(ChannelOwner):
    """A channel of a client. `connection` is also the owner of exclusive queues."""

    def __init__(self, service: Service, access: Access, connection: ClientConnection) -> None:
        self.vhost = access.vhost
        self.user = access.user
        self.rights = access.rights
        self.connection = connection
        self.service = service
        self.gateway = service.gateway
        # The name of the queue behind amq.rabbitmq.reply-to on this channel, once it consumes from that.
        self.reply_queue = ""

    @abstractmethod
    def client(self) -> Client:
        """Describe the client for taps."""

    @abstractmethod
    def put(self, target: PublishTarget, message: Message, queues: list[Queue]) -> None:
        """Put a message on its queues, and answer its publisher."""

    @abstractmethod
    def consumer_cancelled(self, consumer: Consumer) -> None:
        """Forget a consumer of this channel that has ended with its queue, and tell the client."""

    @abstractmethod
    def close(self, error: AmqpError) -> None:
        """Close the channel with an error that no method of the client caused."""

    @abstractmethod
    def close_later(self, error: AmqpError) -> None:
        """Close the channel at the end of the tick, because the caller is in the middle of a dispatch."""
