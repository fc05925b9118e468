"""Where each exchange type sends a message, and what a naive reading of the specification says of it."""

import time
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flintmq.base.errors import PreconditionFailed
from flintmq.base.values import Int8, Int16, Int32, Timestamp, UInt8, UInt16, UInt32
from flintmq.broker.exchange.base import Binding, Exchange
from flintmq.broker.exchange.direct import DirectExchange
from flintmq.broker.exchange.fanout import FanoutExchange
from flintmq.broker.exchange.headers import HeadersExchange, same
from flintmq.broker.exchange.topic import TopicExchange
from flintmq.broker.message import Table
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.tick import Tick
from tests.unit.broker.memory import MemoryJournal, message


def queue(name: str) -> Queue:
    return ClassicQueue(1, "/", name, "classic", False, False, None, {}, Tick(), MemoryJournal())


def make(kind: type[Exchange]) -> Exchange:
    return kind("/", "x", True, False, False, {})


def names(exchange: Exchange, key: str = "", headers: str = "") -> list[str]:
    return sorted({binding.destination.name for binding in exchange.match([key], message(headers=headers))})


def bound(kind: type[Exchange], *bindings: tuple[str, str, Table]) -> Exchange:
    exchange = make(kind)
    queues: dict[str, Queue] = {}
    for name, key, arguments in bindings:
        exchange.bind(Binding(exchange, queues.setdefault(name, queue(name)), key, arguments))
    return exchange


def test_direct_goes_by_the_exact_key() -> None:
    """Only bindings with the very key match, each queue once."""
    exchange = bound(
        DirectExchange, ("a", "k", {}), ("b", "k", {}), ("b", "k", {"x": 1}), ("c", "K", {}), ("d", "", {})
    )
    assert names(exchange, "k") == ["a", "b"]
    assert names(exchange, "") == ["d"]
    assert names(exchange, "other") == []


def test_fanout_goes_to_all() -> None:
    """Every bound queue gets the message once, whatever the key."""
    exchange = bound(FanoutExchange, ("a", "k", {}), ("a", "l", {}), ("b", "", {}))
    assert names(exchange, "anything") == ["a", "b"]


@pytest.mark.parametrize(
    ("pattern", "key", "matches"),
    [
        ("#", "", True),
        ("#", "a.b.c", True),
        ("*", "", False),
        ("", "", True),
        ("", "a", False),
        ("#.*", "", False),
        ("*.#", "", False),
        ("*", ".", False),
        ("*.*", ".", True),
        ("*", "a.b", False),
        ("a.*.c", "a.b.c", True),
        ("a.*.c", "a.c", False),
        ("a.#.c", "a.c", True),
        ("a.#.c", "a.b.b.c", True),
        ("a.#", "a", True),
        ("#.a.#", "b.a", True),
        ("#.#", "", True),
        ("*.#.*", "a", False),
        ("a.b", "a.b.", False),
        ("a", "*", False),
        ("*", "*", True),
        ("#", "#.#", True),
    ],
)
def test_topic_patterns(pattern: str, key: str, matches: bool) -> None:
    """`*` stands for one word, `#` for any number of them, in patterns only."""
    assert names(bound(TopicExchange, ("q", pattern, {})), key) == (["q"] if matches else [])


def naive_match(pattern: list[str], words: list[str]) -> bool:
    """By the definition, filling a table from the end: whether what is left of both matches."""
    ends = [[False] * (len(words) + 1) for _ in range(len(pattern) + 1)]
    for at in range(len(pattern), -1, -1):
        for word in range(len(words), -1, -1):
            if at == len(pattern):
                ends[at][word] = word == len(words)
            elif pattern[at] == "#":
                ends[at][word] = ends[at + 1][word] or (word < len(words) and ends[at][word + 1])
            elif word < len(words):
                # A word of a key that looks like a wildcard is an ordinary word, which only a wildcard matches.
                is_equal = pattern[at] == words[word] and words[word] not in ("*", "#")
                ends[at][word] = (pattern[at] == "*" or is_equal) and ends[at + 1][word + 1]
    return ends[0][0]


def is_written(words: list[str]) -> bool:
    """No word at all and one empty word are written in the same way, and mean the first."""
    return words != [""]


KEYS = st.lists(st.sampled_from(["a", "b", "", "*", "#"]), max_size=12).filter(is_written)
PATTERNS = st.lists(st.sampled_from(["a", "b", "", "*", "#", "#"]), max_size=12).filter(is_written)


@example([["#", "a", "#"], ["#", "a", "#", ""]], [], [["a"]])
@given(
    st.lists(PATTERNS, max_size=12), st.lists(st.integers(0, 11), max_size=6), st.lists(KEYS, min_size=1, max_size=5)
)
def test_topic_agrees_with_a_naive_matcher(
    patterns: list[list[str]], removed: list[int], keys: list[list[str]]
) -> None:
    """With any patterns bound, and some unbound again, the trees find what comparing one by one finds."""
    exchange = make(TopicExchange)
    bindings = [Binding(exchange, queue(str(at)), ".".join(pattern), {}) for at, pattern in enumerate(patterns)]
    for binding in bindings:
        assert exchange.bind(binding)
    for at in set(removed):
        if at < len(bindings):
            assert exchange.unbind(bindings[at]) is not None
    left = [at for at in range(len(patterns)) if at not in removed]
    for words in keys:
        expected = sorted(str(at) for at in left if naive_match(patterns[at], words))
        assert names(exchange, ".".join(words)) == expected
    for at in left:
        exchange.unbind(bindings[at])
    for words in keys:
        assert names(exchange, ".".join(words)) == []


