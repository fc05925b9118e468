"""Serial numbers of 32 bits (RFC 1982), with which AMQP 1.0 counts transfers and deliveries."""

from mypy_extensions import i64


def after(number: i64, count: i64) -> i64:
    """Return the number that follows `number` by `count` steps."""
    return (number + count) & 0xFFFF_FFFF


def distance(first: i64, second: i64) -> i64:
    """Return how many steps `second` follows `first`; negative if it precedes it."""
    steps: i64 = (second - first) & 0xFFFF_FFFF
    return steps - 0x1_0000_0000 if steps >= 0x8000_0000 else steps
