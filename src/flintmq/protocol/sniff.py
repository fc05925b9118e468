"""Which protocol a peer speaks, by the first bytes it sends."""

from enum import Enum
from typing import Final

_AMQP: Final = b"AMQP"
TLS_HEADER: Final = b"AMQP\x02\x01\x00\x00"
# How a record of TLS begins that holds a handshake (RFC 8446 §5.1).
_TLS_HANDSHAKE: Final = b"\x16\x03"
# The layer that a protocol header announces (amqp-1.0 §2.2, §5.2.1, §5.3.1); AMQP 0-9-1 has a zero there.
_ID_AMQP: Final = 0
_ID_TLS: Final = 2
_ID_SASL: Final = 3
# Major, minor, revision.
_OLDER: Final = b"\x00\x09\x01"
_NEWER: Final = b"\x01\x00\x00"


class Protocol(Enum):
    AMQP_091 = "AMQP 0-9-1"
    AMQP_10 = "AMQP 1.0"
    # AMQP 1.0's own header for it, which is answered; and TLS as it is.
    TLS_HEADER = "AMQP 1.0 over TLS"
    TLS = "TLS"


def sniff(data: bytes) -> Protocol | None:
    """None as long as it may be one or the other. Whatever is none of them, AMQP 0-9-1 has an answer for."""
    if _TLS_HANDSHAKE.startswith(data[:2]):
        return Protocol.TLS if len(data) >= len(_TLS_HANDSHAKE) else None
    if not data.startswith(_AMQP[: len(data)]):
        return Protocol.AMQP_091
    if len(data) <= len(_AMQP):
        return None
    layer = data[4]
    if layer == _ID_TLS:
        return Protocol.TLS_HEADER
    if layer == _ID_SASL:
        return Protocol.AMQP_10
    if layer != _ID_AMQP:
        return Protocol.AMQP_091
    version = data[5:8]
    if len(version) < len(_OLDER):
        return None
    # amqp-1.0 §2.2: the answer to a version that is not spoken here is the highest below it, or the highest of all.
    return Protocol.AMQP_091 if _OLDER <= version < _NEWER else Protocol.AMQP_10
