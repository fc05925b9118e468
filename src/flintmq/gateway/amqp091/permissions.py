"""Permissions that several methods need, as RabbitMQ documents. A handler checks its permissions before anything else.

A passive declaration needs any one of the three. A declaration with a dead letter or alternate exchange needs `write`
on that exchange, and `read` on the declared queue or exchange.
"""

from flintmq.broker.access.permission import CONFIGURE, READ, WRITE
from flintmq.broker.message import Table
from flintmq.gateway.amqp091.channel import ServerChannel


def check_read(channel: ServerChannel, queue: str) -> None:
    """Check that the user may read from a queue. Raises AccessRefused."""
    channel.rights.check(READ, "queue", channel.queue_name(queue))


def check_queue(channel: ServerChannel, name: str, arguments: Table) -> None:
    """Check that the user may declare a queue of this name. Raises AccessRefused."""
    rights = channel.rights
    rights.check(CONFIGURE, "queue", name)
    dead_letters = arguments.get("x-dead-letter-exchange")
    if isinstance(dead_letters, str) and name not in channel.vhost.queues:
        rights.check(READ, "queue", name)
        rights.check(WRITE, "exchange", dead_letters)


def check_exchange(channel: ServerChannel, name: str, arguments: Table) -> None:
    """Check that the user may declare an exchange of this name. Raises AccessRefused."""
    rights = channel.rights
    rights.check(CONFIGURE, "exchange", name)
    alternate = arguments.get("alternate-exchange")
    if isinstance(alternate, str) and name not in channel.vhost.exchanges.by_name:
        rights.check(READ, "exchange", name)
        rights.check(WRITE, "exchange", alternate)


def check_binding(channel: ServerChannel, kind: str, destination: str, exchange: str, routing_key: str) -> None:
    """Check that the user may bind, or unbind, a queue or exchange at another exchange. Raises AccessRefused."""
    rights = channel.rights
    rights.check(WRITE, kind, destination)
    rights.check(READ, "exchange", exchange)
    known = channel.vhost.exchanges.by_name.get(exchange)
    if known is not None and known.type == "topic":
        rights.check_topic(READ, exchange, routing_key)
