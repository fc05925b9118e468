"""The permissions that each method needs, as RabbitMQ documents. They are checked before the method is handled.

A passive declaration needs any one of the three. A declaration with a dead letter or alternate exchange needs `write`
on that exchange, and `read` on the declared queue or exchange.
"""

from collections.abc import Callable
from typing import Final

from flintmq.broker.access.permission import CONFIGURE, READ, WRITE
from flintmq.gateway.amqp091.channel import ServerChannel
from flintmq.gateway.amqp091.publish_options import REPLY_TO, is_reply_address
from flintmq.wire.amqp091 import methods
from flintmq.wire.amqp091.methods import (
    BasicConsume,
    BasicGet,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    LeaseExtend,
    LeaseFetch,
    LeaseOpen,
    LeaseQuery,
    LeaseRelease,
    LeaseSettle,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
    StreamFetch,
    StreamQuery,
    StreamSpan,
)


def _exchange_declare(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, ExchangeDeclare)
    rights = channel.rights
    name = method.exchange
    if name == "" or channel.is_void(method.passive, method.no_wait):
        # The handler refuses the empty name to everybody, for another reason.
        return
    if method.passive:
        rights.check_any("exchange", name)
        return
    rights.check(CONFIGURE, "exchange", name)
    alternate = method.arguments.get("alternate-exchange")
    if isinstance(alternate, str) and name not in channel.vhost.exchanges.by_name:
        rights.check(READ, "exchange", name)
        rights.check(WRITE, "exchange", alternate)


def _exchange_delete(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, ExchangeDelete)
    if method.exchange != "":
        channel.rights.check(CONFIGURE, "exchange", method.exchange)


def _exchange_bind(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, ExchangeBind)
    channel.rights.check(WRITE, "exchange", method.destination)
    _source(channel, method.source, method.routing_key)


def _exchange_unbind(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, ExchangeUnbind)
    channel.rights.check(WRITE, "exchange", method.destination)
    _source(channel, method.source, method.routing_key)


def _source(channel: ServerChannel, exchange: str, routing_key: str) -> None:
    channel.rights.check(READ, "exchange", exchange)
    known = channel.vhost.exchanges.by_name.get(exchange)
    if known is not None and known.type == "topic":
        channel.rights.check_topic(READ, exchange, routing_key)


def _queue_declare(channel: ServerChannel, method: Method) -> None:
    """Check a declaration. A name that the server generates is checked by the handler."""
    assert isinstance(method, QueueDeclare)
    if is_reply_address(method.queue) or channel.is_void(method.passive, method.no_wait):
        # Declaring a reply address only tells whether a client waits for replies there (RabbitMQ).
        return
    if method.passive:
        channel.rights.check_any("queue", channel.queue_name(method.queue))
    elif method.queue != "":
        check_queue(channel, method, method.queue)


def check_queue(channel: ServerChannel, method: QueueDeclare, name: str) -> None:
    """Check that the user may declare a queue of this name. Raises AccessRefused."""
    rights = channel.rights
    rights.check(CONFIGURE, "queue", name)
    dead_letters = method.arguments.get("x-dead-letter-exchange")
    if isinstance(dead_letters, str) and name not in channel.vhost.queues:
        rights.check(READ, "queue", name)
        rights.check(WRITE, "exchange", dead_letters)


def _queue_bind(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, QueueBind)
    _binding(channel, method.queue, method.exchange, method.routing_key)


def _queue_unbind(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, QueueUnbind)
    _binding(channel, method.queue, method.exchange, method.routing_key)


def _binding(channel: ServerChannel, queue: str, exchange: str, routing_key: str) -> None:
    name = channel.queue_name(queue)
    channel.rights.check(WRITE, "queue", name)
    _source(channel, exchange, name if queue == "" and routing_key == "" else routing_key)


def _queue_delete(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, QueueDelete)
    channel.rights.check(CONFIGURE, "queue", channel.queue_name(method.queue))


def _queue_read(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, (QueuePurge, BasicConsume, BasicGet, StreamQuery, StreamFetch, StreamSpan))
    if isinstance(method, BasicConsume) and method.queue == REPLY_TO:
        # A channel may always consume its own replies.
        return
    channel.rights.check(READ, "queue", channel.queue_name(method.queue))


def _lease(channel: ServerChannel, method: Method) -> None:
    """Check `read`: a user who may consume from a queue may also take over a lease of another client."""
    assert isinstance(method, (LeaseOpen, LeaseExtend, LeaseFetch, LeaseSettle, LeaseRelease, LeaseQuery))
    channel.rights.check(READ, "queue", channel.queue_name(method.queue))


CHECKS: Final[dict[int, Callable[[ServerChannel, Method], None]]] = {
    methods.EXCHANGE_DECLARE: _exchange_declare,
    methods.EXCHANGE_DELETE: _exchange_delete,
    methods.EXCHANGE_BIND: _exchange_bind,
    methods.EXCHANGE_UNBIND: _exchange_unbind,
    methods.QUEUE_DECLARE: _queue_declare,
    methods.QUEUE_BIND: _queue_bind,
    methods.QUEUE_UNBIND: _queue_unbind,
    methods.QUEUE_DELETE: _queue_delete,
    methods.QUEUE_PURGE: _queue_read,
    methods.BASIC_CONSUME: _queue_read,
    methods.BASIC_GET: _queue_read,
    methods.STREAM_QUERY: _queue_read,
    methods.STREAM_SPAN: _queue_read,
    methods.STREAM_FETCH: _queue_read,
    methods.LEASE_OPEN: _lease,
    methods.LEASE_EXTEND: _lease,
    methods.LEASE_FETCH: _lease,
    methods.LEASE_SETTLE: _lease,
    methods.LEASE_RELEASE: _lease,
    methods.LEASE_QUERY: _lease,
}
