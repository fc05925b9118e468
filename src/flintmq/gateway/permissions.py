"""Permissions that declarations and bindings need, as RabbitMQ documents, for AMQP 0-9-1 and HTTP.

A declaration with a dead letter or alternate exchange needs `write` on that exchange, and `read` on the declared queue
or exchange.
"""

from flintmq.broker.access.permission import CONFIGURE, READ, WRITE, Rights
from flintmq.broker.message import Table
from flintmq.broker.vhost import VHost


def permit_queue(rights: Rights, vhost: VHost, name: str, arguments: Table) -> None:
    """Check that the user may declare a queue of this name. Raises AccessRefused."""
    _check_declaration(rights, "queue", name, name in vhost.queues, arguments.get("x-dead-letter-exchange"))


def permit_exchange(rights: Rights, vhost: VHost, name: str, arguments: Table) -> None:
    """Check that the user may declare an exchange of this name. Raises AccessRefused."""
    is_there = name in vhost.exchanges.by_name
    _check_declaration(rights, "exchange", name, is_there, arguments.get("alternate-exchange"))


def _check_declaration(rights: Rights, kind: str, name: str, is_there: bool, leads_to: object) -> None:
    """`leads_to` is the name of a further exchange that gets messages; a value of another type is refused later."""
    rights.check(CONFIGURE, kind, name)
    if isinstance(leads_to, str) and not is_there:
        rights.check(READ, kind, name)
        rights.check(WRITE, "exchange", leads_to)


def permit_binding(rights: Rights, vhost: VHost, kind: str, destination: str, exchange: str, routing_key: str) -> None:
    """Check that the user may bind, or unbind, a queue or exchange at another exchange. Raises AccessRefused."""
    rights.check(WRITE, kind, destination)
    rights.check(READ, "exchange", exchange)
    known = vhost.exchanges.by_name.get(exchange)
    if known is not None and known.type == "topic":
        rights.check_topic(READ, exchange, routing_key)
