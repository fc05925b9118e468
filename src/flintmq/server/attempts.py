"""Login attempts: counts of accepted and refused logins by protocol and by address."""

from dataclasses import dataclass
from typing import Final, final

# The largest number of addresses with counts of their own, because unauthenticated peers may come from many. The oldest
# is removed first.
_SOURCES_MAX: Final = 1_000
AMQP_091: Final = "amqp091"
AMQP_10: Final = "amqp10"
HTTP: Final = "http"


@dataclass
class Tally:
    """Counts of logins by one protocol, from `address`, or from all addresses if that is empty."""

    protocol: str
    address: str = ""
    succeeded: int = 0
    failed: int = 0

    def count(self, succeeded: bool) -> None:
        if succeeded:
            self.succeeded += 1
        else:
            self.failed += 1


@final
class Attempts:
    def __init__(self) -> None:
        self._by_protocol: dict[str, Tally] = {}
        self._by_source: dict[tuple[str, str], Tally] = {}
        self.reset()

    def reset(self) -> None:
        self._by_protocol = {name: Tally(name) for name in (AMQP_091, AMQP_10, HTTP)}
        self._by_source = {}

    def count(self, protocol: str, address: str, succeeded: bool) -> None:
        self._by_protocol[protocol].count(succeeded)
        source = self._by_source.get((protocol, address))
        if source is None:
            if len(self._by_source) >= _SOURCES_MAX:
                del self._by_source[next(iter(self._by_source))]
            source = self._by_source[protocol, address] = Tally(protocol, address)
        source.count(succeeded)

    @property
    def by_protocol(self) -> list[Tally]:
        return list(self._by_protocol.values())

    @property
    def by_source(self) -> list[Tally]:
        return list(self._by_source.values())
