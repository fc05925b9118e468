"""Removes line ends from names of queues and exchanges in methods about definitions, as RabbitMQ does."""

from typing import Final

from flintmq.wire.amqp091 import methods
from flintmq.wire.amqp091.methods import Method

_QUEUE: Final = ("queue",)
_EXCHANGE: Final = ("exchange",)
_NAMES: Final[dict[int, tuple[str, ...]]] = {
    methods.QUEUE_DECLARE: _QUEUE,
    methods.QUEUE_DELETE: _QUEUE,
    methods.QUEUE_BIND: ("queue", "exchange"),
    methods.QUEUE_UNBIND: ("queue", "exchange"),
    methods.EXCHANGE_DECLARE: _EXCHANGE,
    methods.EXCHANGE_DELETE: _EXCHANGE,
    methods.EXCHANGE_BIND: ("destination", "source"),
    methods.EXCHANGE_UNBIND: ("destination", "source"),
}


def strip_line_ends(method: Method) -> None:
    """Remove CR and LF from the names in a method. Publishing, consuming and purging use names as they are."""
    for attribute in _NAMES.get(method.id, ()):
        name = getattr(method, attribute)
        if "\n" in name or "\r" in name:
            setattr(method, attribute, name.replace("\n", "").replace("\r", ""))
