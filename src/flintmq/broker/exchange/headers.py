"""headers: by the values of message headers, where the routing key says nothing.

amqp-0-9-1 §3.1.3.4, with RabbitMQ's any-with-x and all-with-x. Arguments that begin with "x-" are not compared, unless
the match is one of these two; an argument without value asks for the header's presence alone. Where nothing is left to
compare, all of it agrees, and not any.
"""

from typing import Final, final

from flintmq.base.errors import PreconditionFailed
from flintmq.broker.arguments import type_name
from flintmq.broker.exchange.base import Binding, Exchange
from flintmq.broker.message import Message, Table

# Arguments that say how to compare, and are themselves not compared.
_OWN: Final = ("x-match", "x-selector")
_MATCHES: Final = ("all", "any", "all-with-x", "any-with-x")


@final
class _Condition:
    """A binding's arguments, taken apart once."""

    def __init__(self, arguments: Table) -> None:
        match = arguments.get("x-match", "all")
        with_x = match == "all-with-x" or match == "any-with-x"
        self.any = match == "any" or match == "any-with-x"
        self.wanted = [
            (name, value)
            for name, value in arguments.items()
            if name not in _OWN and (with_x or not name.startswith("x-"))
        ]

    def holds(self, headers: Table) -> bool:
        for name, value in self.wanted:
            agrees = name in headers and (value is None or same(value, headers[name]))
            if agrees == self.any:
                return agrees
        return not self.any


@final
class HeadersExchange(Exchange):
    type = "headers"
    per_message = True

    def __init__(
        self, vhost: str, name: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> None:
        super().__init__(vhost, name, durable, auto_delete, internal, arguments)
        self._conditions: dict[Binding, _Condition] = {}

    def check_binding(self, binding: Binding) -> None:
        match = binding.arguments.get("x-match", "all")
        if not isinstance(match, str):
            raise PreconditionFailed(f"Invalid x-match field type {type_name(match)} (value {match}); expected longstr")
        if match not in _MATCHES:
            raise PreconditionFailed(
                f'Invalid x-match field value <<"{match}">>; expected all, any, all-with-x, or any-with-x'
            )

    def add(self, binding: Binding) -> None:
        self._conditions[binding] = _Condition(binding.arguments)

    def remove(self, binding: Binding) -> None:
        del self._conditions[binding]

    def match(self, keys: list[str], message: Message | None) -> list[Binding]:
        assert message is not None
        if not self._conditions:
            return []
        headers = message.codec.headers(message.properties)
        return [binding for binding, condition in self._conditions.items() if condition.holds(headers)]


def same(left: object, right: object) -> bool:
    """Equal in value and in type: Python's true equals 1 and 1.0, AMQP's does not."""
    if isinstance(left, dict):
        if not isinstance(right, dict) or left.keys() != right.keys():
            return False
        return all(same(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        if not isinstance(right, list) or len(left) != len(right):
            return False
        return all(same(mine, theirs) for mine, theirs in zip(left, right, strict=True))
    return type(left) is type(right) and left == right
