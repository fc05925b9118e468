"""The committed attempts of a batch in stage.commit: partition (u32) and attempt (i64) of each."""

from typing import Final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from flintmq.base.errors import LocalProtocolError, SyntaxFault

_PAIR_BYTES: Final = 12
# Pairs that fit the smallest frame, 4096 bytes, together with the longest transactional id. More need several methods.
ATTEMPTS_PER_FRAME: Final = 300
# A partition fits a non-negative i32.
PARTITION_MAX: Final = 2**31 - 1
ATTEMPT_MAX: Final = 2**63 - 1


def encode_attempts(attempts: dict[int, int]) -> bytes:
    """Encode attempts by partition. Raises LocalProtocolError for numbers out of range."""
    w = BytesWriter()
    for partition, attempt in attempts.items():
        if not (0 <= partition <= PARTITION_MAX and 0 <= attempt <= ATTEMPT_MAX):
            raise LocalProtocolError(f"partitions are 0 to {PARTITION_MAX}, attempts 0 to {ATTEMPT_MAX}")
        write_i32_be(w, i32(partition))
        write_i64_be(w, i64(attempt))
    return w.getvalue()


def encode_in_parts(attempts: dict[int, int]) -> list[bytes]:
    """Encode attempts by partition for as many methods as they need: one, even if there are none."""
    pairs = list(attempts.items())
    parts = [dict(pairs[at : at + ATTEMPTS_PER_FRAME]) for at in range(0, len(pairs), ATTEMPTS_PER_FRAME)] or [{}]
    return [encode_attempts(part) for part in parts]


def decode_attempts(data: bytes) -> dict[int, int]:
    """Decode attempts by partition. Raises SyntaxFault for bytes that `encode_attempts` would not write."""
    if len(data) % _PAIR_BYTES != 0:
        raise SyntaxFault(f"stage.commit: {len(data)} bytes of attempts are not a multiple of {_PAIR_BYTES}")
    attempts: dict[int, int] = {}
    at: i64 = 0
    while at < len(data):
        partition = i64(read_i32_be(data, at))
        attempt = read_i64_be(data, at + 4)
        if partition < 0 or attempt < 0 or int(partition) in attempts:
            raise SyntaxFault("stage.commit: a partition appears twice, or a number is negative")
        attempts[int(partition)] = int(attempt)
        at += _PAIR_BYTES
    return attempts
