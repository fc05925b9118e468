"""Compact sets of small numbers, and compact counts: a journal has millions of entries."""

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

# The number of set bits of each byte value.
_ONES: Final = bytes(value.bit_count() for value in range(256))
_COUNT_MAX: Final = 255


@final
class Bits:
    """A set of numbers from 0 on, one bit each, as long as its largest number needs."""

    def __init__(self) -> None:
        self._bytes = BytesWriter()

    def has(self, number: i64) -> bool:
        place = number >> 3
        return place < len(self._bytes) and self._bytes[place] & u8(1 << (number & 7)) != 0

    def add(self, number: i64) -> bool:
        """Add a number; return whether it is new."""
        place = number >> 3
        if place >= len(self._bytes):
            self._grow(place)
        bit = u8(1 << (number & 7))
        old = self._bytes[place]
        self._bytes[place] = old | bit
        return old & bit == 0

    def remove(self, number: i64) -> None:
        place = number >> 3
        if place < len(self._bytes):
            self._bytes[place] = self._bytes[place] & u8(255 - (1 << (number & 7)))

    def add_run(self, first: i64, end: i64) -> i64:
        """Add the numbers from `first` to before `end`; return how many of them are new."""
        added: i64 = 0
        while first < end and first & 7 != 0:
            added += i64(self.add(first))
            first += 1
        if first + 8 <= end:
            place = first >> 3
            last = (end >> 3) - 1
            if last >= len(self._bytes):
                self._grow(last)
            while place <= last:
                added += 8 - i64(_ONES[self._bytes[place]])
                self._bytes[place] = 255
                place += 1
            first = place << 3
        while first < end:
            added += i64(self.add(first))
            first += 1
        return added

    def add_bits(self, bits: bytes) -> None:
        """Fill an empty set with the bits that `bits_before` returned."""
        self._bytes.write(bits)

    def bits_before(self, end: i64) -> bytes:
        """The bits of the numbers below `end`."""
        size = (end + 7) >> 3
        if size > len(self._bytes):
            self._grow(size - 1)
        return self._bytes.getvalue()[:size]

    def _grow(self, place: i64) -> None:
        """Grow a little further than `place`, because sets grow by small steps."""
        self._bytes.write(bytes(place + 1 + (place >> 3) - len(self._bytes)))


@final
class Counts:
    """A count for each of many numbers; most counts are 0."""

    def __init__(self) -> None:
        self._bytes = BytesWriter()
        # Counts that a byte cannot hold, and the remaining counts after `keep`.
        self._others: dict[int, int] = {}

    def get(self, number: i64) -> i64:
        if number < len(self._bytes):
            count = i64(self._bytes[number])
            if count < _COUNT_MAX:
                return count
        return self._others.get(number, 0)

    def set(self, number: i64, count: i64) -> None:
        if number >= len(self._bytes):
            self._bytes.write(bytes(number + 1 + (number >> 3) - len(self._bytes)))
        if count < _COUNT_MAX:
            self._bytes[number] = u8(count)
        else:
            self._bytes[number] = _COUNT_MAX
            self._others[number] = count

    def keep(self, numbers: list[int]) -> None:
        """Keep only the counts of these numbers."""
        kept: dict[int, int] = {}
        for number in numbers:
            count = self.get(number)
            if count > 0:
                kept[number] = count
        self._others = kept
        self._bytes = BytesWriter()
