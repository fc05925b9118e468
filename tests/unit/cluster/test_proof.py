"""The proof of a cluster's secret: what is accepted, what is not, and when that is known."""

import hashlib

import pytest

from flintmq.cluster.ports import Refusal
from flintmq.cluster.proof import MAGIC, NONCE_BYTES, PROOF_BYTES, REFUSED, check, greeting, missing, proofs

SECRET = "correct horse battery"
CONNECTING = greeting(bytes(range(NONCE_BYTES)))
ACCEPTING = greeting(bytes(range(100, 100 + NONCE_BYTES)))
PROOFS = proofs(SECRET, "c", CONNECTING, ACCEPTING)


def _hmac(key: bytes, message: bytes) -> bytes:
    """HMAC-SHA-256 as RFC 2104 has it, for keys of at most 64 bytes."""
    inner, outer = (bytes(octet ^ pad for octet in key.ljust(64, b"\0")) for pad in (0x36, 0x5C))
    return hashlib.sha256(outer + hashlib.sha256(inner + message).digest()).digest()


def test_the_bytes_of_a_proof() -> None:
    """They stay as they are: nodes of two releases have to agree."""
    assert CONNECTING[:8] == MAGIC == b"FlintMQ\x01"
    rest = b"\0\0\0\x01c" + CONNECTING + ACCEPTING
    key = SECRET.encode()
    assert (_hmac(key, b"connecting" + rest), _hmac(key, b"accepting\0" + rest)) == PROOFS
    assert len(PROOFS[0]) == len(REFUSED) == PROOF_BYTES


def test_each_side_accepts_the_other_one_only() -> None:
    """A side that gets its own proof back, or a refusal, does not accept it."""
    for own, other in (PROOFS, PROOFS[::-1]):
        check(own, own)
        for received in (other, REFUSED, b"", own[:-1]):
            with pytest.raises(Refusal, match=r"cluster\.secret differs between these nodes"):
                check(received, own)


@pytest.mark.parametrize(
    "other",
    [
        proofs("correct horse batterY", "c", CONNECTING, ACCEPTING),
        proofs("", "c", CONNECTING, ACCEPTING),
        proofs(SECRET, "d", CONNECTING, ACCEPTING),
        proofs(SECRET, "c", CONNECTING, greeting(bytes(NONCE_BYTES))),
        proofs(SECRET, "c", greeting(bytes(NONCE_BYTES)), ACCEPTING),
        proofs(SECRET, "c", ACCEPTING, CONNECTING),
        # The end of the name is not the beginning of what follows.
        proofs(SECRET, "cF", CONNECTING[1:], ACCEPTING),
    ],
    ids=["secret", "no secret", "cluster", "accepting nonce", "connecting nonce", "exchanged", "boundary"],
)
def test_a_proof_is_of_no_use_elsewhere(other: tuple[bytes, bytes]) -> None:
    """Neither with another secret, nor in another cluster, nor on another connection."""
    assert not set(other) & set(PROOFS)


def test_a_greeting_in_pieces() -> None:
    """Whatever has come of it, the number of bytes that it lacks is known."""
    for size in range(len(CONNECTING) + 1):
        assert missing(CONNECTING[:size]) == len(CONNECTING) - size


@pytest.mark.parametrize(
    ("received", "reason"),
    [
        (b"\x16", "the other node uses TLS, this one does not"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "the other node uses TLS, this one does not"),
        (b"FlintMQ\x02", "the other node uses version 2"),
        (b"FlintMR", "no FlintMQ node"),
        (b"G", "no FlintMQ node"),
        (b"\0\0\0\x10\x01", "no FlintMQ node"),
    ],
)
def test_what_is_no_greeting(received: bytes, reason: str) -> None:
    """It is refused with its first byte that shows it: nobody waits for the rest."""
    if len(received) > 1 and received.startswith(b"FlintM"):
        assert missing(received[:-1])
    with pytest.raises(Refusal, match=reason):
        missing(received)
