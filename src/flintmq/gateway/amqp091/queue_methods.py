"""Handlers of queue.*."""

from base64 import urlsafe_b64encode
from typing import Final

from flintmq.base.errors import NotFound
from flintmq.broker.access.permission import CONFIGURE
from flintmq.broker.queue.entries import entry_queue
from flintmq.broker.queue.purge import Purge
from flintmq.gateway.amqp091.channel import ServerChannel
from flintmq.gateway.amqp091.handlers import Handlers
from flintmq.gateway.amqp091.publish_properties import REPLY_TO, is_reply_address
from flintmq.gateway.permissions import permit_binding, permit_queue
from flintmq.wire.amqp091.methods import (
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

METHODS: Final[Handlers] = Handlers()


def generated_name(prefix: str, channel: ServerChannel) -> str:
    """Generate a unique name: `prefix` and 128 random bits."""
    return prefix + urlsafe_b64encode(channel.gateway.random_bytes(16)).decode().rstrip("=")


def _declared(channel: ServerChannel, method: QueueDeclare) -> str:
    """The declared queue; empty for a private one, as which a generated name counts: it is not known before."""
    is_private = method.passive or method.exclusive or method.queue == "" or is_reply_address(method.queue)
    return "" if is_private else f"queue '{method.queue}'"


def _changed(channel: ServerChannel, method: QueuePurge | QueueDelete) -> str:
    return _shared(channel, method.queue)


def _bound(channel: ServerChannel, method: QueueBind | QueueUnbind) -> str:
    name = _shared(channel, method.queue)
    return name and f"{name} from exchange '{method.exchange}' by key '{method.routing_key}'"


def _shared(channel: ServerChannel, queue: str) -> str:
    """A queue for the audit log; empty if it ends with its connection."""
    name = queue or channel.last_queue
    found = channel.vhost.queues.get(name)
    return "" if found is not None and found.owner is not None else f"queue '{name}'"


@METHODS.handles(QueueDeclare, _declared, ("queue",))
def declare(channel: ServerChannel, method: QueueDeclare) -> None:
    vhost = channel.vhost
    if channel.is_void(method.passive, method.no_wait):
        return
    if is_reply_address(method.queue):
        # This only tells whether a client waits for replies there, so it needs no permission (RabbitMQ).
        _declare_reply_address(channel, method)
        return
    if method.passive:
        channel.rights.check_any("queue", channel.queue_name(method.queue))
        queue = channel.queue(method.queue)
        queue.used()
    else:
        generated = method.queue == ""
        name = generated_name("amq.gen-", channel) if generated else method.queue
        permit_queue(channel.rights, channel.vhost, name, method.arguments)
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


def _permitted_key(channel: ServerChannel, method: QueueBind | QueueUnbind) -> str:
    """The routing key of a binding that the user may make and remove. Raises NotFound or AccessRefused.

    Without a queue name, an empty key means the name of the last declared queue (amqp-0-9-1 queue.bind.queue).
    """
    name = channel.queue_name(method.queue)
    key = name if method.queue == "" and method.routing_key == "" else method.routing_key
    permit_binding(channel.rights, channel.vhost, "queue", name, method.exchange, key)
    return key


@METHODS.handles(QueueBind, _bound, ("queue", "exchange"))
def bind(channel: ServerChannel, method: QueueBind) -> None:
    key = _permitted_key(channel, method)
    queue = channel.queue(method.queue)
    channel.spend_on_selector(method.arguments)
    channel.vhost.exchanges.bind_queue(queue, method.exchange, key, method.arguments)
    if not method.no_wait:
        channel.reply_when_durable(QueueBindOk())


@METHODS.handles(QueueUnbind, _bound, ("queue", "exchange"))
def unbind(channel: ServerChannel, method: QueueUnbind) -> None:
    vhost = channel.vhost
    name = channel.queue_name(method.queue)
    key = _permitted_key(channel, method)
    are_there = name in vhost.queues and method.exchange in vhost.exchanges.by_name
    # Without the queue or the exchange there is no binding, which is no fault (RabbitMQ).
    if are_there or vhost.dialect.missing_is_fault:
        vhost.exchanges.unbind_queue(channel.queue(name), method.exchange, key, method.arguments)
    channel.reply_when_durable(QueueUnbindOk())


@METHODS.handles(QueuePurge, _changed)
def purge(channel: ServerChannel, method: QueuePurge) -> None:
    channel.check_read(method.queue)
    work = Purge(entry_queue(channel.queue(method.queue), "queue.purge"))
    channel.gateway.tick.begin(work)
    if work.has_ended:
        _purged(channel, method, work)
    else:
        channel.hold_methods()
        work.on_end = lambda: channel.go_on(method, lambda: _purged(channel, method, work))


def _purged(channel: ServerChannel, method: QueuePurge, work: Purge) -> None:
    count = work.result()
    if not method.no_wait:
        channel.reply(QueuePurgeOk(message_count=count))


@METHODS.handles(QueueDelete, _changed, ("queue",))
def delete(channel: ServerChannel, method: QueueDelete) -> None:
    channel.rights.check(CONFIGURE, "queue", channel.queue_name(method.queue))
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
