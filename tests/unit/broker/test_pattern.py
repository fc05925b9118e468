"""Patterns of names: found anywhere, in linear time, with exceptions at the beginning."""

import time

import pytest

from flintmq.base.errors import ConfigurationError
from flintmq.broker.pattern import PATTERN_MAX_CHARACTERS, Pattern, literal


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("", ["", "a"], []),
        ("^$", [""], ["a"]),
        (".*", ["", "a\u00e9"], []),
        ("orders", ["orders", "my-orders-2"], ["order"]),
        ("^orders", ["orders-2"], ["my-orders"]),
        ("^(a|b)\\.", ["a.x", "b."], ["c.x", "ab"]),
        ("(?i)^prod", ["PROD-1"], ["xprod"]),
        ("^(?!amq\\.).*", ["orders", "", "xamq."], ["amq.gen-1", "amq."]),
        ("^(?!amq\\.|dev-).*-q$", ["a-q"], ["amq.a-q", "dev-a-q", "a-x"]),
        ("^(?!a)(?!b)(?=.*z)", ["cz"], ["az", "bz", "c"]),
        ("^(?![(]|\\)|[]x])a?", ["a", "b"], ["(", ")", "]", "x"]),
        ("^(?!a(b(c)))(x|y)?", ["anything", "ab"], ["abc"]),
        ("{username}", ["{username}"], ["u"]),
    ],
)
def test_what_matches(pattern: str, matching: list[str], others: list[str]) -> None:
    """A pattern matches anywhere unless it is anchored, as in RabbitMQ; what follows ^(?! must not come."""
    compiled = Pattern(pattern)
    assert [name for name in matching if not compiled.matches(name)] == []
    assert [name for name in others if compiled.matches(name)] == []


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "*", "a(?!b)", "(a)\\1", "^(?!a", "^(?!a)b|c", "(?!a)b", "\udc80"])
def test_what_is_no_pattern(pattern: str) -> None:
    """It is refused with words, and so is what would need backtracking."""
    with pytest.raises(ConfigurationError, match="is not a valid pattern"):
        Pattern(pattern)


def test_a_pattern_has_a_length() -> None:
    """As long as RabbitMQ's, and no longer."""
    assert Pattern("a" * PATTERN_MAX_CHARACTERS).matches("a" * PATTERN_MAX_CHARACTERS)
    with pytest.raises(ConfigurationError, match="1024 are allowed"):
        Pattern("a" * (PATTERN_MAX_CHARACTERS + 1))


def test_a_name_cannot_stop_the_broker() -> None:
    """What a backtracking engine would not finish in a lifetime takes no time."""
    pattern = Pattern("^(a+)+$|^(?:a|aa|aaa)*$")
    started = time.process_time()
    assert not pattern.matches("a" * 254 + "b")
    assert time.process_time() - started < 1


def test_a_name_that_is_no_text() -> None:
    """It matches nothing, and breaks nothing."""
    assert not Pattern(".*").matches("\udc80")


@pytest.mark.parametrize("text", ["a.b", "^$", "(", "\u00e9{-}", "a|b"])
def test_literal(text: str) -> None:
    """A literal matches its text, and nothing that the text would mean as a pattern."""
    pattern = Pattern(f"^{literal(text)}$")
    assert pattern.matches(text)
    assert not pattern.matches("axb")
