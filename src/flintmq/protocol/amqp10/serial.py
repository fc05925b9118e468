"""Serial numbers of 32 bits (RFC 1982), as AMQP 1.0 counts transfers and deliveries."""

from mypy_extensions import i64


def after(number: i64, count: i64) -> i64:
    """The number `count` steps behind `number`."""
    return (number + count) & 0xFFFF_FFFF


def distance(first: i64, second: i64) -> i64:
    """How many steps `second` is behind `first`; negative if it is before."""
    steps: i64 = (second - first) & 0xFFFF_FFFF
    return steps - 0x1_0000_0000 if steps >= 0x8000_0000 else steps
