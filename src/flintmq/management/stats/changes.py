"""How a few counts changed from round to round, in as many bytes as that takes."""

from collections.abc import Sequence
from struct import Struct
from typing import Final, final

from flintmq.management.stats.counts import Counts

# A record is the round (its last byte), which counts changed (a bit for each, and in the top two bits how wide a number
# is), and by how much each of those did. A queue with traffic changes six of its eleven counts by less than 32,768 in
# five seconds, which is 15 bytes; all of them in full are 88.
_HEAD: Final = Struct("<BH")
_WIDTH_SHIFT: Final = 14
_WHICH: Final = (1 << _WIDTH_SHIFT) - 1
COUNTS_MAX: Final = _WIDTH_SHIFT
# Records are told apart by the last byte of their rounds.
REACH_MAX: Final = 256
# By width (one, two, four or eight bytes) and by how many numbers there are.
_RECORDS: Final = [[Struct(f"<BH{many}{kind}") for many in range(COUNTS_MAX + 1)] for kind in "bhiq"]
# By the bits of the largest number, without its sign.
_WIDTHS: Final = bytes([0] * 8 + [1] * 8 + [2] * 16 + [3] * 32)


@final
class Changes:
    """Of one object. `latest` is the round of the last change."""

    __slots__ = ("_records", "latest")

    def __init__(self) -> None:
        # Tens of thousands of these are kept: a bytearray is one piece of memory, and nothing to a garbage collector.
        self._records = bytearray()
        self.latest = 0

    @property
    def size_bytes(self) -> int:
        return len(self._records)

    def add(self, number: int, deltas: Counts, reach: int) -> None:
        """By how much each count is more as of this round, one at least; what is `reach` rounds old is forgotten."""
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
        """Rounds, and by how much each of so many counts was more than in the round before."""
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
