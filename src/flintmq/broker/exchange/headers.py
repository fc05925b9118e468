"""headers: by the values of message headers, where the routing key says nothing.

amqp-0-9-1 §3.1.3.4, with RabbitMQ's any-with-x and all-with-x. Arguments that begin with "x-" are not compared, unless
the match is one of these two; an argument without value asks for the header's presence alone.
"""

from typing import Final, final

from flintmq.base.errors import PreconditionFailed
from flintmq.broker.exchange.base import Binding, Exchange
from flintmq.broker.message import Message, Table
from flintmq.broker.queue.base import Queue

_MATCHES: Final = ("all", "any", "all-with-x", "any-with-x")


@final
class HeadersExchange(Exchange):
    type = "headers"
    reads_headers = True

    def check(self, routing_key: str, arguments: Table) -> None:
        match = arguments.get("x-match", "all")
        if match not in _MATCHES:
            raise PreconditionFailed(
                f"Invalid x-match field value {match!r}; expected all, any, all-with-x, or any-with-x"
            )

    def add(self, binding: Binding) -> None:
        """The bindings themselves are all there is to know."""

    def remove(self, binding: Binding) -> None:
        """As for `add`."""

    def route(self, routing_key: str, message: Message | None) -> list[Queue]:
        assert message is not None
        if not self.bindings:
            return []
        headers = message.codec.headers(message.properties)
        return list(dict.fromkeys([b.queue for b in self.bindings.values() if _matches(b.arguments, headers)]))


def _matches(arguments: Table, headers: Table) -> bool:
    match = arguments.get("x-match", "all")
    with_x = match == "all-with-x" or match == "any-with-x"
    wanted = [
        (name, value)
        for name, value in arguments.items()
        if name != "x-match" and (with_x or not name.startswith("x-"))
    ]
    if match == "all" or match == "all-with-x":
        return all(_agrees(name, value, headers) for name, value in wanted)
    return any(_agrees(name, value, headers) for name, value in wanted)


def _agrees(name: str, value: object, headers: Table) -> bool:
    return name in headers and (value is None or headers[name] == value)
