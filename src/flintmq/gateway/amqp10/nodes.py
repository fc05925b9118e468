"""Nodes that are made because a link asks for them: dynamic ones, and queues that are not there yet."""

from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Final

from flintmq.base.errors import SCOPE_LINK, InvalidField, NotImplementedHere
from flintmq.broker.access.permission import CONFIGURE, READ, WRITE
from flintmq.broker.arguments import LIFETIME, LIFETIME_POLICIES, ON_CLOSE, QUEUE_KINDS
from flintmq.broker.exchange.types import EXCHANGE_TYPES
from flintmq.broker.message import Table
from flintmq.broker.policy.policies import ANY_QUEUE
from flintmq.broker.queue.base import Queue
from flintmq.gateway.amqp091.publish_options import REPLY_PREFIX
from flintmq.gateway.amqp10.addresses import queue_address
from flintmq.wire.amqp10.spec import CODES, COPY, EXPIRE_LINK_DETACH, MOVE, SYMBOLS
from flintmq.wire.amqp10.termini import LifetimePolicy, Source, Target
from flintmq.wire.amqp10.values import Array, Described, Symbol, ULong

if TYPE_CHECKING:
    from flintmq.gateway.amqp10.session import ServerSession

# How sources say which filters they know (part 3 §3.5.8).
FILTERS: Final = ("APACHE.ORG:SELECTOR", "APACHE.ORG:NO_LOCAL")
# What JMS clients and RabbitMQ's call these nodes.
_QUEUE_CAPABILITIES: Final = ("queue", "temporary-queue")
# The capability by which a source is asked for that is no queue, but an address for answers (direct reply-to).
VOLATILE: Final = "rabbitmq:volatile-queue"
_EXCHANGE_CAPABILITIES: Final = ("topic",)
_LIFETIME: Final = "lifetime-policy"
_DYNAMIC_PREFIX: Final = "amq.dyn-"
# Longer ones are left out of generated names, which may be in every message (RabbitMQ).
_NAMES_MAX_CHARACTERS: Final = 150
_RANDOM_BYTES: Final = 16


def create(session: "ServerSession", link: str, terminus: Source | Target) -> Queue:
    """A dynamic node: a queue with a name that tells whose it is, and with the lifetime that is asked for (§3.5.9).

    Where none is asked for it is the connection's own, and goes with the link (RabbitMQ). Raises NotImplementedHere.
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
    """Whether a dynamic source is an address for answers, which go straight to the link (RabbitMQ)."""
    return (
        VOLATILE in source.capabilities
        and is_settled
        and source.durable == 0
        and source.timeout == 0
        and source.expiry_policy == EXPIRE_LINK_DETACH
    )


def reply_address(session: "ServerSession", source: Source) -> Queue:
    """Where answers to this link go, as to a channel of AMQP 0-9-1; it needs no permission, and ends with the link."""
    queue = session.vhost.make_reply_queue(REPLY_PREFIX + _random(session))
    source.dynamic_node_properties = {
        _LIFETIME: Described(ULong(CODES[f"amqp:{ON_CLOSE}:list"]), []),
        "supported-dist-modes": Array("symbol", [Symbol(MOVE)]),
    }
    source.distribution_mode = MOVE
    source.address = queue_address(queue.name)
    return queue


def check_dynamic(terminus: Source | Target) -> None:
    """Raises InvalidField for who asks for a node and names one, or says what one shall be and asks for none."""
    if terminus.dynamic and terminus.address is not None:
        raise InvalidField("a dynamic node has the address that it is given: none can be asked for", SCOPE_LINK)
    if not terminus.dynamic and terminus.dynamic_node_properties:
        raise InvalidField("dynamic-node-properties are for dynamic nodes", SCOPE_LINK)
    modes = terminus.dynamic_node_properties.get("supported-dist-modes")
    listed = modes.items if isinstance(modes, Array) else [] if modes is None else [modes]
    if not all(isinstance(mode, Symbol) for mode in listed):
        raise InvalidField("supported-dist-modes are symbols", SCOPE_LINK)


def capabilities(wanted: list[str], is_queue: bool) -> list[str]:
    """Which of the capabilities that a terminus was asked for it has."""
    known = _QUEUE_CAPABILITIES if is_queue else _EXCHANGE_CAPABILITIES
    return [name for name in wanted if name in known]


def _policy(wanted: object) -> str:
    """The name of a lifetime policy; empty where there is none."""
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


def declare(session: "ServerSession", name: str) -> Queue:
    """A queue that an address asks for, and nothing else."""
    session.rights.check(CONFIGURE, "queue", name)
    return session.vhost.declare_queue(name, True, False, False, {}, session.connection)


def auto_create(session: "ServerSession", name: str) -> None:
    """Make a node that is asked for by no more than its name, where a policy says that this makes one."""
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


def bound(session: "ServerSession", exchange: str, routing_key: str) -> Queue:
    """A queue of this connection's own that gets what an exchange has for a key (RabbitMQ's first form)."""
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


def _random(session: "ServerSession") -> str:
    return urlsafe_b64encode(session.gateway.random_bytes(_RANDOM_BYTES)).decode().rstrip("=")
