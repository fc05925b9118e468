"""A hash of texts that is equal in every process and build: a restart must not change the distribution of messages."""

from typing import Final
from zlib import crc32

from mypy_extensions import i64

MASK: Final = 0xFFFF_FFFF


def mix(value: i64) -> i64:
    """Map 32-bit numbers one to one, so that neighbours become unlike each other (C. Wellons' "lowbias32").

    The factors are below 2**31, so that no product exceeds a signed 64-bit number: interpreted and compiled code agree.
    """
    value ^= value >> 16
    value = (value * 0x21F0AAAD) & 0xFFFF_FFFF
    value ^= value >> 15
    value = (value * 0x735A2D97) & 0xFFFF_FFFF
    return value ^ (value >> 15)


def hash_text(text: str) -> i64:
    """Return a 32-bit hash of a text."""
    return mix(crc32(text.encode()))
