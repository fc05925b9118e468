"""Expressions of a parsed selector, which have a value for each message (JMS 3.1 §3.8.1).

A value is a string, a number or a boolean; None means unknown, such as any condition on a missing field. Headers may
have other values (bytes, lists, tables): these are present, and equal to nothing. Nothing here raises: what cannot be
computed (too large, division by zero, a sum of strings) is unknown.
"""

from abc import abstractmethod
from decimal import Decimal
from math import isfinite
from typing import Final, final

from mypy_extensions import i64

from flintmq.base.values import Timestamp
from flintmq.base.work import WORK
from flintmq.broker.fields import Field
from flintmq.broker.message import Message

# The statically known types of an expression's value. A field's type is not known.
ANY: Final = 0
STRING: Final = 1
NUMBER: Final = 2
BOOLEAN: Final = 3

EQUAL: Final = 0
UNEQUAL: Final = 1
LESS: Final = 2
LESS_OR_EQUAL: Final = 3
GREATER: Final = 4
GREATER_OR_EQUAL: Final = 5

ADD: Final = 0
SUBTRACT: Final = 1
MULTIPLY: Final = 2
DIVIDE: Final = 3

# Characters that are compared in one unit of work.
COMPARED_PER_UNIT: Final = 4_096

INTEGER_MIN: Final = -(2**63)
INTEGER_MAX: Final = 2**63 - 1


class Expression:
    """An expression. `kind` is the type of its value if it is known. `size` is its number of sub-expressions."""

    def __init__(self, kind: int, size: i64) -> None:
        self.kind = kind
        self.size: i64 = size

    @abstractmethod
    def value(self, message: Message) -> object:
        """Return the expression's value for a message."""


@final
class Literal(Expression):
    def __init__(self, kind: int, constant: object) -> None:
        super().__init__(kind, 1)
        self.constant = constant

    def value(self, message: Message) -> object:
        return self.constant


@final
class Name(Expression):
    """The value of a message's field."""

    def __init__(self, field: Field) -> None:
        super().__init__(ANY, 1)
        self._field = field

    def value(self, message: Message) -> object:
        found = self._field.read(message)
        if isinstance(found, Decimal):
            return float(found)
        if isinstance(found, Timestamp):
            return found.seconds
        return found


@final
class Junction(Expression):
    """AND or OR.

    False decides AND, true decides OR. Otherwise the value is unknown if a part is unknown, else true for AND, false
    for OR.
    """

    def __init__(self, parts: list[Expression], decisive: bool) -> None:
        super().__init__(BOOLEAN, _size(parts))
        self._parts = parts
        self._decisive = decisive

    def value(self, message: Message) -> object:
        decisive = self._decisive
        is_known = True
        for part in self._parts:
            value = part.value(message)
            if not isinstance(value, bool):
                is_known = False
            elif value == decisive:
                return decisive
        return not decisive if is_known else None


@final
class Not(Expression):
    def __init__(self, part: Expression) -> None:
        super().__init__(BOOLEAN, part.size + 1)
        self._part = part

    def value(self, message: Message) -> object:
        value = self._part.value(message)
        if value is True:
            return False
        return True if value is False else None


@final
class Comparison(Expression):
    def __init__(self, operator: int, left: Expression, right: Expression) -> None:
        super().__init__(BOOLEAN, left.size + right.size + 1)
        self._operator = operator
        self._left = left
        self._right = right

    def value(self, message: Message) -> object:
        return compared(self._operator, self._left.value(message), self._right.value(message))


@final
class Between(Expression):
    """low <= value AND value <= high; with `is_outside`, value < low OR value > high."""

    def __init__(self, part: Expression, low: Expression, high: Expression, is_outside: bool) -> None:
        super().__init__(BOOLEAN, part.size + low.size + high.size + 1)
        self._part = part
        self._low = low
        self._high = high
        self._is_outside = is_outside

    def value(self, message: Message) -> object:
        value = self._part.value(message)
        from_low = compared(LESS if self._is_outside else GREATER_OR_EQUAL, value, self._low.value(message))
        to_high = compared(GREATER if self._is_outside else LESS_OR_EQUAL, value, self._high.value(message))
        if from_low is self._is_outside or to_high is self._is_outside:
            return self._is_outside
        return None if from_low is None or to_high is None else not self._is_outside


