"""basic.*, confirm.select, channel.flow and access.request as the server answers them, but for what every message
passes through.
"""

from flintmq.base.errors import NotAllowed, NotImplementedHere, PreconditionFailed
from flintmq.broker.arguments import check_consumer_arguments
from flintmq.gateway.amqp091.channel import ServerChannel
from flintmq.gateway.amqp091.consumer import ChannelConsumer
from flintmq.gateway.amqp091.queue_methods import generated_name
from flintmq.gateway.amqp091.unacked import Delivery
from flintmq.wire.amqp091 import spec
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
    Method,
)
from flintmq.wire.amqp091.tables import INT64_MAX, encode_shortstr


def qos(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, BasicQos)
    if method.prefetch_size != 0:
        raise NotImplementedHere("prefetch_size != 0 is not implemented yet")
    # RabbitMQ's meaning of global: false is for each consumer yet to come, true for all of the channel together.
    if method.global_:
        channel.limit = method.prefetch_count
        channel.resume()
    else:
        channel.prefetch = method.prefetch_count
    channel.reply(BasicQosOk())


def consume(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, BasicConsume)
    queue = channel.queue(method.queue)
    tag = method.consumer_tag or generated_name("amq.ctag-", channel)
    if tag in channel.consumers:
        raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
    most = channel.gateway.offer.consumers_max
    if 0 < most <= len(channel.consumers):
        raise NotAllowed(f"reached maximum ({most}) of consumers per channel")
    check_consumer_arguments(method.arguments)
    if queue.keeps_all and not method.no_ack and channel.prefetch == 0 and channel.limit == 0:
        # It would be sent the whole stream, and all of it would be held for its acknowledgement (RabbitMQ's rule, too).
        raise PreconditionFailed(
            f"consumer prefetch count is not set for 'queue '{queue.name}' in vhost '{queue.vhost}''"
        )
    prefix = spec.BASIC_DELIVER.to_bytes(4, "big") + encode_shortstr(tag)
    consumer = ChannelConsumer(tag, method.no_ack, method.exclusive, queue, channel, channel.prefetch, prefix)
    queue.subscribe(consumer, method.arguments)
    channel.consumers[tag] = consumer
    if method.no_wait:
        channel.start(consumer)
    else:
        channel.reply(BasicConsumeOk(consumer_tag=tag), consumer)


def cancel(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, BasicCancel)
    consumer = channel.consumers.pop(method.consumer_tag, None)
    if consumer is None:
        channel.forget_tag(method.consumer_tag)
    else:
        channel.vhost.unsubscribe(consumer.queue, consumer)
        if consumer.queue.gone:
            channel.connection.exclusive_queues.pop(consumer.queue.name, None)
    if not method.no_wait:
        channel.reply(BasicCancelOk(consumer_tag=method.consumer_tag))


def cancel_ok(channel: ServerChannel, method: Method) -> None:
    """A client that answers our basic.cancel although it was sent with no-wait."""


def get(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, BasicGet)
    queue = channel.queue(method.queue)
    entry = queue.get()
    if entry is None:
        channel.reply(BasicGetEmpty())
        return
    message = entry.message
    refusal = channel.refusal(queue, message.properties)
    if refusal is not None:
        queue.requeue([entry])
        raise refusal
    if method.no_ack:
        tag = channel.unacked.add(None)
        queue.settle(entry)
    else:
        tag = channel.unacked.add(Delivery(entry, queue, None))
    answer = BasicGetOk(
        delivery_tag=tag,
        redelivered=entry.redelivered,
        exchange=message.address.exchange,
        routing_key=message.address.routing_key,
        message_count=queue.message_count,
    )
    channel.reply_with(answer, message.properties, message.body)


def reject(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, BasicReject)
    channel.settle(_tag(method.delivery_tag), False, method.requeue)


def nack(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, BasicNack)
    channel.settle(_tag(method.delivery_tag), method.multiple, method.requeue)


def _tag(delivery_tag: int) -> int:
    """Tags are unsigned on the wire, and ours never get so far that they would not be signed ones as well."""
    if delivery_tag > INT64_MAX:
        raise PreconditionFailed(f"unknown delivery tag {delivery_tag}")
    return delivery_tag


def recover(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, BasicRecover)
    _recover(channel, method.requeue)
    channel.reply(BasicRecoverOk())


def recover_async(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, BasicRecoverAsync)
    _recover(channel, method.requeue)


def _recover(channel: ServerChannel, requeue: bool) -> None:
    if not requeue:
        raise NotImplementedHere("recover with requeue=false is not implemented yet")
    channel.requeue(channel.unacked.take_all())


def select_confirms(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, ConfirmSelect)
    channel.select_confirms()
    if not method.no_wait:
        channel.reply(ConfirmSelectOk())


def flow(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, ChannelFlow)
    if not method.active:
        raise NotImplementedHere("channel.flow with active=false is not implemented yet")
    channel.reply(ChannelFlowOk(active=True))


def flow_ok(channel: ServerChannel, method: Method) -> None:
    """A client's answer to our channel.flow: what it publishes all the same waits, so nothing depends on it."""


def request_access(channel: ServerChannel, method: Method) -> None:
    """What AMQP 0-9 had instead of permissions: every ticket is good, and none is looked at."""
    assert isinstance(method, AccessRequest)
    channel.reply(AccessRequestOk(ticket=1))
