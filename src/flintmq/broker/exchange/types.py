"""All exchange types, by their names in declarations."""

from typing import Final

from flintmq.base.errors import PreconditionFailed
from flintmq.broker.exchange.base import Exchange
from flintmq.broker.exchange.consistent_hash import ConsistentHashExchange
from flintmq.broker.exchange.delayed import UNDERLYING_TYPE, DelayedExchange
from flintmq.broker.exchange.direct import DirectExchange
from flintmq.broker.exchange.fanout import FanoutExchange
from flintmq.broker.exchange.headers import HeadersExchange
from flintmq.broker.exchange.local_random import LocalRandomExchange
from flintmq.broker.exchange.modulus_hash import ModulusHashExchange
from flintmq.broker.exchange.random_pick import RandomExchange, RandomPickExchange
from flintmq.broker.exchange.random_source import RandomSource
from flintmq.broker.exchange.recent_history import RecentHistoryExchange
from flintmq.broker.exchange.topic import TopicExchange
from flintmq.broker.message import Table

_DELAYED: Final = "x-delayed-message"
# All types but x-delayed-message, which is made from one of these.
_TYPES: Final[dict[str, type[Exchange]]] = {
    "direct": DirectExchange,
    "fanout": FanoutExchange,
    "topic": TopicExchange,
    "headers": HeadersExchange,
    "x-consistent-hash": ConsistentHashExchange,
    "x-local-random": LocalRandomExchange,
    "x-modulus-hash": ModulusHashExchange,
    "x-random": RandomExchange,
    "x-recent-history": RecentHistoryExchange,
}
EXCHANGE_TYPES: Final = (*_TYPES, _DELAYED)


def check_type(kind: str) -> None:
    """Raises PreconditionFailed for an unknown type."""
    if kind not in EXCHANGE_TYPES:
        raise PreconditionFailed(f"unknown exchange type '{kind}'")


def make_exchange(
    vhost: str,
    name: str,
    kind: str,
    durable: bool,
    auto_delete: bool,
    internal: bool,
    arguments: Table,
    random_source: RandomSource,
) -> Exchange:
    """Create an exchange of a type that `check_type` accepted. Random types draw from `random_source`.

    Raises PreconditionFailed for a delayed exchange without a valid underlying type.
    """
    if kind != _DELAYED:
        made = _TYPES[kind](vhost, name, durable, auto_delete, internal, arguments)
        assert made.type == kind, f"the class of {kind} says that its type is '{made.type}'"
        if isinstance(made, RandomPickExchange):
            made.random_source = random_source
        return made
    underlying = arguments.get(UNDERLYING_TYPE)
    if not isinstance(underlying, str) or underlying == _DELAYED:
        raise PreconditionFailed(f"Invalid argument, '{UNDERLYING_TYPE}' must be an existing exchange type")
    check_type(underlying)
    inner = make_exchange(vhost, name, underlying, durable, auto_delete, internal, arguments, random_source)
    return DelayedExchange(vhost, name, durable, auto_delete, internal, arguments, inner)
