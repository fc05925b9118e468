"""LIKE: `%` stands for any characters, `_` for one; in time that grows with the value's length, whatever the pattern.

The pattern's symbols are the states of an automaton, one bit each, and all states are followed at once (Baeza-Yates
and Gonnet's Shift-And, with `%` as a state that stays): there is nothing to go back to.
"""

from typing import final

from flintmq.broker.message import Message
from flintmq.broker.selector.expressions import BOOLEAN, Expression


@final
class Like(Expression):
    """`symbols` are what characters are compared with one by one: None is any one of them, "" any number."""

    def __init__(self, part: Expression, symbols: list[str | None]) -> None:
        super().__init__(BOOLEAN, part.size + 1 + len(symbols))
        self._part = part
        # Bit n is for having matched n symbols; these are the bits that a `%` keeps.
        self._stays = 0
        any_one = 0
        of_character: dict[str, int] = {}
        count = 0
        for symbol in symbols:
            if symbol == "":
                self._stays |= 1 << count
                continue
            if symbol is None:
                any_one |= 1 << count
            else:
                of_character[symbol] = of_character.get(symbol, 0) | 1 << count
            count += 1
        self._any_one = any_one
        self._of_character = {character: bits | any_one for character, bits in of_character.items()}
        self._end = 1 << count

    def value(self, message: Message) -> object:
        value = self._part.value(message)
        if value is None:
            return None
        return isinstance(value, str) and self.matches(value)

    def matches(self, text: str) -> bool:
        states = 1
        stays = self._stays
        any_one = self._any_one
        of_character = self._of_character
        decided = self._end & stays
        for character in text:
            if states & decided:
                return True
            states = (states & of_character.get(character, any_one)) << 1 | states & stays
            if states == 0:
                return False
        return states & self._end != 0
