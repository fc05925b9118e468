"""headers: routes by message headers and ignores the routing key.

amqp-0-9-1 §3.1.3.4, with RabbitMQ's any-with-x and all-with-x. Arguments that begin with "x-" are compared with these
two only. An argument without a value asks for the presence of the header. A binding without arguments to compare
matches with "all", and does not match with "any".
"""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import PreconditionFailed
from flintmq.base.values import TypedInt
from flintmq.base.work import WORK
from flintmq.broker.arguments import type_name
from flintmq.broker.exchange.base import Binding, Exchange
from flintmq.broker.fields import headers_of
from flintmq.broker.message import Message, Table

# Arguments that control the comparison and are not compared themselves.
_OWN: Final = ("x-match", "x-selector")
# Values that are compared in one unit of work, with as many bytes of text each.
_COMPARED_PER_UNIT: Final = 8
_TEXT_PER_VALUE: Final = 256
_MATCHES: Final = ("all", "any", "all-with-x", "any-with-x")


@final
class _Condition:
    """The parsed arguments of one binding."""

    def __init__(self, arguments: Table) -> None:
        match = arguments.get("x-match", "all")
        with_x = match == "all-with-x" or match == "any-with-x"
        self.any = match == "any" or match == "any-with-x"
        self.wanted = [
            (name, value)
            for name, value in arguments.items()
            if name not in _OWN and (with_x or not name.startswith("x-"))
        ]
        size: i64 = 0
        for _, value in self.wanted:
            size += 1 if not isinstance(value, (dict, list, str, bytes)) else 1 + _size(value)
        self.cost: i64 = 1 + size // _COMPARED_PER_UNIT

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
        self.compares_all = True
        self._conditions: dict[Binding, _Condition] = {}
        # The cost of matching all bindings.
        self._cost: i64 = 0

    def check_binding(self, binding: Binding) -> None:
        match = binding.arguments.get("x-match", "all")
        if not isinstance(match, str):
            raise PreconditionFailed(f"Invalid x-match field type {type_name(match)} (value {match}); expected longstr")
        if match not in _MATCHES:
            raise PreconditionFailed(
                f'Invalid x-match field value <<"{match}">>; expected all, any, all-with-x, or any-with-x'
            )

    def add(self, binding: Binding) -> None:
        condition = _Condition(binding.arguments)
        self._conditions[binding] = condition
        self._cost += condition.cost

    def remove(self, binding: Binding) -> None:
        self._cost -= self._conditions.pop(binding).cost

    def match_cost(self, binding: Binding) -> i64:
        cost = _Condition(binding.arguments).cost
        return cost if binding.filter is None else cost + 1 + binding.filter.cost

    def match(self, keys: list[str], message: Message | None) -> list[Binding]:
        assert message is not None
        if not self._conditions:
            return []
        headers = headers_of(message)
        WORK.spent += self._cost
        return [binding for binding, condition in self._conditions.items() if condition.holds(headers)]


def _size(value: object) -> int:
    """Return the number of values within a value; a text counts by its length."""
    if isinstance(value, dict):
        return sum([1 + _size(each) for each in value.values()])
    if isinstance(value, list):
        return sum([1 + _size(each) for each in value])
    return len(value) // _TEXT_PER_VALUE if isinstance(value, (str, bytes)) else 0


def same(left: object, right: object) -> bool:
    """Whether values are equal in value and type: Python's True equals 1 and 1.0, AMQP's does not.

    Integers of all widths are one type.
    """
    if _is_number(left):
        return _is_number(right) and left == right
    if isinstance(left, dict):
        if not isinstance(right, dict) or left.keys() != right.keys():
            return False
        return all(same(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        if not isinstance(right, list) or len(left) != len(right):
            return False
        return all(same(mine, theirs) for mine, theirs in zip(left, right, strict=True))
    return type(left) is type(right) and left == right


def _is_number(value: object) -> bool:
    # Arguments keep the integer types that they had on the wire, headers do not.
    return type(value) is int or isinstance(value, TypedInt)
