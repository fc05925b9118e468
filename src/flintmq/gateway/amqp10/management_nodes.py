"""Queues and exchanges as resources of /management."""

from typing import Final

from flintmq.base.errors import AmqpError, NotFound, NotImplementedHere, PreconditionFailed
from flintmq.broker.access.limits import MAX_QUEUES
from flintmq.broker.access.permission import CONFIGURE, READ, WRITE
from flintmq.broker.arguments import type_name
from flintmq.broker.exchange.types import check_type
from flintmq.broker.message import Table
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.entries import entry_queue
from flintmq.broker.queue.purge import Purge
from flintmq.broker.vhost_access import Access
from flintmq.gateway.amqp10.management_refusal import (
    Refusal,
    arguments,
    check_line,
    check_not_default,
    check_not_reserved,
    entries,
    term,
)
from flintmq.gateway.conversion.plain import amqp10_value
from flintmq.wire.amqp10.values import Array, UInt, ULong

# The node name in descriptions of queues: clients ask for the leader, and there is only one node.
_NODE: Final = "flintmq"


def describe_queue(access: Access, name: str) -> tuple[str, object]:
    access.rights.check_any("queue", name)
    queue = access.vhost.queues.get(name)
    if queue is None:
        raise Refusal("404", f"queue '{name}' in vhost '{access.vhost.name}' not found")
    return "200", _description(queue)


def _description(queue: Queue) -> dict[str, object]:
    shown: Table = {"x-queue-type": queue.kind} | queue.arguments
    return {
        "leader": _NODE,
        "message_count": ULong(queue.message_count),
        "consumer_count": UInt(queue.consumer_count),
        "name": queue.name,
        "vhost": queue.vhost,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.owner is not None,
        "type": queue.kind,
        "arguments": {key: amqp10_value(value) for key, value in shown.items()},
        "replicas": Array("string", [_NODE]),
    }


def declare_queue(access: Access, owner: object, name: str, body: object) -> tuple[str, object]:
    flags = {"durable": True, "exclusive": False, "auto_delete": False}
    wanted: Table = {}
    for key, value in entries(body, "queue").items():
        if isinstance(key, str) and key in flags and isinstance(value, bool):
            flags[key] = value
        elif key == "arguments":
            wanted = arguments(value)
        else:
            raise Refusal("400", f"bad queue property {{{term(key)},{term(value)}}}")
    if name == "":
        raise Refusal("400", "declare queue with empty name not allowed")
    check_line(name)
    vhost = access.vhost
    check_not_reserved("queue", name, vhost.name)
    access.rights.check(CONFIGURE, "queue", name)
    is_new = name not in vhost.queues
    if is_new:
        _check_leads_to(access, "queue", name, wanted, "x-dead-letter-exchange")
        limit = vhost.limits.reached(MAX_QUEUES, len(vhost.queues))
        if limit >= 0:
            raise Refusal(
                "403", f"cannot declare queue '{name}': queue limit in vhost '{vhost.name}' ({limit}) is reached"
            )
    try:
        vhost.dialect.check_field_names(wanted)
        queue = vhost.declare_queue(name, flags["durable"], flags["exclusive"], flags["auto_delete"], wanted, owner)
    except PreconditionFailed as error:
        # A property that this type of queue cannot have is a bad request, not a conflict (RabbitMQ).
        raise Refusal("400" if error.text.startswith("invalid property") else "409", error.text) from None
    return "201" if is_new else "200", _description(queue)


def _check_leads_to(access: Access, kind: str, name: str, wanted: Table, argument: str) -> None:
    """Check an argument that names a further exchange: it needs `read` on the node `name`, `write` on that exchange.

    Raises Refusal if the argument is no text, AccessRefused without permission.
    """
    target = wanted.get(argument)
    if target is None:
        return
    if not isinstance(target, str):
        raise Refusal("400", f"invalid type '{type_name(target)}' for arg '{argument}'")
    access.rights.check(READ, kind, name)
    access.rights.check(WRITE, "exchange", target)


def delete_queue(access: Access, owner: object, name: str) -> tuple[str, object]:
    check_line(name)
    access.rights.check(CONFIGURE, "queue", name)
    try:
        count = access.vhost.delete_queue(name, False, False, owner)
    except NotFound:
        # Only the dialect strict raises this. A DELETE of a missing resource succeeds.
        count = 0
    return "200", {"message_count": ULong(count)}


def purge_queue(access: Access, owner: object, name: str) -> Purge:
    """Begin to purge a queue, which ticks may have to go on with. Raises the fault of the first step, if any."""
    access.rights.check(READ, "queue", name)
    vhost = access.vhost
    try:
        queue = entry_queue(vhost.queue(name, owner), "queue.purge")
    except NotFound as error:
        raise Refusal("404", error.text) from None
    except NotImplementedHere:
        raise Refusal("400", f"purge not supported by queue '{name}' in vhost '{vhost.name}'") from None
    purge = Purge(queue)
    queue.tick.begin(purge)
    if purge.has_ended:
        purge.result()
    return purge


def declare_exchange(access: Access, name: str, body: object) -> tuple[str, object]:
    flags = {"durable": True, "auto_delete": False, "internal": False}
    kind = "direct"
    wanted: Table = {}
    for key, value in entries(body, "exchange").items():
        if isinstance(key, str) and key in flags and isinstance(value, bool):
            flags[key] = value
        elif key == "type" and isinstance(value, str):
            kind = value
        elif key == "arguments":
            wanted = arguments(value)
        else:
            raise Refusal("400", f"bad exchange property {{{term(key)},{term(value)}}}")
    try:
        check_type(kind)
    except AmqpError as error:
        raise Refusal("400", error.text) from None
    check_not_default(name)
    vhost = access.vhost
    access.rights.check(CONFIGURE, "exchange", name)
    if name not in vhost.exchanges.by_name:
        check_line(name)
        check_not_reserved("exchange", name, vhost.name)
        _check_leads_to(access, "exchange", name, wanted, "alternate-exchange")
    try:
        vhost.exchanges.declare(name, kind, flags["durable"], flags["auto_delete"], flags["internal"], wanted)
    except PreconditionFailed as error:
        raise Refusal("409", error.text) from None
    return "204", None


def delete_exchange(access: Access, name: str) -> tuple[str, object]:
    check_line(name)
    check_not_default(name)
    check_not_reserved("exchange", name, access.vhost.name)
    access.rights.check(CONFIGURE, "exchange", name)
    if name in access.vhost.exchanges.by_name:
        access.vhost.exchanges.delete(name, False)
    return "204", None
