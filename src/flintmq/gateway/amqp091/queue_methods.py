"""Handlers of queue.*."""

from base64 import urlsafe_b64encode

from flintmq.base.errors import NotFound
from flintmq.broker.queue.entries import entry_queue
from flintmq.broker.queue.purge import drop_all
from flintmq.gateway.amqp091.channel import ServerChannel
from flintmq.gateway.amqp091.permissions import check_queue
from flintmq.gateway.amqp091.publish_options import REPLY_TO, is_reply_address
from flintmq.wire.amqp091.methods import (
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)


def generated_name(prefix: str, channel: ServerChannel) -> str:
    """Generate a unique name: `prefix` and 128 random bits."""
    return prefix + urlsafe_b64encode(channel.gateway.random_bytes(16)).decode().rstrip("=")


def declare(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, QueueDeclare)
    vhost = channel.vhost
    if channel.is_void(method.passive, method.no_wait):
        return
    if is_reply_address(method.queue):
        _declare_reply_address(channel, method)
        return
    if method.passive:
        queue = channel.queue(method.queue)
        queue.used()
    else:
        generated = method.queue == ""
        name = method.queue
        if generated:
            name = generated_name("amq.gen-", channel)
            check_queue(channel, method, name)
        vhost.dialect.check_field_names(method.arguments)
        queue = vhost.declare_queue(
            name,
            method.durable,
            method.exclusive,
            method.auto_delete,
            method.arguments,
            channel.connection,
            generated,
        )
    channel.last_queue = queue.name
    if not method.no_wait:
        channel.reply_when_durable(
            QueueDeclareOk(
                queue=queue.name,
                message_count=min(queue.message_count, 0xFFFFFFFF),
                consumer_count=queue.consumer_count,
            )
        )


def _declare_reply_address(channel: ServerChannel, method: QueueDeclare) -> None:
    """Answer whether a client waits at a reply address (RabbitMQ): with one consumer, and no messages.

    The plain name always exists, because any channel may consume from it. Raises NotFound if no client waits.
    """
    name = method.queue
    if name != REPLY_TO and name not in channel.vhost.replies:
        raise NotFound(f"no queue '{name}' in vhost '{channel.vhost.name}'")
    channel.last_queue = name
    if not method.no_wait:
        channel.reply(QueueDeclareOk(queue=name, message_count=0, consumer_count=1))


def bind(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, QueueBind)
    queue = channel.queue(method.queue)
    # Without a queue name, an empty key means the name of the last declared queue (amqp-0-9-1 queue.bind.queue).
    key = queue.name if method.queue == "" and method.routing_key == "" else method.routing_key
    channel.spend_on_selector(method.arguments)
    channel.vhost.exchanges.bind_queue(queue, method.exchange, key, method.arguments)
    if not method.no_wait:
        channel.reply_when_durable(QueueBindOk())


def unbind(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, QueueUnbind)
    vhost = channel.vhost
    name = channel.queue_name(method.queue)
    are_there = name in vhost.queues and method.exchange in vhost.exchanges.by_name
    # Without the queue or the exchange there is no binding, which is no fault (RabbitMQ).
    if are_there or vhost.dialect.missing_is_fault:
        vhost.exchanges.unbind_queue(channel.queue(name), method.exchange, method.routing_key, method.arguments)
    channel.reply_when_durable(QueueUnbindOk())


def purge(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, QueuePurge)
    count = drop_all(entry_queue(channel.queue(method.queue), "queue.purge"))
    if not method.no_wait:
        channel.reply(QueuePurgeOk(message_count=count))


def delete(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, QueueDelete)
    name = method.queue
    if name == "":
        name = channel.queue("").name
    channel.is_deleting = True
    try:
        count = channel.vhost.delete_queue(name, method.if_unused, method.if_empty, channel.connection)
    finally:
        channel.is_deleting = False
    if not method.no_wait:
        channel.reply_when_durable(QueueDeleteOk(message_count=count))
    channel.tell_cancelled()
