"""Nodes that are created when a link attaches: dynamic nodes, and queues and exchanges that do not exist yet."""

from base64 import urlsafe_b64encode
from typing import Final

from flintmq.base.errors import SCOPE_LINK, InvalidField, NotImplementedHere
from flintmq.broker.access.permission import CONFIGURE, READ, WRITE
from flintmq.broker.arguments import LIFETIME, LIFETIME_POLICIES, ON_CLOSE, QUEUE_KINDS
from flintmq.broker.exchange.types import EXCHANGE_TYPES
from flintmq.broker.message import Table
from flintmq.broker.policy.policies import ANY_QUEUE
from flintmq.broker.queue.base import Queue
from flintmq.gateway.amqp091.publish_properties import REPLY_PREFIX
from flintmq.gateway.amqp10.addresses import queue_address
from flintmq.gateway.amqp10.ports import ClientSession
from flintmq.wire.amqp10.spec import CODES, COPY, EXPIRE_LINK_DETACH, MOVE, SYMBOLS
from flintmq.wire.amqp10.termini import LifetimePolicy, Source, Target
from flintmq.wire.amqp10.values import Array, Described, Symbol, ULong

# Capabilities by which sources say which filters they support (part 3 §3.5.8).
FILTERS: Final = ("APACHE.ORG:SELECTOR", "APACHE.ORG:NO_LOCAL")
# Capabilities of queues, as clients for JMS and RabbitMQ name them.
_QUEUE_CAPABILITIES: Final = ("queue", "temporary-queue")
# The capability by which a client asks for a reply address instead of a queue (direct reply-to).
VOLATILE: Final = "rabbitmq:volatile-queue"
_EXCHANGE_CAPABILITIES: Final = ("topic",)
_LIFETIME: Final = "lifetime-policy"
_DYNAMIC_PREFIX: Final = "amq.dyn-"
# Longer container and link names are left out of generated names, which may be in every message (RabbitMQ).
_NAMES_MAX_CHARACTERS: Final = 150
_RANDOM_BYTES: Final = 16


def create(session: ClientSession, link: str, terminus: Source | Target) -> Queue:
    """Create a dynamic node (§3.5.9): a queue with a generated name, with the lifetime policy that `terminus` asks for.

    Without one, the queue is deleted with the link, and is exclusive unless it is durable (RabbitMQ). Sets the address
    and the properties of `terminus`. Raises NotImplementedHere for an unknown policy, InvalidField for one that is not
    described, AccessRefused without permission.
    """
    policy = _policy(terminus.dynamic_node_properties.get(_LIFETIME))
    container = session.connection.container
    shown = f"{container}-{link}-" if len(container) + len(link) < _NAMES_MAX_CHARACTERS else ""
    name = _DYNAMIC_PREFIX + shown + _random(session)
    session.rights.check(CONFIGURE, "queue", name)
    arguments: Table = {LIFETIME: policy or ON_CLOSE}
    durable = terminus.durable != 0
    exclusive = policy == "" and not durable
    queue = session.vhost.declare_queue(name, durable, exclusive, False, arguments, session.connection, True)
    terminus.dynamic_node_properties = {
        _LIFETIME: Described(ULong(CODES[f"amqp:{policy or ON_CLOSE}:list"]), []),
        "supported-dist-modes": Array("symbol", [Symbol(MOVE), Symbol(COPY)]),
    }
    terminus.address = queue_address(name)
    return queue


def is_volatile(source: Source, is_settled: bool) -> bool:
    """Whether a dynamic source asks for a reply address, whose messages go directly to the link (RabbitMQ)."""
    return (
        VOLATILE in source.capabilities
        and is_settled
        and source.durable == 0
        and source.timeout == 0
        and source.expiry_policy == EXPIRE_LINK_DETACH
    )


def reply_address(session: ClientSession, source: Source) -> Queue:
    """Create the reply address of a link (direct reply-to). It needs no permission, and is deleted with the link."""
    queue = session.vhost.make_reply_queue(REPLY_PREFIX + _random(session))
    source.dynamic_node_properties = {
        _LIFETIME: Described(ULong(CODES[f"amqp:{ON_CLOSE}:list"]), []),
        "supported-dist-modes": Array("symbol", [Symbol(MOVE)]),
    }
    source.distribution_mode = MOVE
    source.address = queue_address(queue.name)
    return queue