@final
class In(Expression):
    def __init__(self, part: Expression, members: list[object]) -> None:
        super().__init__(BOOLEAN, part.size + 1)
        self._part = part
        self._members = frozenset(members)

    def value(self, message: Message) -> object:
        value = self._part.value(message)
        if value is None:
            return None
        # True equals 1 in Python, but not in a selector.
        return isinstance(value, (str, int, float)) and not isinstance(value, bool) and value in self._members


@final
class IsNull(Expression):
    def __init__(self, part: Expression) -> None:
        super().__init__(BOOLEAN, part.size + 1)
        self._part = part

    def value(self, message: Message) -> object:
        return self._part.value(message) is None


@final
class Arithmetic(Expression):
    """Terms joined by operators of one precedence, from left to right."""

    def __init__(self, first: Expression, rest: list[tuple[int, Expression]]) -> None:
        super().__init__(NUMBER, first.size + _size([part for _, part in rest]))
        self._first = first
        self._rest = rest

    def value(self, message: Message) -> object:
        total = self._first.value(message)
        for operator, part in self._rest:
            total = _computed(operator, total, part.value(message))
            if total is None:
                return None
        return total


@final
class Negative(Expression):
    def __init__(self, part: Expression) -> None:
        super().__init__(NUMBER, part.size + 1)
        self._part = part

    def value(self, message: Message) -> object:
        return _computed(SUBTRACT, 0, self._part.value(message))


def _size(parts: list[Expression]) -> i64:
    total: i64 = 1
    for part in parts:
        total += part.size
    return total


def compared(operator: int, left: object, right: object) -> object:
    """Compare two values.

    Unknown if one of them is unknown; false for values of different types, whatever the operator.
    """
    if left is None or right is None:
        return None
    if isinstance(left, bool) or isinstance(right, bool):
        return isinstance(left, bool) and isinstance(right, bool) and _same(operator, left is right)
    if isinstance(left, str):
        WORK.spent += len(left) // COMPARED_PER_UNIT
        return isinstance(right, str) and _same(operator, left == right)
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        if operator == EQUAL:
            return left == right
        if operator == UNEQUAL:
            return left != right
        if operator == LESS:
            return left < right
        if operator == LESS_OR_EQUAL:
            return left <= right
        return left > right if operator == GREATER else left >= right
    return False


def _same(operator: int, is_same: bool) -> bool:
    """Apply = or <> to two values. Strings and booleans have no other comparison."""
    return is_same if operator == EQUAL else operator == UNEQUAL and not is_same


def _computed(operator: int, left: object, right: object) -> object:
    """Compute with two numbers. Integers stay integers, and their quotients are truncated (Java's arithmetic)."""
    if isinstance(left, bool) or isinstance(right, bool):
        return None
    if isinstance(left, int) and isinstance(right, int):
        if operator == DIVIDE and right == 0:
            return None
        whole = _whole(operator, left, right)
        return whole if INTEGER_MIN <= whole <= INTEGER_MAX else None
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        if operator == DIVIDE and right == 0:
            return None
        result = _real(operator, float(left), float(right))
        return result if isfinite(result) else None
    return None


def _whole(operator: int, left: int, right: int) -> int:
    if operator == ADD:
        return left + right
    if operator == SUBTRACT:
        return left - right
    if operator == MULTIPLY:
        return left * right
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _real(operator: int, left: float, right: float) -> float:
    if operator == ADD:
        return left + right
    if operator == SUBTRACT:
        return left - right
    return left * right if operator == MULTIPLY else left / right
