"""LIKE: `%` matches any characters, `_` matches one.

A pattern is split at its `%`. The parts before the first and behind the last `%` are anchored. Each part in between is
searched from left to right and matched at its first occurrence, which leaves most of the value to the parts behind it.
The search therefore never goes back. Text is found by Python's search, whose worst case is added to the meter of work.
A part with `_` is found by an automaton with one bit per character (Baeza-Yates and Gonnet's Shift-And).
"""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.work import WORK
from flintmq.broker.message import Message
from flintmq.broker.selector.expressions import BOOLEAN, Expression

# Characters that Python's search passes in one unit of work.
_FOUND_PER_UNIT: Final = 512
# The search may cost the product of both lengths if the value is shorter than the first number, or if the pattern has
# at least the second number of characters and the value is shorter than the third (CPython,
# Objects/stringlib/fastsearch.h).
_SHORT_VALUE: Final = 2_500
_LONG_PART: Final = 100
_LONG_VALUE: Final = 30_000
# Steps of the automaton in one unit of work: characters, and bits beyond those of a machine word.
_STEPS_PER_UNIT: Final = 16
_WORD_BITS: Final = 60
_BITS_PER_STEP: Final = 64


@final
class _Part:
    """The pattern between two `%`: literal `runs` by their places among `size` characters.

    The other characters match any.
    """

    def __init__(self, symbols: list[str | None]) -> None:
        self.size: i64 = len(symbols)
        self.runs: list[tuple[int, str]] = []
        run = ""
        for at, symbol in enumerate(symbols):
            if symbol is not None:
                run += symbol
            elif run:
                self.runs.append((at - len(run), run))
                run = ""
        if run:
            self.runs.append((len(symbols) - len(run), run))
        # The automaton's masks, for a part that has text on both sides of a `_`.
        self._any_one = 0
        self._of_character: dict[str, int] = {}
        if len(self.runs) > 1:
            first, last = self.runs[0], self.runs[-1]
            of_character: dict[str, int] = {}
            for bit, symbol in enumerate(symbols[first[0] : last[0] + len(last[1])]):
                if symbol is None:
                    self._any_one |= 1 << bit
                else:
                    of_character[symbol] = of_character.get(symbol, 0) | 1 << bit
            self._of_character = {character: bits | self._any_one for character, bits in of_character.items()}

    def stands_at(self, text: str, at: i64) -> bool:
        """Whether the part matches at `at`. The text must be long enough for it."""
        return all(text.startswith(run, int(at) + place) for place, run in self.runs)

    def find(self, text: str, start: i64, end: i64) -> i64:
        """Return the end of the first match between `start` and `end`, or -1."""
        if not self.runs:
            return start + self.size if start + self.size <= end else -1
        place, run = self.runs[0]
        found: i64 = text.find(run, int(start) + place, int(end))
        _searched(end - start if found < 0 else found - start, len(run))
        if found < 0:
            return -1
        if len(self.runs) == 1:
            stop = found - place + self.size
            return stop if stop <= end else -1
        last_place, last_run = self.runs[-1]
        inner: i64 = last_place + len(last_run)
        # The wildcards behind the last literal character.
        behind = self.size - inner
        stop = self._run(text, found, end - behind, inner - place)
        return -1 if stop < 0 else stop + behind

    def _run(self, text: str, start: i64, end: i64, bits: i64) -> i64:
        steps = end - start
        if steps <= 0:
            return -1
        cost: i64 = steps // _STEPS_PER_UNIT + 1
        if bits > _WORD_BITS:
            cost = steps // 4 + steps * bits // (_STEPS_PER_UNIT * 4 * _BITS_PER_STEP) + 1
        WORK.spent += cost
        if WORK.is_over():
            return -1
        any_one = self._any_one
        of_character = self._of_character
        ended = 1 << int(bits)
        states = 1
        at = start
        while at < end:
            states = (states & of_character.get(text[at], any_one)) << 1 | 1
            at += 1
            if states & ended:
                return at
        return -1


def _searched(length: i64, sought: i64) -> None:
    """Add the work of Python's search for `sought` characters among `length`."""
    if length < _SHORT_VALUE or (sought >= _LONG_PART and length < _LONG_VALUE):
        length *= max(1, sought // 4)
    WORK.spent += length // _FOUND_PER_UNIT


@final
class Like(Expression):
    """A LIKE condition. Of `symbols`, None matches any character, "" any number of characters, others themselves.

    The value is unknown if the message may cost no more work.
    """

    def __init__(self, part: Expression, symbols: list[str | None]) -> None:
        super().__init__(BOOLEAN, part.size + 1 + len(symbols))
        self._part = part
        cut: list[list[str | None]] = [[]]
        for symbol in symbols:
            if symbol == "":
                cut.append([])
            else:
                cut[-1].append(symbol)
        self._first = _Part(cut[0])
        # None if the pattern has no `%`.
        self._last = _Part(cut[-1]) if len(cut) > 1 else None
        self._between = [_Part(between) for between in cut[1:-1] if between]
        size: i64 = 0
        for each in cut:
            size += len(each)
        self._least: i64 = size

    def value(self, message: Message) -> object:
        value = self._part.value(message)
        if value is None or WORK.is_over():
            return None
        if not isinstance(value, str):
            return False
        holds = self.matches(value)
        return None if WORK.is_over() else holds

    def matches(self, text: str) -> bool:
        length: i64 = len(text)
        last = self._last
        if last is None:
            return length == self._least and self._first.stands_at(text, 0)
        if length < self._least or not self._first.stands_at(text, 0):
            return False
        end = length - last.size
        if not last.stands_at(text, end):
            return False
        at = self._first.size
        for part in self._between:
            at = part.find(text, at, end)
            if at < 0:
                return False
        return True
