"""The exchange types there are, by the names clients declare them with."""

from typing import Final

from flintmq.base.errors import CommandInvalid
from flintmq.broker.exchange.base import Exchange
from flintmq.broker.exchange.direct import DirectExchange
from flintmq.broker.exchange.fanout import FanoutExchange
from flintmq.broker.exchange.headers import HeadersExchange
from flintmq.broker.exchange.topic import TopicExchange
from flintmq.broker.message import Table

EXCHANGE_TYPES: Final[dict[str, type[Exchange]]] = {
    "direct": DirectExchange,
    "fanout": FanoutExchange,
    "topic": TopicExchange,
    "headers": HeadersExchange,
}


def check_type(kind: str) -> None:
    """Raises CommandInvalid for a type nobody knows (amqp-0-9-1 exchange.declare.type)."""
    if kind not in EXCHANGE_TYPES:
        raise CommandInvalid(f"unknown exchange type '{kind}'")


def make_exchange(
    vhost: str, name: str, kind: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
) -> Exchange:
    """An exchange of a type that `check_type` has passed."""
    return EXCHANGE_TYPES[kind](vhost, name, durable, auto_delete, internal, arguments)
