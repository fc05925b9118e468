"""A channel as the server sees it: messages in from a publisher, messages out to consumers, and their settlement.

The methods that are answered one by one (declare, consume, qos...) are functions beside this file; here is what every
message passes through.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from flintmq.base.errors import (
    AmqpError,
    ContentTooLarge,
    FlintError,
    NoRoute,
    NotAllowed,
    NotFound,
    NotImplementedHere,
    ResourceError,
)
from flintmq.base.limits import FRAME_OVERHEAD_BYTES
from flintmq.broker.access import Access
from flintmq.broker.message import Entry, Message
from flintmq.broker.permission import WRITE
from flintmq.broker.queue.base import Queue
from flintmq.broker.vhost import STORED, UNROUTED
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.gateway.amqp091.consumer import ChannelConsumer
from flintmq.gateway.amqp091.gateway import Gateway
from flintmq.gateway.amqp091.publication import Publication, Publications
from flintmq.gateway.amqp091.unacked import Delivery, Unacked
from flintmq.protocol.amqp091.channel import Channel, ChannelOwner
from flintmq.protocol.amqp091.output import Output
from flintmq.wire.amqp091.frames import CONTENT_HEADER_BYTES
from flintmq.wire.amqp091.methods import BasicCancel, BasicNack, BasicReturn, ChannelFlow, Method, encode_method
from flintmq.wire.amqp091.properties import add_header, check_properties, delivery_mode, headers
from flintmq.wire.amqp091.tables import encode_address

if TYPE_CHECKING:
    from flintmq.gateway.amqp091.connection import ServerConnection

_PERSISTENT: Final = 2

# A method's function: told the channel and the method, answers through the channel or raises an AmqpError.
Handler = Callable[["ServerChannel", Method], None]


@final
class _Promise:
    """What a channel may say once a batch is durable: answers in order, and confirms up to a publish."""

    def __init__(self, batch: int, confirm: i64, replies: list["_Reply"]) -> None:
        self.batch = batch
        self.confirm: i64 = confirm
        self.replies = replies


@final
class _Reply:
    """An encoded answer, the consumer that may start once it is out, and the content that goes with it."""

    def __init__(
        self,
        payload: bytes,
        consumer: ChannelConsumer | None,
        properties: bytes | None = None,
        body: bytes = b"",
    ) -> None:
        self.payload = payload
        self.consumer = consumer
        self.properties = properties
        self.body = body


@final
class ServerChannel(ChannelOwner):
    def __init__(
        self,
        channel: Channel,
        output: Output,
        gateway: Gateway,
        access: Access,
        connection: "ServerConnection",
        notify_cancel: bool,
        handlers: dict[int, Handler],
        checks: dict[int, Handler],
    ) -> None:
        self.vhost = access.vhost
        self.rights = access.rights
        # Also the owner of exclusive queues.
        self.connection = connection
        self.gateway = gateway
        self.consumers: dict[str, ChannelConsumer] = {}
        self.unacked = Unacked()
        # Of consumers that ended with their queues: who has not heard of that yet may cancel them once more.
        self._ended_tags: set[str] = set()
        # Prefetch of consumers yet to come (RabbitMQ's global=false).
        self.prefetch: i64 = 0
        # Messages that all consumers together may hold unacknowledged (global=true), 0 for any; and how many they do.
        self.limit: i64 = 0
        self.held: i64 = 0
        # The queue that an empty name means (amqp-0-9-1 queue.bind.queue).
        self.last_queue = ""
        self._channel = channel
        self._output = output
        # Whatever is sent has its properties in one frame (amqp-0-9-1 §4.2.6.1).
        self._properties_max: i64 = output.frame_max - FRAME_OVERHEAD_BYTES - CONTENT_HEADER_BYTES
        # Whether the client was asked to stop publishing (channel.flow).
        self._is_stopped = False
        # Why this channel has to be closed when the tick ends, where that could not be done at once.
        self._fault: AmqpError | None = None
        self._access = access
        self._handlers = handlers
        # What each method has to be allowed by.
        self._checks = checks
        self._notify_cancel = notify_cancel
        self._publications: Publications = gateway.publications(access.rights)
        self._publication: Publication | None = None
        self._method = b""
        self._properties = b""
        self._persistent = False
        self._confirming = False
        self._published: i64 = 0
        self._confirmed: i64 = 0
        self._is_active = False
        self._stored = False
        self._replies: list[_Reply] = []
        self._promises: deque[_Promise] = deque()
        # The engine's channel may have a new life under the same number by the time the disk answers for this one.
        self._is_closed = False

    @property
    def is_open(self) -> bool:
        return not self._is_closed

    # -- publishing ---------------------------------------------------------------------------------------------

    def on_content(self, method: bytes, properties: bytes, body: bytes) -> None:
        publication = self._publication
        if publication is None or method != self._method:
            publication = self._publications.get(method)
            self._publication = publication
            self._method = method
        if publication.permitted != self.rights.version + self.vhost.router.version:
            self._permit(publication)
        if properties != self._properties:
            # Whoever reads this message later, be it a client or a stream's reader, must be able to.
            check_properties(properties)
            dialect = self.vhost.dialect
            if dialect.checks_field_names:
                dialect.check_field_names(headers(properties))
            self._properties = properties
            self._persistent = delivery_mode(properties) == _PERSISTENT
        if publication.immediate:
            raise NotImplementedHere("immediate=true is not implemented yet")
        gateway = self.gateway
        if self._persistent and gateway.failure:
            self._refuse_publish()
            return
        # The same bytes again and again are kept once.
        message = Message(
            publication.address, CODEC_091, self._properties, body, self._persistent, gateway.broker.now_ms
        )
        outcome = self.vhost.publish(publication.route, message)
        if outcome == UNROUTED:
            if publication.mandatory:
                self._return(message)
        elif outcome == STORED and not self._stored:
            self._stored = True
            self._activate()
        if self._confirming:
            self._published += 1
            if not self._is_active:
                self._activate()

    def _permit(self, publication: Publication) -> None:
        """Find out whether the user may publish like this; it holds until permissions or exchanges change.

        Raises AccessRefused.
        """
        address = publication.address
        self.rights.check(WRITE, "exchange", address.exchange)
        exchange = self.vhost.exchanges.by_name.get(address.exchange)
        if exchange is not None and exchange.type == "topic":
            self.rights.check_topic(WRITE, address.exchange, address.routing_key)
        publication.permitted = self.rights.version + self.vhost.router.version

    def _refuse_publish(self) -> None:
        """The storage has failed for good: nothing persistent is taken, and the publisher hears of it."""
        if not self._confirming:
            raise ResourceError(f"nothing durable can be stored: {self.gateway.failure}")
        self._published += 1
        self._stored = True
        self._activate()

    def _return(self, message: Message) -> None:
        address = message.address
        method = BasicReturn(
            reply_code=NoRoute.code,
            reply_text=NoRoute.name,
            exchange=address.exchange,
            routing_key=address.routing_key,
        )
        self._channel.send_content(encode_method(method), message.properties, message.body)

    def select_confirms(self) -> None:
        self._confirming = True

    @property
    def has_published(self) -> bool:
        return self._publication is not None

    def stop_flow(self) -> None:
        """Ask the client to stop publishing, where connection.blocked would say nothing to it."""
        if not self._is_stopped and not self._is_closed:
            self._is_stopped = True
            self._channel.send(ChannelFlow(active=False))

    def resume_flow(self) -> None:
        if self._is_stopped and not self._is_closed:
            self._is_stopped = False
            self._channel.send(ChannelFlow(active=True))

    # -- the tick -----------------------------------------------------------------------------------------------

    def _activate(self) -> None:
        if not self._is_active:
            self._is_active = True
            self.gateway.activate(self)

    def end_tick(self, batch: int, durable: int) -> bool:
        """What came in this tick is safe with `batch`; True when this channel has to wait for that."""
        self._is_active = False
        if self._fault is not None:
            self._close(self._fault)
        if self._is_closed:
            return False
        must_wait = (self._stored or bool(self._replies)) and batch > durable
        self._stored = False
        if must_wait or self._promises:
            self._promises.append(
                _Promise(batch if must_wait else self._promises[-1].batch, self._published, self._replies)
            )
            self._replies = []
            return True
        self._keep(_Promise(batch, self._published, self._replies))
        self._replies = []
        return False

    def on_durable(self, durable: int) -> bool:
        """Keep the promises of batches up to this one; True while there are more to wait for."""
        promises = self._promises
        confirm = self._confirmed
        while promises and promises[0].batch <= durable:
            promise = promises.popleft()
            confirm = promise.confirm
            for reply in promise.replies:
                self._say(reply)
        self._confirm(confirm)
        return bool(promises)

    def _keep(self, promise: _Promise) -> None:
        for reply in promise.replies:
            self._say(reply)
        self._confirm(promise.confirm)

    def _confirm(self, upto: i64) -> None:
        if self._confirming and upto > self._confirmed:
            self._channel.send_ack(upto, upto - self._confirmed > 1)
            self._confirmed = upto

    def on_failure(self, reason: str) -> None:
        """The storage failed: nothing that waited for it will become safe."""
        self._is_active = False
        stored = self._stored or bool(self._promises)
        waited_for_reply = bool(self._replies) or any(promise.replies for promise in self._promises)
        self._stored = False
        self._promises.clear()
        self._replies = []
        if self._fault is not None:
            self._close(self._fault)
        if self._is_closed:
            return
        if not stored and not waited_for_reply:
            self._confirm(self._published)
        elif self._confirming and not waited_for_reply:
            self._channel.send(BasicNack(delivery_tag=self._published, multiple=True, requeue=False))
            self._confirmed = self._published
        else:
            self.connection.fail(ResourceError(f"nothing durable can be stored: {reason}"))

    # -- answers ------------------------------------------------------------------------------------------------

    def on_method(self, method: Method) -> None:
        handler = self._handlers.get(method.id)
        if handler is None:
            raise NotImplementedHere(f"{method.name} is not implemented yet")
        check = self._checks.get(method.id)
        if check is not None:
            check(self, method)
        handler(self, method)

    def reply(self, method: Method, starts: ChannelConsumer | None = None) -> None:
        """Answer, behind any answer that still waits; `starts` is a consumer that may deliver from then on."""
        self._reply(_Reply(encode_method(method), starts))

    def reply_with(self, method: Method, properties: bytes, body: bytes) -> None:
        """Answer with content, in its turn as `reply` does."""
        self._reply(_Reply(encode_method(method), None, properties, body))

    def _reply(self, reply: _Reply) -> None:
        if self._replies or self._promises:
            self._replies.append(reply)
            self._activate()
        else:
            self._say(reply)

    def reply_when_durable(self, method: Method) -> None:
        """Answer a change of definitions once it is on the disk."""
        if not self.gateway.broker.storage.definitions_durable:
            self._replies.append(_Reply(encode_method(method), None))
            self._activate()
        else:
            self.reply(method)

    def _say(self, reply: _Reply) -> None:
        properties = reply.properties
        if properties is not None:
            self._channel.send_content(reply.payload, properties, reply.body)
            return
        self._channel.send_payload(reply.payload)
        consumer = reply.consumer
        if consumer is not None:
            self.start(consumer)

    # -- delivering ---------------------------------------------------------------------------------------------

    def start(self, consumer: ChannelConsumer) -> None:
        consumer.started = True
        consumer.queue.touch()

    def has_room(self) -> bool:
        return self._output.has_room()

    def deliver(self, consumer: ChannelConsumer, queue: Queue, entry: Entry) -> None:
        if consumer.no_ack:
            tag = self.unacked.add(None)
        else:
            tag = self.unacked.add(Delivery(entry, queue, consumer))
            consumer.held += 1
            self.held += 1
        message = entry.message
        properties = message.properties
        if queue.keeps_all:
            properties = add_header(properties, "x-stream-offset", entry.seq)
        if len(properties) > self._properties_max:
            self._cannot_deliver(consumer, queue, properties)
            return
        address = message.address
        if not address.encoded:
            address.encoded = encode_address(address.exchange, address.routing_key)
        self._channel.send_delivery(consumer.prefix, tag, entry.redelivered, address.encoded, properties, message.body)

    def _cannot_deliver(self, consumer: ChannelConsumer, queue: Queue, properties: bytes) -> None:
        """The channel is closed, and the message goes back: another consumer may be able to take it.

        Not at once, since this is said in the middle of the queue's dispatch.
        """
        consumer.started = False
        if self._fault is None:
            self._fault = self.refusal(queue, properties)
            self._activate()

    def refusal(self, queue: Queue, properties: bytes) -> AmqpError | None:
        """Why a message with these properties cannot be sent to this client, if it cannot."""
        if len(properties) <= self._properties_max:
            return None
        return ContentTooLarge(
            f"a message of queue '{queue.name}' has {len(properties)} bytes of properties, and this connection takes "
            f"{self._properties_max} in a frame: connect with a larger frame_max"
        )

    def _close(self, error: AmqpError) -> None:
        """Close the channel for a reason that came up without a method of the client."""
        if not self._is_closed:
            self._channel.close(error.code, error.reply_text, 0, error)

    def consumer_cancelled(self, consumer: ChannelConsumer) -> None:
        self.consumers.pop(consumer.tag, None)
        if self.vhost.dialect.foreign_tag_is_fault:
            self._ended_tags.add(consumer.tag)
        if self._notify_cancel:
            # Behind a consume-ok that still waits for the disk: the client has to know whom this is about.
            self.reply(BasicCancel(consumer_tag=consumer.tag, no_wait=True))

    def forget_tag(self, tag: str) -> None:
        """A tag that no consumer has is cancelled: fine where its queue has gone, or where the dialect says so.

        Raises NotAllowed.
        """
        if tag in self._ended_tags:
            self._ended_tags.remove(tag)
        elif self.vhost.dialect.foreign_tag_is_fault:
            raise NotAllowed(f"consumer tag '{tag}' is none of this channel's")

    def resume(self) -> None:
        """The socket has room again: the queues of this channel's consumers may go on."""
        for consumer in self.consumers.values():
            consumer.queue.touch()

    # -- settling -----------------------------------------------------------------------------------------------

    def on_ack(self, delivery_tag: i64, multiple: bool) -> None:
        for delivery in self.unacked.take(delivery_tag, multiple):
            delivery.queue.settle(delivery.entry)
            self._release(delivery)
        self._reopen_window()

    def settle(self, delivery_tag: i64, multiple: bool, requeue: bool) -> None:
        """basic.nack and basic.reject."""
        taken = self.unacked.take(delivery_tag, multiple)
        if requeue:
            self.requeue(taken)
            return
        for delivery in taken:
            delivery.queue.settle(delivery.entry)
            self._release(delivery)
        self._reopen_window()

    def requeue(self, deliveries: list[Delivery]) -> None:
        entries: dict[Queue, list[Entry]] = {}
        for delivery in deliveries:
            self._release(delivery)
            entries.setdefault(delivery.queue, []).append(delivery.entry)
        for queue, returned in entries.items():
            queue.requeue(returned)
        self._reopen_window()

    def _release(self, delivery: Delivery) -> None:
        consumer = delivery.consumer
        if consumer is None:
            return
        consumer.held -= 1
        self.held -= 1
        delivery.queue.touch()

    def _reopen_window(self) -> None:
        """Where consumers share a limit, a settlement may let any of them go on."""
        if self.limit != 0:
            self.resume()

    # -- names --------------------------------------------------------------------------------------------------

    def queue(self, name: str) -> Queue:
        """The queue a method names."""
        return self.vhost.queue(self.queue_name(name), self.connection)

    def queue_name(self, name: str) -> str:
        """An empty name means the queue that this channel declared last. Raises NotFound when there is none."""
        if name == "":
            if self.last_queue == "":
                raise NotFound("no previously declared queue")
            return self.last_queue
        return name

    # -- the end ------------------------------------------------------------------------------------------------

    def on_closed(self, error: FlintError | None) -> None:
        self._is_closed = True
        self._access.close_channel()
        if isinstance(error, AmqpError) and not error.closes_connection:
            self.gateway.host.channel_failed(self.connection, int(self._channel.number), error)
        consumers = self.consumers
        self.consumers = {}
        self._promises.clear()
        self._replies = []
        # First the subscriptions, so that nothing is requeued into a consumer that is on its way out.
        for consumer in consumers.values():
            consumer.queue.unsubscribe(consumer)
        self.requeue(self.unacked.take_all())
        for consumer in consumers.values():
            self.vhost.unsubscribe(consumer.queue, consumer)
