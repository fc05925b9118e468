"""Selectors against a naive evaluator of their trees, and LIKE against a regular expression."""

import re
from collections.abc import Callable
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from flintmq.base.errors import PreconditionFailed
from flintmq.broker.message import Address, Message, Table
from flintmq.broker.selector.selectors import SelectorCache
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.wire.amqp091.properties import Properties, encode_properties

# A tree: an operator and its operands, or a literal's or field's text with the function that finds its value.
Reads = Callable[[Table], object]
Node = tuple[str, Reads]

FIELDS = ["a", "b", "c"]


def selects(text: str, headers: Table) -> bool:
    properties = encode_properties(Properties(headers=headers))
    message = Message(Address("", "q"), CODEC_091, properties, b"", CODEC_091.options(properties), 0)
    return SelectorCache(1).get(text).matches(message)


def number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def compare(operator: str, left: object, right: object) -> bool | None:
    """In a table: who is compared with whom, and how."""
    if left is None or right is None:
        return None
    alike = any(isinstance(left, kind) and isinstance(right, kind) for kind in (bool, str))
    if number(left) and number(right):
        assert isinstance(left, (int, float))
        assert isinstance(right, (int, float))
        return {
            "=": left == right,
            "<>": left != right,
            "<": left < right,
            "<=": left <= right,
            ">": left > right,
            ">=": left >= right,
        }[operator]
    return alike and {"=": left == right, "<>": left != right}.get(operator, False)


def compute(operator: str, left: object, right: object) -> object:
    if not number(left) or not number(right):
        return None
    assert isinstance(left, (int, float))
    assert isinstance(right, (int, float))
    if operator == "/" and right == 0:
        return None
    if operator == "/":
        both = isinstance(left, int) and isinstance(right, int)
        return int(left / right) if both else left / right
    return {"+": left + right, "-": left - right, "*": left * right}[operator]


def truth(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def conjoin(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def negate(value: bool | None) -> bool | None:
    return None if value is None else not value


def literal(value: object) -> Node:
    text = "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value).upper()
    return text, lambda _: value


def field(name: str) -> Node:
    return name, lambda headers: headers.get(name)


def join(operator: str, left: Node, right: Node, apply: Callable[[str, object, object], object]) -> Node:
    return f"({left[0]} {operator} {right[0]})", lambda headers: apply(operator, left[1](headers), right[1](headers))


def connect(operator: str, left: Node, right: Node) -> Node:
    def read(headers: Table) -> object:
        first, second = truth(left[1](headers)), truth(right[1](headers))
        if operator == "AND":
            return conjoin(first, second)
        return negate(conjoin(negate(first), negate(second)))

    return f"({left[0]} {operator} {right[0]})", read


def between(word: str, value: Node, low: Node, high: Node) -> Node:
    def read(headers: Table) -> object:
        found = [each[1](headers) for each in (value, low, high)]
        if word == "BETWEEN":
            return conjoin(compare(">=", found[0], found[1]), compare("<=", found[0], found[2]))
        below, above = compare("<", found[0], found[1]), compare(">", found[0], found[2])
        return negate(conjoin(negate(below), negate(above)))

    return f"({value[0]} {word} {low[0]} and {high[0]})", read


def member(name: str, members: list[object]) -> Node:
    def read(headers: Table) -> object:
        value = headers.get(name)
        return None if value is None else any(compare("=", value, each) is True for each in members)

    listed = ", ".join(literal(each)[0] for each in members)
    return f"{name} IN ({listed})", read


def opposite(node: Node) -> Node:
    return f"NOT {node[0]}", lambda headers: negate(truth(node[1](headers)))


names = st.sampled_from(FIELDS).map(field)
numbers = st.integers(-9, 9) | st.floats(-9, 9, width=16)
texts = st.text("ab'", max_size=2)
values = numbers | texts | st.booleans()
sums = st.recursive(
    names | st.integers(0, 9).map(literal) | st.sampled_from([0.5, 2.25]).map(literal),
    lambda below: st.builds(join, st.sampled_from("+-*/"), below, below, st.just(compute)),
    max_leaves=4,
)
orders = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
questions = (
    st.builds(join, orders, sums, sums, st.just(compare))
    | st.builds(join, st.sampled_from(["=", "<>"]), names, values.map(literal), st.just(compare))
    | st.builds(between, st.sampled_from(["BETWEEN", "NOT BETWEEN"]), sums, sums, sums)
    | st.builds(member, st.sampled_from(FIELDS), st.lists(numbers | texts, min_size=1, max_size=3))
    | names.map(lambda node: (f"{node[0]} IS NULL", lambda headers: node[1](headers) is None))
    | names
)
conditions = st.recursive(
    questions,
    lambda below: st.builds(connect, st.sampled_from(["AND", "OR"]), below, below) | below.map(opposite),
    max_leaves=6,
)


@given(conditions, st.dictionaries(st.sampled_from(FIELDS), values | st.none()))
def test_selects_what_the_model_does(condition: Node, headers: Table) -> None:
    """A selector is true of a message exactly where its tree is, and its opposite where that is false."""
    text, read = condition
    expected = truth(read(headers))
    assert selects(text, headers) == (expected is True)
    assert selects(f"NOT ({text})", headers) == (expected is False)


@given(st.lists(st.sampled_from(["a", "b", "%", "_", "!%", "!_", "!!"])), st.text("ab%_!\n"))
def test_like_is_a_regular_expression(symbols: list[str], value: str) -> None:
    """LIKE finds what a regular expression finds that says the same."""
    meaning = {"%": ".*", "_": "."}
    pattern = "".join(meaning.get(symbol, re.escape(symbol[-1])) for symbol in symbols)
    selector = "a LIKE '" + "".join(symbols) + "' ESCAPE '!'"
    assert selects(selector, {"a": value}) == (re.fullmatch(pattern, value, re.DOTALL) is not None)


@given(st.text("aX10'\"().,%_<>=+-*/! \n") | st.text(max_size=20))
def test_any_text_is_a_selector_or_refused(text: str) -> None:
    """Whatever a client sends, it is parsed or refused as 406, and never anything else."""
    with suppress(PreconditionFailed):
        selects(text, {"a": 1})
