"""Converts decimals: AMQP 1.0 has those of IEEE 754 in binary integer encoding (BID), 0-9-1 32 bits and a scale."""

from decimal import Decimal
from typing import Final

from flintmq.wire.amqp10.values import Decimal64, WrappedBytes

# Formats by size in bytes: bits of the exponent, bias of the exponent, decimal digits.
_FORMATS: Final = {4: (8, 101, 7), 8: (10, 398, 16), 16: (14, 6176, 34)}


def to_decimal64(unscaled: int, scale: int) -> Decimal64:
    """Encode a decimal of 0-9-1. `unscaled` has 32 bits, so its coefficient always has the short encoding."""
    bits = (1 << 63 if unscaled < 0 else 0) | (398 - scale) << 53 | abs(unscaled)
    return Decimal64(bits.to_bytes(8, "big"))


def from_ieee(value: WrappedBytes) -> Decimal | None:
    """Decode a decimal of AMQP 1.0. None for NaN and infinity."""
    raw = value.raw
    exponent_bits, bias, digits = _FORMATS[len(raw)]
    bits = int.from_bytes(raw, "big")
    width = 8 * len(raw)
    sign = bits >> (width - 1)
    if bits >> (width - 3) & 3 != 3:
        below = width - 1 - exponent_bits
        coefficient = bits & ((1 << below) - 1)
    elif bits >> (width - 5) & 3 == 3:
        return None
    else:
        below = width - 3 - exponent_bits
        coefficient = 4 << below | bits & ((1 << below) - 1)
    exponent = (bits >> below & ((1 << exponent_bits) - 1)) - bias
    if coefficient >= 10**digits:
        # A coefficient with too many digits counts as zero (IEEE 754 §3.5.2).
        coefficient = 0
    return Decimal((sign, tuple(int(digit) for digit in str(coefficient)), exponent))


def to_scaled(value: Decimal) -> tuple[int, int] | None:
    """The unscaled number and the scale, as 0-9-1 encodes a decimal; None if it does not fit."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or exponent < -255 or exponent > 9 or len(digits) > 10:
        return None
    unscaled = int("".join(str(digit) for digit in digits)) * 10 ** max(exponent, 0)
    if sign:
        unscaled = -unscaled
    return (unscaled, max(-exponent, 0)) if -(2**31) <= unscaled < 2**31 else None
