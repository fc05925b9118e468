"""Random numbers from a seed. The broker has no other source of randomness, so that a seed repeats a run."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.broker.exchange.hashes import MASK, mix

# Added for each number before mixing: 2**32 divided by the golden ratio visits all 32-bit numbers.
_STEP: Final = 0x9E37_79B9


@final
class RandomSource:
    """A sequence of random numbers that the lower 32 bits of `seed` determine."""

    def __init__(self, seed: int) -> None:
        self._state: i64 = seed & 0xFFFF_FFFF

    def below(self, count: i64) -> i64:
        """Return a number from 0 to `count` - 1, each equally probable. `count` is below 2**31."""
        self._state = (self._state + _STEP) & MASK
        return (mix(self._state) * count) >> 32
