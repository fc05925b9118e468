"""Values that tables of headers and arguments hold and Python has no type for."""

from typing import final


@final
class Timestamp:
    """Seconds since 1970-01-01 UTC, unsigned 64 bit as on the wire: datetime ends in the year 9999."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.seconds == other.seconds

    def __hash__(self) -> int:
        return hash(self.seconds)

    def __repr__(self) -> str:
        return f"Timestamp({self.seconds})"
