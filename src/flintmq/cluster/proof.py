"""The proof that both nodes of a connection know the secret of their cluster. Bytes in, bytes out.

    the node that connects          the node that accepts
    greeting ->                     <- greeting              at once, neither waits for the other one
    proof ->
                                    <- proof, or REFUSED

A greeting is `MAGIC` and a random nonce. A proof is an HMAC-SHA-256, with the secret as the key, of the side that makes
it, the name of the cluster and both nonces. So it is of no use on another connection, in another cluster, or as the
proof of the other side. The node that connects proves first, because anybody can connect, but nodes connect only to
addresses from the coordinator: a stranger gets no proof with which it could try out secrets.
"""

import hmac
from typing import Final

from flintmq.cluster.ports import Refusal

NONCE_BYTES: Final = 32
PROOF_BYTES: Final = 32
# In place of a proof, which is these bytes as seldom as any others.
REFUSED: Final = bytes(PROOF_BYTES)
_NAME: Final = b"FlintMQ"
_VERSION: Final = 1
MAGIC: Final = _NAME + bytes([_VERSION])
# The first bytes of a TLS connection: an alert, and a handshake.
_TLS_RECORDS: Final = (b"\x15", b"\x16")


def greeting(nonce: bytes) -> bytes:
    """Return the greeting of a node. `nonce` are NONCE_BYTES random bytes."""
    return MAGIC + nonce


def missing(received: bytes) -> int:
    """Return how many bytes of the other node's greeting are still to come. Raises Refusal once it cannot be one."""
    name = received[: len(_NAME)]
    if _NAME.startswith(name):
        if len(received) >= len(MAGIC) and not received.startswith(MAGIC):
            raise Refusal(
                f"the other node uses version {received[len(_NAME)]} of the proof of cluster.secret, this one uses "
                f"version {_VERSION}: run the same release of FlintMQ on both"
            )
        return len(MAGIC) + NONCE_BYTES - len(received)
    if received.startswith(_TLS_RECORDS):
        raise Refusal(
            "the other node uses TLS, this one does not: set cluster.certificate, cluster.key and cluster.ca on all "
            "nodes, or on none"
        )
    raise Refusal("the other side of the connection is no FlintMQ node: check its address")


def proofs(secret: str, cluster: str, connecting: bytes, accepting: bytes) -> tuple[bytes, bytes]:
    """Return the proofs of the node that connects and of the one that accepts, given their greetings.

    Without a secret, they prove that both nodes have none.
    """
    name = cluster.encode()
    rest = len(name).to_bytes(4) + name + connecting + accepting
    key = secret.encode()
    return hmac.digest(key, b"connecting" + rest, "sha256"), hmac.digest(key, b"accepting\0" + rest, "sha256")


def check(received: bytes, expected: bytes) -> None:
    """Raises Refusal if the other node does not know the secret."""
    if not hmac.compare_digest(received, expected):
        raise Refusal("cluster.secret differs between these nodes, or cluster.name does: set the same on all nodes")
