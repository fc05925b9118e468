"""Handlers of exchange.*."""

from flintmq.gateway.amqp091.channel import ServerChannel
from flintmq.wire.amqp091.methods import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    Method,
)


def declare(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, ExchangeDeclare)
    if channel.is_void(method.passive, method.no_wait):
        return
    if method.passive:
        channel.vhost.exchanges.find_declared(method.exchange)
    else:
        channel.vhost.exchanges.declare(
            method.exchange, method.type, method.durable, method.auto_delete, method.internal, method.arguments
        )
    if not method.no_wait:
        channel.reply_when_durable(ExchangeDeclareOk())


def delete(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, ExchangeDelete)
    channel.vhost.exchanges.delete(method.exchange, method.if_unused)
    if not method.no_wait:
        channel.reply_when_durable(ExchangeDeleteOk())


def bind(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, ExchangeBind)
    channel.spend_on_selector(method.arguments)
    channel.vhost.exchanges.bind_exchange(method.destination, method.source, method.routing_key, method.arguments)
    if not method.no_wait:
        channel.reply_when_durable(ExchangeBindOk())


def unbind(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, ExchangeUnbind)
    exchanges = channel.vhost.exchanges
    # Without one of the exchanges there is no binding, which is no fault (RabbitMQ).
    if method.destination in exchanges.by_name and method.source in exchanges.by_name:
        exchanges.unbind_exchange(method.destination, method.source, method.routing_key, method.arguments)
    if not method.no_wait:
        channel.reply_when_durable(ExchangeUnbindOk())
