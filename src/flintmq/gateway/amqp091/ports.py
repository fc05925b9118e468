"""A connection and a channel as consumers, deliveries and transactions see them: these files do not know the rest."""

from abc import abstractmethod

from mypy_extensions import i64

from flintmq.base.errors import AmqpError
from flintmq.broker.counters.traffic import Outflow
from flintmq.broker.message import Message
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.consumer import Consumer
from flintmq.broker.tap import Client
from flintmq.broker.vhost_access import Access
from flintmq.gateway.amqp091.service import Service
from flintmq.gateway.amqp091.window import Window
from flintmq.gateway.publishing import PublishTarget
from flintmq.protocol.amqp091.channel import ChannelOwner
from flintmq.protocol.amqp091.connection import Connection, ConnectionOwner


class ClientConnection(ConnectionOwner):
    """The connection of a client; `peer` names the other side, `number` is its own for the life of the node."""

    # The protocol engine.
    engine: Connection

    def __init__(self, peer: str, number: i64) -> None:
        self.peer = peer
        self.number: i64 = number
        self.user = ""
        # The prefetch window of all channels together.
        self.window = Window()
        # The deliveries of the channel that got something last.
        self.last: Outflow | None = None
        # Whether basic.qos is the channel's with and without `global`.
        self.limits_channel = False

    @abstractmethod
    def fail(self, error: AmqpError) -> None:
        """Close the connection from this side."""

    @abstractmethod
    def measure(self) -> None:
        """A limit of bytes was set or lifted: consumers begin to compare sizes, or need not any more."""

    @abstractmethod
    def resume(self) -> None:
        """There is room again in the socket or in a window: the consumers of all channels may go on."""


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
        """The client, for taps."""

    @abstractmethod
    def put(self, target: PublishTarget, message: Message, queues: list[Queue]) -> None:
        """Put a message on its queues, and answer its publisher."""

    @abstractmethod
    def consumer_cancelled(self, consumer: Consumer) -> None:
        """A consumer of this channel has ended with its queue."""

    @abstractmethod
    def close(self, error: AmqpError) -> None:
        """Close the channel for a reason that came up without a method of the client."""

    @abstractmethod
    def close_later(self, error: AmqpError) -> None:
        """Close the channel at the end of the tick, for a caller that is in the middle of something."""
