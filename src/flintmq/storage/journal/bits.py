"""Small numbers, and whether they are in a set, in as few bytes as that takes: a journal speaks of millions."""

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

# How many bits of a byte are set.
_ONES: Final = bytes(value.bit_count() for value in range(256))
_COUNT_MAX: Final = 255


@final
class Bits:
    """A set of numbers from 0 on, a bit each; as long as the largest of them needs."""

    def __init__(self) -> None:
        self._bytes = BytesWriter()

    def has(self, number: i64) -> bool:
        place = number >> 3
        return place < len(self._bytes) and self._bytes[place] & u8(1 << (number & 7)) != 0

    def add(self, number: i64) -> bool:
        """Returns whether it was not there before."""
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
        """Add the numbers from `first` to before `end`; returns how many were not there before."""
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
        """Those that `bits_before` gave, to a set that is empty."""
        self._bytes.write(bits)

    def bits_before(self, end: i64) -> bytes:
        """The numbers before `end`, a bit each."""
        size = (end + 7) >> 3
        if size > len(self._bytes):
            self._grow(size - 1)
        return self._bytes.getvalue()[:size]

    def _grow(self, place: i64) -> None:
        """A little further than asked for, since sets grow by small steps."""
        self._bytes.write(bytes(place + 1 + (place >> 3) - len(self._bytes)))


@final
class Counts:
    """How often something happened to each of many numbers; nothing, mostly."""

    def __init__(self) -> None:
        self._bytes = BytesWriter()
        # What no byte can hold, and what is left when the bytes are let go.
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
        """Only these few are asked for from now on."""
        kept: dict[int, int] = {}
        for number in numbers:
            count = self.get(number)
            if count > 0:
                kept[number] = count
        self._others = kept
        self._bytes = BytesWriter()
