"""Expressions of SQL filters in AMQP 1.0 that differ from those of selectors (filtex 1.0 §6).

Strings are ordered, quotients have a fraction, and values are compared by their types in AMQP 1.0.
"""

from math import isfinite
from typing import Final, final

from flintmq.base.work import WORK
from flintmq.broker.fields import SectionField
from flintmq.broker.message import Message
from flintmq.broker.selector import expressions as ex
from flintmq.broker.selector.expressions import Expression

REMAINDER: Final = 4


@final
class Received(Expression):
    """UTC(): the time in ms at which the broker received the message, so that repeated evaluations agree."""

    def __init__(self) -> None:
        super().__init__(ex.NUMBER, 1)

    def value(self, message: Message) -> object:
        return int(message.timestamp_ms)


@final
class Priority(Expression):
    def __init__(self) -> None:
        super().__init__(ex.NUMBER, 1)

    def value(self, message: Message) -> object:
        priority = message.codec.section_value(message.properties, "priority")
        # amqp-1.0 part 3 §3.2.1: the priority is 4 if the header does not state one.
        return 4 if priority is None else priority


@final
class Property(Expression):
    """The value of a field of the properties section."""

    def __init__(self, field: SectionField) -> None:
        super().__init__(ex.ANY, 1)
        self._field = field

    def value(self, message: Message) -> object:
        return self._field.read(message)


@final
class Comparison(Expression):
    def __init__(self, operator: int, left: Expression, right: Expression) -> None:
        super().__init__(ex.BOOLEAN, left.size + right.size + 1)
        self._operator = operator
        self._left = left
        self._right = right

    def value(self, message: Message) -> object:
        left, right = self._left.value(message), self._right.value(message)
        operator = self._operator
        if left is None or right is None:
            return None
        if isinstance(left, (str, bytes)):
            WORK.spent += len(left) // ex.COMPARED_PER_UNIT
        if operator == ex.EQUAL:
            return _equal(left, right)
        if operator == ex.UNEQUAL:
            return not _equal(left, right)
        if isinstance(left, str) and isinstance(right, str):
            return _ordered(operator, left < right, left == right)
        if isinstance(left, bytes) and isinstance(right, bytes):
            return _ordered(operator, left < right, left == right)
        if _is_number(left) and _is_number(right):
            return ex.compared(operator, left, right)
        return False


@final
class Among(Expression):
    """IN, with any expressions as members."""

    def __init__(self, part: Expression, members: list[Expression]) -> None:
        size = part.size + 1
        for member in members:
            size += member.size
        super().__init__(ex.BOOLEAN, size)
        self._part = part
        self._members = members

    def value(self, message: Message) -> object:
        value = self._part.value(message)
        if value is None:
            return None
        if isinstance(value, (str, bytes)):
            WORK.spent += len(value) * len(self._members) // ex.COMPARED_PER_UNIT
        for member in self._members:
            found = member.value(message)
            if found is not None and _equal(value, found):
                return True
        return False


@final
class Signed(Expression):
    def __init__(self, part: Expression, negative: bool) -> None:
        super().__init__(ex.NUMBER, part.size + 1)
        self._part = part
        self._negative = negative

    def value(self, message: Message) -> object:
        value = self._part.value(message)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        return -value if self._negative else value


@final
class Arithmetic(Expression):
    """Terms joined by operators of one precedence, from left to right."""

    def __init__(self, first: Expression, rest: list[tuple[int, Expression]]) -> None:
        size = first.size
        for _, part in rest:
            size += part.size
        super().__init__(ex.NUMBER, size + 1)
        self._first = first
        self._rest = rest

    def value(self, message: Message) -> object:
        total = self._first.value(message)
        for operator, part in self._rest:
            total = _computed(operator, total, part.value(message))
            if total is None:
                return None
        return total


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _equal(left: object, right: object) -> bool:
    if _is_number(left) and _is_number(right):
        return left == right
    return type(left) is type(right) and isinstance(left, (str, bytes, bool)) and left == right


def _ordered(operator: int, is_less: bool, is_same: bool) -> bool:
    if operator == ex.LESS:
        return is_less
    if operator == ex.LESS_OR_EQUAL:
        return is_less or is_same
    return not is_less if operator == ex.GREATER_OR_EQUAL else not is_less and not is_same


def _computed(operator: int, left: object, right: object) -> object:
    """Compute with two numbers. Unknown if one is no number, for a division by zero, and out of range."""
    if isinstance(left, bool) or isinstance(right, bool):
        return None
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        return None
    if operator == ex.DIVIDE or operator == REMAINDER:
        if right == 0:
            return None
        if operator == REMAINDER:
            return _remainder(left, right)
        return _finite(float(left) / float(right))
    if isinstance(left, int) and isinstance(right, int):
        whole = left + right if operator == ex.ADD else left - right if operator == ex.SUBTRACT else left * right
        return whole if ex.INTEGER_MIN <= whole <= ex.INTEGER_MAX else None
    first, second = float(left), float(right)
    if operator == ex.ADD:
        return _finite(first + second)
    return _finite(first - second if operator == ex.SUBTRACT else first * second)


def _remainder(left: object, right: object) -> object:
    """Return the remainder, with the sign of the dividend; for integers only (RabbitMQ)."""
    if isinstance(left, int) and isinstance(right, int):
        rest = abs(left) % abs(right)
        return -rest if left < 0 else rest
    return None


def _finite(value: float) -> object:
    return value if isfinite(value) else None
