"""Handlers of basic.*, confirm.select, channel.flow and access.request, except those that run for each message."""

from typing import Final

from flintmq.base.errors import NotAllowed, PreconditionFailed, ResourceLocked
from flintmq.base.limits import (
    ADDRESS_WORK_UNITS,
    BROWSED_ENTRIES_PER_UNIT,
    DISPATCH_BURST_MESSAGES,
    UNACKED_TAGS_PER_UNIT,
)
from flintmq.broker.arguments import check_consumer_arguments
from flintmq.broker.message import Entry
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.classic import view_of
from flintmq.broker.queue.entries import EntryQueue, entry_queue
from flintmq.broker.selector.selectors import selector_of
from flintmq.gateway.amqp091.channel import ServerChannel
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.gateway.amqp091.consumer import ChannelConsumer
from flintmq.gateway.amqp091.deliveries import annotated
from flintmq.gateway.amqp091.handlers import Handlers
from flintmq.gateway.amqp091.publish_properties import REPLY_PREFIX, REPLY_TO
from flintmq.gateway.amqp091.queue_methods import generated_name
from flintmq.gateway.amqp091.unacked import REJECT, REQUEUE, Delivery
from flintmq.gateway.amqp091.window import Window
from flintmq.gateway.conversion.converted import TO_091
from flintmq.wire.amqp091 import methods
from flintmq.wire.amqp091.methods import (
    AccessRequest,
    AccessRequestOk,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    ChannelFlow,
    ChannelFlowOk,
    ConfirmSelect,
    ConfirmSelectOk,
)
from flintmq.wire.amqp091.tables import INT64_MAX, encode_shortstr

# How many unsendable messages one basic.get discards before it answers that the queue is empty.
_GIVEN_UP_MAX: Final = 1_024

METHODS: Final[Handlers] = Handlers()


@METHODS.handles(BasicQos)
def qos(channel: ServerChannel, method: BasicQos) -> None:
    deliveries = channel.deliveries
    messages, size = method.prefetch_count, method.prefetch_size
    connection = channel.connection
    if channel.vhost.dialect.prefetch_spans_channel:
        (connection.window if method.global_ else deliveries.window).limit(messages, size)
    else:
        # RabbitMQ's meaning of `global`: false limits each future consumer, true all consumers of the channel together.
        of_channel = method.global_ or connection.limits_channel
        (deliveries.window if of_channel else deliveries.consumer_window).limit(messages, size)
    connection.measure()
    connection.resume()
    channel.reply(BasicQosOk())


