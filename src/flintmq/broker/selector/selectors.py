"""Selectors: conditions on messages that consumers and bindings set by their argument x-selector, as in JMS.

`expressions.py` has the meaning, `grammar.py` the language; docs/selectors.md says both to users.
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

# What it costs to ask a selector, and what so many of its expressions; long values and headers cost more where they are
# read.
_ASKING_UNITS: Final = 4
_EXPRESSIONS_PER_UNIT: Final = 8


@final
class Selector(Filter):
    """A parsed selector, which any number of consumers and bindings share."""

    def __init__(self, text: str, condition: Expression) -> None:
        self.text = text
        self.cost: i64 = _ASKING_UNITS + condition.size // _EXPRESSIONS_PER_UNIT
        self._condition = condition

    def matches(self, message: Message) -> bool:
        """Whether the condition is true of a message; what is unknown is not."""
        WORK.spent += self.cost
        return self._condition.value(message) is True


@final
class Parsed:
    """Selectors by their texts, those that were asked for last."""

    def __init__(self, entries_max: i64, parse: Callable[[str], Selector] | None = None) -> None:
        self._entries_max: i64 = entries_max
        self._parse = parse or _parse
        # The one that was asked for last stands last.
        self._known: dict[str, Selector] = {}

    def get(self, text: str) -> Selector:
        """Raises PreconditionFailed for a text that is no selector."""
        known = self._known.pop(text, None)
        if known is None:
            known = self._parse(text)
            if len(self._known) >= self._entries_max:
                del self._known[next(iter(self._known))]
        self._known[text] = known
        return known


def _parse(text: str) -> Selector:
    if len(text) > SELECTOR_MAX_CHARACTERS:
        raise PreconditionFailed(f"{len(text)} characters are more than {SELECTOR_MAX_CHARACTERS}")
    # Loading the parser takes a tenth of a second, and few brokers ever see a selector.
    from flintmq.broker.selector.grammar import parse  # noqa: PLC0415

    return Selector(text, parse(text))


def _parse_sql(text: str) -> Selector:
    from flintmq.broker.selector.sql import parse_sql  # noqa: PLC0415

    return Selector(text, parse_sql(text))


_PARSED: Final = Parsed(SELECTOR_CACHE_ENTRIES)
_PARSED_SQL: Final = Parsed(SELECTOR_CACHE_ENTRIES, _parse_sql)


def parsed(text: str) -> Selector:
    """The selector of this text. Raises PreconditionFailed for one that is none."""
    return _PARSED.get(text)


def parsed_sql(text: str) -> Selector:
    """The SQL expression of this text, as filters of AMQP 1.0 have them. Raises PreconditionFailed."""
    return _PARSED_SQL.get(text)


def selector_of(arguments: Table, where: str) -> Selector | None:
    """The selector among arguments; None where there is none, or an empty one, which lets everything through.

    `where` tells in errors whose arguments these are. Raises PreconditionFailed.
    """
    text = arguments.get(ARGUMENT)
    if text is None:
        return None
    if not isinstance(text, str):
        raise PreconditionFailed(f"invalid arg '{ARGUMENT}' for {where}: {{unacceptable_type,{type_name(text)}}}")
    if not text.strip():
        return None
    try:
        return _PARSED.get(text)
    except PreconditionFailed as error:
        raise PreconditionFailed(f"invalid arg '{ARGUMENT}' for {where}: {error.text}") from None


@final
class _Nothing(Filter):
    """In place of a selector that cannot be read: a message that stays away is easier to find than a wrong one."""

    def matches(self, message: Message) -> bool:
        return False


NOTHING: Final = _Nothing()
