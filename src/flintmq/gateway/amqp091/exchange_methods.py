"""Handlers of exchange.*."""

from typing import Final

from flintmq.broker.access.permission import CONFIGURE
from flintmq.gateway.amqp091.channel import ServerChannel
from flintmq.gateway.amqp091.handlers import Handlers
from flintmq.gateway.permissions import permit_binding, permit_exchange
from flintmq.wire.amqp091.methods import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
)

METHODS: Final[Handlers] = Handlers()


def _declared(channel: ServerChannel, method: ExchangeDeclare) -> str:
    return "" if method.passive else f"exchange '{method.exchange}'"


def _deleted(channel: ServerChannel, method: ExchangeDelete) -> str:
    return f"exchange '{method.exchange}'"


def _bound(channel: ServerChannel, method: ExchangeBind | ExchangeUnbind) -> str:
    return f"exchange '{method.destination}' from exchange '{method.source}' by key '{method.routing_key}'"


@METHODS.handles(ExchangeDeclare, _declared, ("exchange",))
def declare(channel: ServerChannel, method: ExchangeDeclare) -> None:
    if channel.is_void(method.passive, method.no_wait):
        return
    if method.passive:
        if method.exchange != "":
            channel.rights.check_any("exchange", method.exchange)
        channel.vhost.exchanges.find_declared(method.exchange)
    else:
        # The empty name is refused to everybody, for another reason.
        if method.exchange != "":
            permit_exchange(channel.rights, channel.vhost, method.exchange, method.arguments)
        channel.vhost.exchanges.declare(
            method.exchange, method.type, method.durable, method.auto_delete, method.internal, method.arguments
        )
    if not method.no_wait:
        channel.reply_when_durable(ExchangeDeclareOk())


@METHODS.handles(ExchangeDelete, _deleted, ("exchange",))
def delete(channel: ServerChannel, method: ExchangeDelete) -> None:
    if method.exchange != "":
        channel.rights.check(CONFIGURE, "exchange", method.exchange)
    channel.vhost.exchanges.delete(method.exchange, method.if_unused)
    if not method.no_wait:
        channel.reply_when_durable(ExchangeDeleteOk())


@METHODS.handles(ExchangeBind, _bound, ("destination", "source"))
def bind(channel: ServerChannel, method: ExchangeBind) -> None:
    permit_binding(channel.rights, channel.vhost, "exchange", method.destination, method.source, method.routing_key)
    channel.spend_on_selector(method.arguments)
    channel.vhost.exchanges.bind_exchange(method.destination, method.source, method.routing_key, method.arguments)
    if not method.no_wait:
        channel.reply_when_durable(ExchangeBindOk())


@METHODS.handles(ExchangeUnbind, _bound, ("destination", "source"))
def unbind(channel: ServerChannel, method: ExchangeUnbind) -> None:
    permit_binding(channel.rights, channel.vhost, "exchange", method.destination, method.source, method.routing_key)
    exchanges = channel.vhost.exchanges
    # Without one of the exchanges there is no binding, which is no fault (RabbitMQ).
    if method.destination in exchanges.by_name and method.source in exchanges.by_name:
        exchanges.unbind_exchange(method.destination, method.source, method.routing_key, method.arguments)
    if not method.no_wait:
        channel.reply_when_durable(ExchangeUnbindOk())
