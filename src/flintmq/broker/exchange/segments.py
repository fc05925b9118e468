"""Topic patterns with several `#`: the words between two of them may be anywhere in a key, and are looked for there.

For thousands of patterns at once: a word of a pattern is a bit, the words of a segment are neighbours, the first one
lowest, and a number of all bits says which segments have matched up to which word (Baeza-Yates and Gonnet 1992,
"shift-and"). A word of the key is a few operations on that number, each of them 30 words of patterns at a time. A
segment is taken where it is found first, which leaves the most to what is behind it: so each is found once.
"""

from typing import Final, final

from flintmq.base.work import WORK
from flintmq.broker.exchange.base import Binding

# Bits of patterns that are compared with a word of a key, and bits that a mask is made of, in one unit of work.
_BITS_PER_UNIT: Final = 1_024
_MASKED_PER_UNIT: Final = 8
# How many words of keys have their numbers of bits kept.
_MASKS_MAX: Final = 256
# Up to so many bits are taken off a number one by one, which costs its whole length each time.
_FEW_BITS: Final = 8
# So much of a number is passed over at once where no bit is set.
_CHUNK_BYTES: Final = 64


@final
class Segmented:
    """A pattern's segments behind the first `#`, and the `tail` behind the last, which the key has to end with."""

    def __init__(self, segments: list[list[str]], tail: list[str], first_bit: int) -> None:
        self.segments = segments
        self.words = [word for segment in segments for word in segment]
        self.tail = tail
        self.first_bit = first_bit
        self.bindings: dict[Binding, None] = {}


@final
class Segments:
    """The patterns of one exchange."""

    def __init__(self) -> None:
        self._patterns: dict[tuple[tuple[str, ...], ...], Segmented] = {}
        self._size = 0
        # First bits of patterns that are gone, by how many bits they had.
        self._free: dict[int, list[int]] = {}
        # Which bits are a literal word, which are `*`, and which are first and last words of segments.
        self._literals: dict[str, dict[int, None]] = {}
        self._stars = 0
        self._firsts = 0
        self._lasts = 0
        # By the last bit of a segment: its pattern.
        self._owners: dict[int, Segmented] = {}
        self._masks: dict[str, int] = {}

    def add(self, parts: list[list[str]], binding: Binding) -> Segmented:
        """`parts` are what is before, between and behind the `#` of a pattern, of which there are two at least."""
        key = _key(parts)
        pattern = self._patterns.get(key)
        if pattern is None:
            pattern = self._place(parts[1:-1], parts[-1])
            self._patterns[key] = pattern
        pattern.bindings[binding] = None
        return pattern

    def remove(self, parts: list[list[str]], binding: Binding) -> Segmented:
        """Returns the binding's pattern, which is gone when it has no bindings any more."""
        key = _key(parts)
        pattern = self._patterns[key]
        del pattern.bindings[binding]
        if not pattern.bindings:
            del self._patterns[key]
            self._displace(pattern)
        return pattern

    def _place(self, segments: list[list[str]], tail: list[str]) -> Segmented:
        count = sum([len(segment) for segment in segments])
        free = self._free.get(count)
        if free:
            first_bit = free.pop()
        else:
            first_bit = self._size
            self._size += count
        pattern = Segmented(segments, tail, first_bit)
        for bit, word in enumerate(pattern.words, first_bit):
            if word == "*":
                self._stars |= 1 << bit
            else:
                self._literals.setdefault(word, {})[bit] = None
        bit = first_bit
        for segment in segments:
            self._firsts |= 1 << bit
            bit += len(segment)
            self._lasts |= 1 << (bit - 1)
            self._owners[bit - 1] = pattern
        self._masks.clear()
        return pattern

    def _displace(self, pattern: Segmented) -> None:
        count = len(pattern.words)
        for bit, word in enumerate(pattern.words, pattern.first_bit):
            self._owners.pop(bit, None)
            if word != "*":
                bits = self._literals[word]
                del bits[bit]
                if not bits:
                    del self._literals[word]
        others = ~(((1 << count) - 1) << pattern.first_bit)
        self._stars &= others
        self._firsts &= others
        self._lasts &= others
        self._free.setdefault(count, []).append(pattern.first_bit)
        self._masks.clear()
        if not self._patterns:
            self._free.clear()
            self._size = 0

    def match(self, words: list[str], patterns: dict[int, list[Segmented]], found: list[Binding]) -> None:
        """Add the bindings of those patterns that match, given by the word that their first `#` may begin with."""
        begin = 0
        matched = 0
        wanted = self._lasts
        inside = ~self._firsts
        for at, word in enumerate(words):
            starting = patterns.get(at)
            if starting is not None:
                begin |= _number([pattern.first_bit for pattern in starting])
            if not begin:
                continue
            WORK.spent += 1 + self._size // _BITS_PER_UNIT
            matched = (((matched << 1) & inside) | begin) & self._mask(word)
            ended = matched & wanted
            if ended:
                wanted ^= ended
                beginning: list[int] = []
                for bit in _bits(ended):
                    pattern = self._owners[bit]
                    if bit < pattern.first_bit + len(pattern.words) - 1:
                        beginning.append(bit + 1)
                    elif _ends_with(pattern.tail, words, at + 1):
                        found.extend(pattern.bindings)
                if beginning:
                    begin |= _number(beginning)

    def _mask(self, word: str) -> int:
        """The bits that a word of a key agrees with."""
        mask = self._masks.get(word)
        if mask is None:
            bits = self._literals.get(word)
            if bits is None:
                return self._stars
            WORK.spent += (len(bits) + self._size // 8) // _MASKED_PER_UNIT
            mask = _number(list(bits)) | self._stars
            if len(self._masks) >= _MASKS_MAX:
                self._masks.clear()
            self._masks[word] = mask
        return mask


def _key(parts: list[list[str]]) -> tuple[tuple[str, ...], ...]:
    """Tells patterns apart: no words and one empty word are two things."""
    return tuple([tuple(part) for part in parts])


def _ends_with(tail: list[str], words: list[str], start: int) -> bool:
    """Whether the words from `start` on end with these."""
    at = len(words) - len(tail)
    if at < start:
        return False
    for word in tail:
        if word != "*" and word != words[at]:
            return False
        at += 1
    return True


def _number(bits: list[int]) -> int:
    """The number with these bits set."""
    if len(bits) <= _FEW_BITS:
        number = 0
        for bit in bits:
            number |= 1 << bit
        return number
    packed = bytearray((max(bits) >> 3) + 1)
    for bit in bits:
        packed[bit >> 3] |= 1 << (bit & 7)
    return int.from_bytes(packed, "little")


def _bits(number: int) -> list[int]:
    """Which bits of a number are set."""
    found: list[int] = []
    if number.bit_count() <= _FEW_BITS:
        while number:
            bit = number.bit_length() - 1
            found.append(bit)
            number ^= 1 << bit
        return found
    octets = number.to_bytes((number.bit_length() + 7) >> 3, "little")
    for start in range(0, len(octets), _CHUNK_BYTES):
        chunk = octets[start : start + _CHUNK_BYTES]
        if chunk.count(0) == len(chunk):
            continue
        for index, octet in enumerate(chunk, start):
            if octet:
                found.extend([(index << 3) + bit for bit in range(8) if octet & (1 << bit)])
    return found
