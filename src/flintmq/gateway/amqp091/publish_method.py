"""Parses the payload of basic.publish, and caches the result, because publishers repeat the same payloads."""

from mypy_extensions import i64

from flintmq.base.errors import SyntaxFault
from flintmq.broker.message import Address
from flintmq.gateway.publishing import PublishTarget, PublishTargets
from flintmq.wire.amqp091.tables import pull_shortstr

# Class and method id, and the reserved ticket, before the exchange's name.
_ADDRESS_AT = 6


def publish_target(targets: PublishTargets, payload: bytes) -> PublishTarget:
    """The target that a basic.publish method names. Raises SyntaxFault if the payload is malformed."""
    known = targets.find(payload)
    if known is not None:
        return known
    exchange, middle = pull_shortstr(payload, _ADDRESS_AT)
    routing_key, stop = pull_shortstr(payload, middle)
    end: i64 = len(payload)
    if stop != end - 1:
        raise SyntaxFault("basic.publish: one octet of flags is due after the routing key")
    flags = payload[end - 1]
    address = Address(exchange, routing_key, payload[_ADDRESS_AT : end - 1])
    target = PublishTarget(address, (flags & 1) != 0, (flags & 2) != 0)
    targets.add(payload, target)
    return target