def check_dynamic(terminus: Source | Target) -> None:
    """Check the fields for dynamic nodes.

    Raises InvalidField for an address together with `dynamic`, for node properties without `dynamic`, and for
    supported-dist-modes that are not symbols.
    """
    if terminus.dynamic and terminus.address is not None:
        raise InvalidField("a dynamic node has the address that it is given: none can be asked for", SCOPE_LINK)
    if not terminus.dynamic and terminus.dynamic_node_properties:
        raise InvalidField("dynamic-node-properties are for dynamic nodes", SCOPE_LINK)
    modes = terminus.dynamic_node_properties.get("supported-dist-modes")
    listed = modes.items if isinstance(modes, Array) else [] if modes is None else [modes]
    if not all(isinstance(mode, Symbol) for mode in listed):
        raise InvalidField("supported-dist-modes are symbols", SCOPE_LINK)


def capabilities(wanted: list[str], is_queue: bool) -> list[str]:
    """Those of the `wanted` capabilities that a queue, or else an exchange, has."""
    known = _QUEUE_CAPABILITIES if is_queue else _EXCHANGE_CAPABILITIES
    return [name for name in wanted if name in known]


def _policy(wanted: object) -> str:
    """The name of a lifetime policy; empty for None. Raises InvalidField or NotImplementedHere."""
    if wanted is None:
        return ""
    name: str | None = None
    if isinstance(wanted, LifetimePolicy):
        name = wanted.type_name
    elif isinstance(wanted, Described):
        descriptor = wanted.descriptor
        symbol = SYMBOLS.get(descriptor.value, "") if isinstance(descriptor, ULong) else str(descriptor)
        name = symbol.removeprefix("amqp:").removesuffix(":list")
    else:
        raise InvalidField("a lifetime-policy is a described type", SCOPE_LINK)
    if name not in LIFETIME_POLICIES:
        raise NotImplementedHere(f"lifetime-policy {wanted!r:.100} is none of {', '.join(LIFETIME_POLICIES)}")
    return name


def declare(session: ClientSession, name: str) -> Queue:
    """Declare the durable queue that an address names. Raises AccessRefused without permission."""
    session.rights.check(CONFIGURE, "queue", name)
    return session.vhost.declare_queue(name, True, False, False, {}, session.connection)


def auto_create(session: ClientSession, name: str) -> None:
    """Create the queue or exchange of a plain name if a policy says so. Raises AccessRefused without permission."""
    vhost = session.vhost
    kind = vhost.policies.auto_create(name, (ANY_QUEUE, *QUEUE_KINDS))
    if kind:
        session.rights.check(CONFIGURE, "queue", name)
        arguments: Table = {} if kind == ANY_QUEUE else {"x-queue-type": kind}
        vhost.declare_queue(name, True, False, False, arguments, session.connection)
        return
    kind = vhost.policies.auto_create(name, EXCHANGE_TYPES)
    if kind:
        session.rights.check(CONFIGURE, "exchange", name)
        vhost.exchanges.declare(name, kind, True, False, False, {})


def bound(session: ClientSession, exchange: str, routing_key: str) -> Queue:
    """Declare an exclusive queue that is bound to an exchange (RabbitMQ's first form of addresses).

    Raises NotFound if there is no such exchange, AccessRefused without permission.
    """
    name = f"amq.gen-{_random(session)}"
    rights = session.rights
    rights.check(CONFIGURE, "queue", name)
    rights.check(WRITE, "queue", name)
    rights.check(READ, "exchange", exchange)
    found = session.vhost.router.exchange(exchange)
    if found.type == "topic":
        rights.check_topic(READ, exchange, routing_key)
    queue = session.vhost.declare_queue(name, False, True, True, {}, session.connection, True)
    session.vhost.exchanges.bind_queue(queue, exchange, routing_key, {})
    return queue


def _random(session: ClientSession) -> str:
    return urlsafe_b64encode(session.gateway.random_bytes(_RANDOM_BYTES)).decode().rstrip("=")
