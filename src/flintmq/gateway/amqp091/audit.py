"""Methods that the audit log records, because they change definitions, and the objects they change.

Exclusive queues and queues for replies end with their connection, so they are not recorded.
"""

from typing import Final

from flintmq.broker.vhost import VHost
from flintmq.gateway.amqp091.publish_options import is_reply_address
from flintmq.wire.amqp091 import methods
from flintmq.wire.amqp091.methods import (
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)

AUDITED: Final = frozenset(
    {
        methods.EXCHANGE_DECLARE,
        methods.EXCHANGE_DELETE,
        methods.EXCHANGE_BIND,
        methods.EXCHANGE_UNBIND,
        methods.QUEUE_DECLARE,
        methods.QUEUE_BIND,
        methods.QUEUE_UNBIND,
        methods.QUEUE_PURGE,
        methods.QUEUE_DELETE,
    }
)


def target_of(method: Method, vhost: VHost, last_queue: str) -> str:
    """The object that one of AUDITED changes, for the log; empty if only its own connection can use the object."""
    if isinstance(method, ExchangeDeclare):
        return "" if method.passive else f"exchange '{method.exchange}'"
    if isinstance(method, ExchangeDelete):
        return f"exchange '{method.exchange}'"
    if isinstance(method, ExchangeBind | ExchangeUnbind):
        return f"exchange '{method.destination}' from exchange '{method.source}' by key '{method.routing_key}'"
    if isinstance(method, QueueDeclare):
        # A queue with a generated name is treated as private: the name is not known before the declaration.
        is_private = method.passive or method.exclusive or method.queue == "" or is_reply_address(method.queue)
        return "" if is_private else f"queue '{method.queue}'"
    if isinstance(method, QueueBind | QueueUnbind):
        name = _queue(method.queue, vhost, last_queue)
        return name and f"{name} from exchange '{method.exchange}' by key '{method.routing_key}'"
    if isinstance(method, QueuePurge | QueueDelete):
        return _queue(method.queue, vhost, last_queue)
    return ""


def _queue(name: str, vhost: VHost, last_queue: str) -> str:
    found = vhost.queues.get(name or last_queue)
    return "" if found is not None and found.owner is not None else f"queue '{name or last_queue}'"