def test_many_wildcards_do_not_multiply() -> None:
    """A pattern of many `#` against a long key is matched at once: the ways to match are not counted out."""
    pattern = ".".join(["#", "a"] * 60)
    exchange = bound(TopicExchange, ("q", pattern, {}))
    assert names(exchange, ".".join(["a"] * 120)) == ["q"]
    assert names(exchange, ".".join(["a"] * 59)) == []


def test_diverging_patterns_do_not_multiply() -> None:
    """Thousands of patterns that all stay possible along a long key are a matter of milliseconds."""
    exchange = make(TopicExchange)
    target = queue("q")
    for number in range(2**12):
        middle = ["a" if number & (1 << bit) else "*" for bit in range(12)]
        exchange.bind(Binding(exchange, target, ".".join(["#", "a", *middle, "b", "#"]), {}))
        exchange.bind(Binding(exchange, target, ".".join([*middle, "#", "a", "b", "#", "c"]), {}))
    started = time.process_time()
    assert names(exchange, ".".join(["a"] * 127)) == []
    assert names(exchange, ".".join(["a"] * 50 + ["b"] + ["a"] * 50 + ["c"])) == ["q"]
    # Thirty times what it takes interpreted: patterns one by one, or ways that are not merged, take minutes.
    assert time.process_time() - started < 3


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (".".join(["#", "a"] * 9), "9 words are #, at most 8 are allowed"),
        ("#." + "a." * 33 + "#.b", "33 words are between the first # and the last, at most 32 are allowed"),
    ],
)
def test_topic_limits(pattern: str, text: str) -> None:
    """A pattern that could only be meant to cost is refused with 406; neighbouring `#` count once."""
    exchange = make(TopicExchange)
    with pytest.raises(PreconditionFailed) as refused:
        exchange.check_binding(Binding(exchange, queue("q"), pattern, {}))
    assert refused.value.text == f"invalid binding key '{pattern}': {text}"
    exchange.check_binding(Binding(exchange, queue("q"), "#.#." * 9 + "a.#." * 7 + "*." * 60 + "b", {}))
    exchange.check_binding(Binding(exchange, queue("q"), "#." + "*." * 60 + "#", {}))


@pytest.mark.parametrize(
    ("arguments", "headers", "matches"),
    [
        ({"a": 1, "b": "x"}, "a=1;b=x;c=2", True),
        ({"a": 1, "b": "x"}, "a=1", False),
        ({"x-match": "all", "a": 1}, "a=2", False),
        ({"x-match": "any", "a": 1, "b": "x"}, "b=x", True),
        ({"x-match": "any", "a": 1, "b": "x"}, "c=1", False),
        ({"x-match": "any", "a": None}, "a=anything", True),
        ({}, "a=1", True),
        ({"x-match": "any"}, "a=1", False),
        ({"x-other": 1, "a": 1}, "a=1", True),
        ({"x-match": "all-with-x", "x-other": 1, "a": 1}, "a=1", False),
        ({"x-match": "any-with-x", "x-other": 1}, "x-other=1", True),
    ],
)
def test_headers(arguments: Table, headers: str, matches: bool) -> None:
    """All or any of the arguments agree with the headers; those that begin with x- count only where asked."""
    assert names(bound(HeadersExchange, ("q", "ignored", arguments)), "", headers) == (["q"] if matches else [])


def test_headers_compares_types() -> None:
    """True is not 1, and 1 is neither 1.0 nor "1", inside of tables and lists as well."""
    values: list[object] = [1, True, 1.0, "1", [1], [True], {"a": 1}, {"a": True}, Decimal(1), Timestamp(1), b"1"]
    for left in values:
        assert [right for right in values if same(left, right)] == [left], left
        assert [right is left for right in values if same(left, right)] == [True], left
    for width in (Int8, UInt8, Int16, UInt16, Int32, UInt32):
        assert [right for right in values if same(width(1), right)] == [1], width
        assert same(1, width(1))
        assert not same(width(2), 1)


@pytest.mark.parametrize(
    ("match", "text"),
    [
        ("some", 'Invalid x-match field value <<"some">>; expected all, any, all-with-x, or any-with-x'),
        (1, "Invalid x-match field type signedint (value 1); expected longstr"),
    ],
)
def test_headers_refuses_an_unknown_match(match: object, text: str) -> None:
    """A binding that could never mean anything is refused with 406, in RabbitMQ's words."""
    exchange = make(HeadersExchange)
    with pytest.raises(PreconditionFailed) as refused:
        exchange.check_binding(Binding(exchange, queue("q"), "", {"x-match": match}))
    assert refused.value.text == text


@pytest.mark.parametrize("kind", [DirectExchange, FanoutExchange, TopicExchange, HeadersExchange])
def test_binding_twice_is_one_binding(kind: type[Exchange]) -> None:
    """The same binding again changes nothing, and one unbind removes it."""
    exchange = make(kind)
    target = queue("q")
    assert exchange.bind(Binding(exchange, target, "k", {"a": 1, "b": None}))
    assert not exchange.bind(Binding(exchange, target, "k", {"b": None, "a": 1}))
    assert names(exchange, "k", "a=1;b=2") == ["q"]
    assert exchange.unbind(Binding(exchange, target, "k", {"a": True, "b": None})) is None
    assert exchange.unbind(Binding(exchange, target, "k", {"a": 1, "b": None})) is not None
    assert names(exchange, "k", "a=1;b=2") == []
