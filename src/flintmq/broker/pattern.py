"""Patterns of names in permissions and policies, matched in linear time.

A pattern matches anywhere in a name unless it has `^` and `$`. Names come from clients, so a pattern on which a
backtracking engine spends seconds would let clients stop the broker: RE2 has no such patterns. RE2 lacks lookaheads,
which administrators use at the beginning, as in `^(?!amq)`: they are removed here and matched separately.
"""

from typing import Final, final

import re2

from flintmq.base.errors import ConfigurationError

# RabbitMQ's limit.
PATTERN_MAX_CHARACTERS: Final = 1_024

_OPTIONS: Final = re2.Options()
# RE2 would otherwise write to standard error.
_OPTIONS.log_errors = False


@final
class Pattern:
    """A compiled pattern. Raises ConfigurationError if the text is no valid pattern or asks for unbounded work."""

    def __init__(self, text: str, ignoring_case: bool = False) -> None:
        self.text = text
        if len(text) > PATTERN_MAX_CHARACTERS:
            raise ConfigurationError(
                f"the pattern has {len(text)} characters, at most {PATTERN_MAX_CHARACTERS} are allowed"
            )
        rest, conditions = _conditions(text)
        case = "(?i)" if ignoring_case else ""
        self._pattern = _compiled(case + rest, text)
        self._conditions = [(is_wanted, _compiled(case + condition, text)) for is_wanted, condition in conditions]

    def matches(self, name: str) -> bool:
        try:
            for is_wanted, condition in self._conditions:
                if (condition.search(name) is not None) != is_wanted:
                    return False
            return self._pattern.search(name) is not None
        except UnicodeEncodeError:
            # A name that is not valid text matches no pattern.
            return False


def literal(text: str) -> str:
    """Return a pattern that matches this text only."""
    return str(re2.escape(text))


def _compiled(pattern: str, whole: str) -> "re2._Regexp":
    try:
        return re2.compile(pattern, _OPTIONS)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0] if isinstance(error, re2.error) else error
        said = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ConfigurationError(
            f"'{whole}' is not a valid pattern ({said}): lookaheads such as (?!...) are supported only behind a ^ at "
            "the beginning, and back references are not supported"
        ) from error


def _conditions(text: str) -> tuple[str, list[tuple[bool, str]]]:
    """Split off the lookaheads behind a pattern's `^`.

    Returns the rest, and for each: whether it is positive, its pattern.
    """
    if not text.startswith(("^(?!", "^(?=")):
        return text, []
    conditions: list[tuple[bool, str]] = []
    rest = text[1:]
    while rest.startswith(("(?!", "(?=")):
        end = _group_end(rest)
        if end < 0:
            return text, []
        conditions.append((rest[2] == "=", f"^(?:{rest[3:end]})"))
        rest = rest[end + 1 :]
    if _group_end(f"({rest})|") != len(rest) + 1 or _has_alternatives(rest):
        # In `^(?!a)b|c` the lookahead belongs to one alternative only.
        return text, []
    return f"^{rest}", conditions


def _group_end(text: str) -> int:
    """Return the position of the parenthesis that closes the one at the beginning, or -1."""
    depth = 0
    for at, character in _syntax(text):
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if depth == 0:
                return at
    return -1


def _has_alternatives(text: str) -> bool:
    depth = 0
    for _, character in _syntax(text):
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        elif character == "|" and depth == 0:
            return True
    return False


def _syntax(text: str) -> list[tuple[int, str]]:
    """Return characters that may be syntax, with their positions: none that is escaped or in a class."""
    found: list[tuple[int, str]] = []
    at = 0
    class_start = -1
    while at < len(text):
        character = text[at]
        if character == "\\":
            at += 2
            continue
        if class_start >= 0:
            # A bracket that comes first in a class is a member of the class.
            if character == "]" and at > class_start + 1 and text[class_start + 1 : at] != "^":
                class_start = -1
        elif character == "[":
            class_start = at
        else:
            found.append((at, character))
        at += 1
    return found
