"""exchange.* as the server answers it."""

from flintmq.gateway.amqp091.channel import ServerChannel
from flintmq.wire.amqp091.methods import (
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    Method,
)


def declare(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, ExchangeDeclare)
    if method.passive:
        channel.vhost.exchanges.find(method.exchange)
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
