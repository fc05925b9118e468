"""Changes of a few counts from round to round, in a compact encoding."""

from collections.abc import Sequence
from struct import Struct
from typing import Final, final

from flintmq.management.stats.counts import Counts

# A record has the last byte of the round's number, two bytes that say which counts changed (a bit for each) and how
# wide a number is (the top two bits), and the increase of each of those counts. A queue with traffic changes six of its
# eleven counts by less than 32,768 in five seconds: 15 bytes instead of 88.
_HEAD: Final = Struct("<BH")
_WIDTH_SHIFT: Final = 14
_WHICH: Final = (1 << _WIDTH_SHIFT) - 1
COUNTS_MAX: Final = _WIDTH_SHIFT
# A record has only the last byte of its round's number, so no more rounds can be distinguished.
REACH_MAX: Final = 256
# The formats of records by width (one, two, four or eight bytes) and number of changed counts.
_RECORDS: Final = [[Struct(f"<BH{many}{kind}") for many in range(COUNTS_MAX + 1)] for kind in "bhiq"]
# The width by the number of bits of the largest number, without its sign.
_WIDTHS: Final = bytes([0] * 8 + [1] * 8 + [2] * 16 + [3] * 32)


@final
class Changes:
    """The changes of one object. `latest` is the round of the last change."""

    __slots__ = ("_records", "latest")

    def __init__(self) -> None:
        # There are tens of thousands of these objects: a bytearray is one piece of memory that the garbage collector
        # does not traverse.
        self._records = bytearray()
        self.latest = 0

    @property
    def size_bytes(self) -> int:
        return len(self._records)

    def add(self, number: int, deltas: Counts, reach: int) -> None:
        """Add the increase of each count in round `number`, at least one of which is not 0; drop what is `reach` rounds
        old.
        """
        which = 0
        changed: list[int] = []
        for at, delta in enumerate(deltas):
            if delta:
                which |= 1 << at
                changed.append(delta)
        width = _WIDTHS[max(*changed, ~min(changed)).bit_length()]
        self._forget(number - reach)
        self._records += _RECORDS[width][len(changed)].pack(number & 0xFF, width << _WIDTH_SHIFT | which, *changed)
        self.latest = number

    def _forget(self, until: int) -> None:
        records, gone = self._records, 0
        while gone < len(records) and self._round(records[gone]) <= until:
            _, which = _HEAD.unpack_from(records, gone)
            gone += _record(which).size
        del records[:gone]

    def _round(self, last_byte: int) -> int:
        return self.latest - (self.latest - last_byte & 0xFF)

    def newest_first(self, width: int) -> list[tuple[int, Sequence[int]]]:
        """The rounds with changes, the newest first, and the increase of each of the `width` counts in them."""
        found: list[tuple[int, Sequence[int]]] = []
        records, at = self._records, 0
        while at < len(records):
            last_byte, which = _HEAD.unpack_from(records, at)
            record = _record(which)
            deltas = iter(record.unpack_from(records, at)[2:])
            found.append((self._round(last_byte), [next(deltas) if which >> bit & 1 else 0 for bit in range(width)]))
            at += record.size
        found.reverse()
        return found


def _record(which: int) -> Struct:
    return _RECORDS[which >> _WIDTH_SHIFT][(which & _WHICH).bit_count()]
