"""Detection of the protocol that a peer speaks, by the first bytes that it sends."""

from enum import Enum
from typing import Final

_AMQP: Final = b"AMQP"
TLS_HEADER: Final = b"AMQP\x02\x01\x00\x00"
# The first bytes of a TLS record that contains a handshake (RFC 8446 §5.1).
_TLS_HANDSHAKE: Final = b"\x16\x03"
# The protocol id of an AMQP 1.0 header, which names a layer (amqp-1.0 §2.2, §5.2.1, §5.3.1). In AMQP 0-9-1 it is 0.
_ID_AMQP: Final = 0
_ID_TLS: Final = 2
_ID_SASL: Final = 3
# The versions 0-9-1 and 1-0-0 as major, minor, revision.
_OLDER: Final = b"\x00\x09\x01"
_NEWER: Final = b"\x01\x00\x00"


class Protocol(Enum):
    """The protocols that a peer's first bytes can begin."""

    AMQP_091 = "AMQP 0-9-1"
    AMQP_10 = "AMQP 1.0"
    # TLS_HEADER: the AMQP 1.0 protocol header that asks for TLS, which the server answers. TLS: a plain TLS handshake.
    TLS_HEADER = "AMQP 1.0 over TLS"
    TLS = "TLS"


def sniff(data: bytes) -> Protocol | None:
    """Return the protocol that begins with `data`; None while more bytes are needed to tell.

    Unknown bytes count as AMQP 0-9-1, whose engine answers them with its protocol header.
    """
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
    # amqp-1.0 §2.2: an unsupported version is answered with the highest supported version below it; if there is none,
    # with the highest supported one.
    return Protocol.AMQP_091 if _OLDER <= version < _NEWER else Protocol.AMQP_10
