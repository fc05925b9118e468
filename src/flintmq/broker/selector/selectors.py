"""Selectors: conditions on messages in the argument x-selector of consumers and bindings, as in JMS.

`expressions.py` has the semantics, `grammar.py` the syntax; docs/selectors.md is for users.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import PreconditionFailed
from flintmq.base.limits import SELECTOR_CACHE_ENTRIES, SELECTOR_MAX_CHARACTERS
from flintmq.base.work import WORK
from flintmq.broker.arguments import type_name
from flintmq.broker.message import Message, Table
from flintmq.broker.selector.expressions import Expression
from flintmq.broker.selector.filter import Filter

ARGUMENT: Final = "x-selector"

# The cost of evaluating a selector, and the number of its expressions that cost as much again. Reading long values and
# headers is counted separately.
_ASKING_UNITS: Final = 4
_EXPRESSIONS_PER_UNIT: Final = 8


@final
class Selector(Filter):
    """A parsed selector, which consumers and bindings may share."""

    def __init__(self, text: str, condition: Expression) -> None:
        self.text = text
        self.cost: i64 = _ASKING_UNITS + condition.size // _EXPRESSIONS_PER_UNIT
        self._condition = condition

    def matches(self, message: Message) -> bool:
        """Whether the condition is true for a message. Unknown counts as not true."""
        WORK.spent += self.cost
        return self._condition.value(message) is True


@final
class SelectorCache:
    """A cache of parsed selectors by their texts."""

    def __init__(self, entries_max: i64, parse: Callable[[str], Selector] | None = None) -> None:
        self._entries_max: i64 = entries_max
        self._parse = parse or _parse
        # In the order of use, the latest last.
        self._known: dict[str, Selector] = {}

    def get(self, text: str) -> Selector:
        """Return the selector of a text. Raises PreconditionFailed if the text is no valid selector."""
        known = self._known.pop(text, None)
        if known is None:
            known = self._parse(text)
            if len(self._known) >= self._entries_max:
                del self._known[next(iter(self._known))]
        self._known[text] = known
        return known


def _parse(text: str) -> Selector:
    if len(text) > SELECTOR_MAX_CHARACTERS:
        raise PreconditionFailed(
            f"the selector has {len(text)} characters, at most {SELECTOR_MAX_CHARACTERS} are allowed"
        )
    # Loading the parser takes a tenth of a second, and few brokers ever get a selector.
    from flintmq.broker.selector.grammar import parse  # noqa: PLC0415

    return Selector(text, parse(text))


def _parse_sql(text: str) -> Selector:
    from flintmq.broker.selector.sql import parse_sql  # noqa: PLC0415

    return Selector(text, parse_sql(text))


_SELECTORS: Final = SelectorCache(SELECTOR_CACHE_ENTRIES)
_SQL_SELECTORS: Final = SelectorCache(SELECTOR_CACHE_ENTRIES, _parse_sql)


def parsed(text: str) -> Selector:
    """Return the selector of a text. Raises PreconditionFailed if the text is no valid selector."""
    return _SELECTORS.get(text)


def parsed_sql(text: str) -> Selector:
    """Return the filter of an SQL expression of AMQP 1.0. Raises PreconditionFailed if the expression is invalid."""
    return _SQL_SELECTORS.get(text)


def selector_of(arguments: Table, where: str) -> Selector | None:
    """Return the selector among arguments, or None if there is none or an empty one, which accepts every message.

    `where` names the arguments' owner in errors. Raises PreconditionFailed for an invalid selector.
    """
    text = arguments.get(ARGUMENT)
    if text is None:
        return None
    if not isinstance(text, str):
        raise PreconditionFailed(f"invalid arg '{ARGUMENT}' for {where}: {{unacceptable_type,{type_name(text)}}}")
    if not text.strip():
        return None
    try:
        return _SELECTORS.get(text)
    except PreconditionFailed as error:
        raise PreconditionFailed(f"invalid arg '{ARGUMENT}' for {where}: {error.text}") from None


@final
class _NeverMatches(Filter):
    """Matches no message, in place of an unreadable selector: a missing message is noticed sooner than a wrong one."""

    def matches(self, message: Message) -> bool:
        return False


NEVER_MATCHES: Final = _NeverMatches()
