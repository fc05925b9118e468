"""x-consistent-hash (RabbitMQ): routes to one destination by a hash. The binding's key is its weight.

The hash is that of the routing key, or of what the exchange's argument `hash-header` or `hash-property` names. Each
destination draws a number from the hash and its own name, and the best draw wins (weighted rendezvous hashing, Thaler
and Ravishankar 1998). The shares therefore follow the weights exactly, depend on names and weights only and not on the
order of binding, and a destination that comes or goes moves only its own share of the keys. The price is one draw per
destination: RabbitMQ's ring has none of these properties but is faster with thousands of destinations.
"""

from hashlib import blake2b
from math import log
from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import PreconditionFailed
from flintmq.base.limits import HASH_WEIGHT_MAX
from flintmq.base.work import WORK
from flintmq.broker.arguments import type_name
from flintmq.broker.exchange.base import Binding, Exchange
from flintmq.broker.exchange.hashes import MASK, hash_text, mix
from flintmq.broker.fields import headers_of
from flintmq.broker.message import Message, Table

_PROPERTIES: Final = ("correlation_id", "message_id", "timestamp")
_RANGE: Final = 4294967296.0


@final
class _Draw:
    """A destination in every draw: 64 bits of its name's hash, and its weight."""

    def __init__(self, binding: Binding) -> None:
        # The binding's key is no part of the hash: with a higher weight, a destination must keep all that it won
        # before.
        name = blake2b(f"{binding.destination_type}:{binding.destination.name}".encode(), digest_size=8).digest()
        self.binding = binding
        self.low: i64 = int.from_bytes(name[:4], "big")
        self.high: i64 = int.from_bytes(name[4:], "big")
        self.weight = float(binding.routing_key)


@final
class ConsistentHashExchange(Exchange):
    type = "x-consistent-hash"

    def __init__(
        self, vhost: str, name: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> None:
        super().__init__(vhost, name, durable, auto_delete, internal, arguments)
        self.picks_one = True
        self._draws: dict[Binding, _Draw] = {}
        self._header = arguments.get("hash-header")
        self._property = arguments.get("hash-property")
        self.per_message = self._header is not None or self._property is not None

    def check(self) -> None:
        for name in ("hash-header", "hash-property"):
            value = self.arguments.get(name)
            if value is not None and not isinstance(value, str):
                raise PreconditionFailed(
                    f"invalid type '{type_name(value)}' for arg '{name}' in exchange '{self.name}' "
                    f"in vhost '{self.vhost}'"
                )
        if self._header is not None and self._property is not None:
            raise PreconditionFailed("hash-header and hash-property are mutually exclusive")
        if self._property is not None and self._property not in _PROPERTIES:
            raise PreconditionFailed(f"Unsupported property: {self._property}")

    def check_binding(self, binding: Binding) -> None:
        key = binding.routing_key
        digits = key[1:] if key[:1] in ("+", "-") else key
        if not digits.isascii() or not digits.isdigit():
            raise PreconditionFailed(f'The binding key must be an integer: <<"{key}">>')
        if int(key) < 1:
            raise PreconditionFailed("The binding key must be greater than 0")
        if int(key) > HASH_WEIGHT_MAX:
            raise PreconditionFailed(f"The binding key must not exceed {HASH_WEIGHT_MAX}")

    def add(self, binding: Binding) -> None:
        self._draws[binding] = _Draw(binding)

    def remove(self, binding: Binding) -> None:
        del self._draws[binding]

    def match(self, keys: list[str], message: Message | None) -> list[Binding]:
        hashed = hash_text(self._hashed(keys[0], message))
        WORK.spent += len(self._draws)
        best: Binding | None = None
        lowest = 0.0
        for draw in self._draws.values():
            drawn = mix((mix(hashed ^ draw.low) + draw.high) & MASK)
            # The score is exponentially distributed with the weight as rate. The lowest wins, in proportion to its
            # weight.
            score = -log((float(drawn) + 0.5) / _RANGE) / draw.weight
            if best is None or score < lowest:
                best = draw.binding
                lowest = score
        return [] if best is None else [best]

    def _hashed(self, routing_key: str, message: Message | None) -> str:
        """Return the text to hash. All messages without the header or property share a destination (RabbitMQ)."""
        if not self.per_message:
            return routing_key
        assert message is not None
        if isinstance(self._header, str):
            value = headers_of(message).get(self._header)
            return value if isinstance(value, str) else repr(value)
        assert isinstance(self._property, str)
        return message.codec.property_text(message.properties, self._property)