@METHODS.handles(BasicConsume)
def consume(channel: ServerChannel, method: BasicConsume) -> None:
    if method.queue != REPLY_TO:
        # A channel may always consume its own replies.
        channel.check_read(method.queue)
    deliveries = channel.deliveries
    arguments = method.arguments
    tag = method.consumer_tag or generated_name("amq.ctag-", channel)
    if tag in deliveries.consumers:
        raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
    most = channel.service.properties.consumers_max
    if 0 < most <= len(deliveries.consumers):
        raise NotAllowed(f"reached maximum ({most}) of consumers per channel")
    name = channel.queue_name(method.queue)
    check_consumer_arguments(arguments, name, channel.vhost.name)
    channel.spend_on_selector(arguments)
    selector = selector_of(arguments, f"queue '{name}' in vhost '{channel.vhost.name}'")
    queue = _reply_queue(channel, method.no_ack) if method.queue == REPLY_TO else channel.queue(method.queue)
    if arguments.get("x-browse") is True and method.queue != REPLY_TO:
        channel.spend(queue.message_count // BROWSED_ENTRIES_PER_UNIT)
        queue = view_of(queue)
    window = Window(deliveries.consumer_window.messages_max, deliveries.consumer_window.bytes_max)
    if queue.keeps_all and not (method.no_ack or window.is_limited or deliveries.window.is_limited):
        # Without a limit the whole stream would be sent and held unacknowledged (RabbitMQ has the same rule).
        raise PreconditionFailed(
            f"consumer prefetch count is not set for stream queue '{queue.name}' in vhost '{queue.vhost}'"
        )
    prefix = methods.BASIC_DELIVER.to_bytes(4, "big") + encode_shortstr(tag)
    timeout_ms = arguments.get("x-consumer-timeout", max(queue.settings.consumer_timeout_ms, 0))
    priority = arguments.get("x-priority", 0)
    assert isinstance(timeout_ms, int)
    assert isinstance(priority, int)
    consumer = ChannelConsumer(
        tag,
        method.no_ack,
        method.exclusive,
        queue,
        channel,
        deliveries,
        window,
        prefix,
        priority,
        0 if method.no_ack else timeout_ms,
        method.no_local,
        selector,
    )
    channel.spend(consumer.search_units(queue))
    queue.subscribe(consumer, arguments)
    deliveries.consumers[tag] = consumer
    if method.no_wait:
        consumer.start()
    else:
        channel.reply(BasicConsumeOk(consumer_tag=tag), consumer)


def _reply_queue(channel: ServerChannel, no_ack: bool) -> Queue:
    """Make the queue behind amq.rabbitmq.reply-to for this channel; it is deleted with its consumer.

    Raises PreconditionFailed if the consumer acknowledges, or if the channel has a reply consumer already.
    """
    if not no_ack:
        raise PreconditionFailed("reply consumer cannot acknowledge")
    if channel.reply_queue in channel.vhost.replies:
        raise PreconditionFailed("reply consumer already set")
    channel.reply_queue = generated_name(REPLY_PREFIX, channel)
    return channel.vhost.make_reply_queue(channel.reply_queue)


@METHODS.handles(BasicCancel)
def cancel(channel: ServerChannel, method: BasicCancel) -> None:
    consumer = channel.deliveries.consumers.get(method.consumer_tag)
    if consumer is None:
        channel.forget_tag(method.consumer_tag)
    else:
        channel.deliveries.forget(consumer)
        channel.vhost.unsubscribe(consumer.queue, consumer)
    if not method.no_wait:
        channel.reply(BasicCancelOk(consumer_tag=method.consumer_tag))


@METHODS.handles(BasicCancelOk)
def cancel_ok(channel: ServerChannel, method: BasicCancelOk) -> None:
    """Ignore the answer to a basic.cancel of the server, which some clients send despite no-wait."""


@METHODS.handles(BasicGet)
def get(channel: ServerChannel, method: BasicGet) -> None:
    channel.check_read(method.queue)
    deliveries = channel.deliveries
    queue = entry_queue(channel.queue(method.queue), "basic.get")
    if queue.settings.single_active and queue.kind == "quorum":
        # RabbitMQ has this rule for quorum queues only.
        raise ResourceLocked(
            f"cannot obtain access to locked queue '{queue.name}' in vhost '{queue.vhost}'. basic.get operations are "
            "not supported by quorum queues with single active consumer"
        )
    entry = _next_sendable(channel, queue)
    if entry is None:
        if queue.is_behind:
            # The others get their turn before more of the expired messages are removed.
            channel.handle_again(method)
            return
        deliveries.got_empty += 1
        if queue.message_count > 0 and not queue.settings.paused:
            # All entries that were searched are withheld from this client.
            channel.spend(DISPATCH_BURST_MESSAGES)
        channel.reply(BasicGetEmpty())
        return
    message = entry.message
    properties, body = message.properties, message.body
    if message.codec is not CODEC_091:
        properties, body = TO_091.in_091(message)
    if queue.adds_headers:
        properties = annotated(queue, entry, properties)
    refusal = deliveries.refusal(queue, properties)
    if refusal is not None:
        queue.requeue([entry])
        raise refusal
    deliveries.redelivered += entry.redelivered
    if method.no_ack:
        deliveries.got_no_ack += 1
        tag = deliveries.unacked.add(None)
        queue.sent(entry)
    else:
        deliveries.got += 1
        deliveries.held_gets += 1
        tag = deliveries.unacked.add(Delivery(entry, queue, None, len(message.body), channel.gateway.tick.now_ms))
    tap = channel.gateway.tick.tap
    if tap is not None:
        tap.delivered(channel.client(), queue, entry)
    answer = BasicGetOk(
        delivery_tag=tag,
        redelivered=entry.redelivered,
        exchange=message.address.exchange,
        routing_key=message.address.routing_key,
        message_count=queue.message_count,
    )
    channel.reply_with_delivery(answer, properties, body)


def _next_sendable(channel: ServerChannel, queue: EntryQueue) -> Entry | None:
    """Acquire the next entry of a queue, and discard unsendable ones before it, at most _GIVEN_UP_MAX."""
    deliveries = channel.deliveries
    for _ in range(_GIVEN_UP_MAX):
        entry = queue.get(deliveries)
        if entry is None or not deliveries.is_unsendable(queue, entry.message, entry.message.properties):
            return entry
        queue.got -= 1
        queue.discard_unsendable(entry)
        channel.spend(ADDRESS_WORK_UNITS)
    return None


@METHODS.handles(BasicReject)
def reject(channel: ServerChannel, method: BasicReject) -> None:
    channel.settle(_tag(method.delivery_tag), False, REQUEUE if method.requeue else REJECT)


@METHODS.handles(BasicNack)
def nack(channel: ServerChannel, method: BasicNack) -> None:
    channel.settle(_tag(method.delivery_tag), method.multiple, REQUEUE if method.requeue else REJECT)


def _tag(delivery_tag: int) -> int:
    """Check a tag, which is unsigned on the wire. Raises PreconditionFailed beyond 63 bits: no tag gets that high."""
    if delivery_tag > INT64_MAX:
        raise PreconditionFailed(f"unknown delivery tag {delivery_tag}")
    return delivery_tag


@METHODS.handles(BasicRecover)
def recover(channel: ServerChannel, method: BasicRecover) -> None:
    _recover(channel, method.requeue)
    channel.reply(BasicRecoverOk())


@METHODS.handles(BasicRecoverAsync)
def recover_async(channel: ServerChannel, method: BasicRecoverAsync) -> None:
    _recover(channel, method.requeue)


def _recover(channel: ServerChannel, requeue: bool) -> None:
    deliveries = channel.deliveries
    channel.spend(deliveries.unacked.span // UNACKED_TAGS_PER_UNIT)
    if requeue:
        deliveries.requeue(deliveries.unacked.take_outstanding())
    else:
        deliveries.redeliver()


@METHODS.handles(ConfirmSelect)
def select_confirms(channel: ServerChannel, method: ConfirmSelect) -> None:
    channel.select_confirms()
    if not method.no_wait:
        channel.reply(ConfirmSelectOk())


@METHODS.handles(ChannelFlow)
def flow(channel: ServerChannel, method: ChannelFlow) -> None:
    channel.deliveries.flow(method.active)
    channel.reply(ChannelFlowOk(active=method.active))


@METHODS.handles(ChannelFlowOk)
def flow_ok(channel: ServerChannel, method: ChannelFlowOk) -> None:
    """Ignore the client's answer to channel.flow: messages that it publishes regardless have to wait anyway."""


@METHODS.handles(AccessRequest)
def request_access(channel: ServerChannel, method: AccessRequest) -> None:
    """Answer a request for an access ticket (AMQP 0-9). Tickets are not checked; permissions replaced them."""
    channel.reply(AccessRequestOk(ticket=1))
