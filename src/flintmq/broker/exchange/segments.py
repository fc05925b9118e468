"""Topic patterns with several `#`: searches keys for the words between two `#`, which may be anywhere.

Thousands of patterns are matched at once: each word of a pattern is a bit, the words of a segment are neighbouring
bits, the first word lowest, and an integer of all bits says which segments have matched up to which word (Baeza-Yates
and Gonnet 1992, "shift-and"). Each word of the key takes a few operations on that integer, each of which handles 30
words of patterns at a time. A segment is matched at its first occurrence, which leaves most of the key to the segments
behind it, so that each is searched once.
"""

from typing import Final, final

from flintmq.base.work import WORK
from flintmq.broker.exchange.base import Binding

# Bits of patterns that are compared with a word of a key, or set in a mask, in one unit of work.
_BITS_PER_UNIT: Final = 1_024
_MASKED_PER_UNIT: Final = 8
# The number of words whose masks are cached.
_MASKS_MAX: Final = 256
# Up to this many bits are cleared one by one. Each clearing costs the length of the whole integer.
_FEW_BITS: Final = 8
# The bytes of an integer that are skipped at once if no bit is set.
_CHUNK_BYTES: Final = 64


@final
class Segmented:
    """The segments of a pattern behind its first `#`, and the `tail` behind its last, with which the key has to end."""

    def __init__(self, segments: list[list[str]], tail: list[str], first_bit: int) -> None:
        self.segments = segments
        self.words = [word for segment in segments for word in segment]
        self.tail = tail
        self.first_bit = first_bit
        self.bindings: dict[Binding, None] = {}


@final
class Segments:
    """The segmented patterns of one exchange."""

    def __init__(self) -> None:
        self._patterns: dict[tuple[tuple[str, ...], ...], Segmented] = {}
        self._size = 0
        # First bits of removed patterns, by how many bits they had.
        self._free: dict[int, list[int]] = {}
        # The bits of each literal word, of `*`, and of the first and last words of segments.
        self._literals: dict[str, dict[int, None]] = {}
        self._stars = 0
        self._firsts = 0
        self._lasts = 0
        # The pattern of each segment, by the segment's last bit.
        self._owners: dict[int, Segmented] = {}
        self._masks: dict[str, int] = {}

    def add(self, parts: list[list[str]], binding: Binding) -> Segmented:
        """Add a binding's pattern.

        `parts` are the words before, between and behind the `#` of the pattern, which has at least two.
        """
        key = _key(parts)
        pattern = self._patterns.get(key)
        if pattern is None:
            pattern = self._place(parts[1:-1], parts[-1])
            self._patterns[key] = pattern
        pattern.bindings[binding] = None
        return pattern

    def remove(self, parts: list[list[str]], binding: Binding) -> Segmented:
        """Remove a binding. Returns its pattern, which is removed, too, if it has no other bindings."""
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
        """Add the bindings of matching patterns to `found`.

        `patterns` are keyed by the word where their first `#` may begin.
        """
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
        """Return the bits that match a word of a key."""
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
    """Return a key of a pattern. No words differ from one empty word."""
    return tuple([tuple(part) for part in parts])


def _ends_with(tail: list[str], words: list[str], start: int) -> bool:
    """Whether the words from `start` on end with `tail`."""
    at = len(words) - len(tail)
    if at < start:
        return False
    for word in tail:
        if word != "*" and word != words[at]:
            return False
        at += 1
    return True


def _number(bits: list[int]) -> int:
    """Return the integer with these bits set."""
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
    """Return the bits that are set in an integer."""
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
