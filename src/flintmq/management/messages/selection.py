"""Selection of messages by position, by a text that they contain, or all."""

from collections.abc import Iterable
from typing import Final, final

from flintmq.broker.message import Message
from flintmq.management.errors import BadRequest

# So many bytes of a body are searched; larger bodies are not text that people write.
SEARCHED_MAX_BYTES: Final = 256 * 1024
POSITIONS_MAX: Final = 10_000
_SEARCH_MAX_CHARACTERS: Final = 1_024


@final
class Selection:
    """A selection. `search` is found in routing key, exchange, properties and body, ignoring case."""

    def __init__(self, search: str = "", positions: Iterable[int] | None = None) -> None:
        if len(search) > _SEARCH_MAX_CHARACTERS:
            raise BadRequest(f"a search has at most {_SEARCH_MAX_CHARACTERS} characters")
        self.positions = None if positions is None else frozenset(positions)
        if self.positions is not None and len(self.positions) > POSITIONS_MAX:
            raise BadRequest(f"at most {POSITIONS_MAX} positions can be chosen at once")
        self._text = search.lower()
        self._bytes = self._text.encode(errors="surrogatepass")
        # An ASCII text is found without decoding the message.
        self._is_plain = self._text.isascii()

    @property
    def searches(self) -> bool:
        return bool(self._text)

    def has(self, position: int, message: Message) -> bool:
        if self.positions is not None and position not in self.positions:
            return False
        return not self._text or self._occurs(message)

    def _occurs(self, message: Message) -> bool:
        address = message.address
        if self._text in address.routing_key.lower() or self._text in address.exchange.lower():
            return True
        return any(self._is_in(part) for part in (message.properties, message.body[:SEARCHED_MAX_BYTES]))

    def _is_in(self, part: bytes) -> bool:
        if self._is_plain:
            return self._bytes in part.lower()
        return self._text in part.decode(errors="replace").lower()
