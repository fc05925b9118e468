"""How nodes make sure that they belong to one cluster, before any message between them is read."""

import socket
import ssl
import time
from contextlib import suppress
from dataclasses import dataclass, field
from secrets import token_bytes
from typing import Final

from flintmq.cluster.ports import LinkError, Refusal, Silent
from flintmq.cluster.proof import NONCE_BYTES, PROOF_BYTES, REFUSED, check, greeting, missing, proofs
from flintmq.cluster.tls import NodeTls, TlsSocket, link_error
from flintmq.server.config import ClusterSettings

Stream = socket.socket | TlsSocket
# A socket with a timeout of 0 would not wait at all.
_SHORTEST_SECONDS: Final = 0.001
# What a node that is refused may have sent before it knows: so many reads of so many bytes.
_IGNORED_READS: Final = 16
_IGNORED_BYTES: Final = 4_096


@dataclass(frozen=True)
class Credentials:
    """What a node has to show to others of its cluster. Without `tls`, connections between nodes are not encrypted."""

    cluster: str
    secret: str = field(default="", repr=False)
    tls: NodeTls | None = None

    def wrap(self, connection: socket.socket, connects: bool) -> Stream:
        """Return a new connection, by TLS if nodes use it, of the side that `connects` or of the other one."""
        return connection if self.tls is None else self.tls.wrap(connection, connects)

    def authenticate(self, stream: Stream, connects: bool, seconds: float) -> None:
        """Prove to the other node that this one belongs to the cluster, and have it prove the same.

        Takes at most so many seconds, and reads at most a TLS handshake, a greeting and a proof. Later calls of the
        stream wait as long.

        Raises Refusal if one of the nodes does not accept the other one, Silent, and LinkError if the connection ends.
        """
        until = time.monotonic() + seconds
        try:
            self._authenticate(stream, connects, seconds, until)
        except Refusal:
            _let_reason_arrive(stream, until)
            raise

    def _authenticate(self, stream: Stream, connects: bool, seconds: float, until: float) -> None:
        try:
            if isinstance(stream, TlsSocket):
                stream.do_handshake(seconds)
            own = greeting(token_bytes(NONCE_BYTES))
            _send(stream, own)
            theirs = b""
            while size := missing(theirs):
                theirs += _receive(stream, size, until)
            self._prove(stream, connects, own, theirs, until)
            stream.settimeout(seconds)
        except TimeoutError:
            raise Silent("the other node is silent") from None
        except ssl.SSLError as error:
            raise link_error(error) from error
        except OSError as error:
            raise LinkError(f"the connection to the other node is broken ({error})") from error

    def _prove(self, stream: Stream, connects: bool, own: bytes, theirs: bytes, until: float) -> None:
        if connects:
            mine, expected = proofs(self.secret, self.cluster, own, theirs)
            _send(stream, mine)
            check(_receive_all(stream, PROOF_BYTES, until), expected)
        else:
            expected, mine = proofs(self.secret, self.cluster, theirs, own)
            try:
                check(_receive_all(stream, PROOF_BYTES, until), expected)
            except Refusal:
                _send(stream, REFUSED)
                raise
            _send(stream, mine)


def credentials_of(settings: ClusterSettings) -> Credentials:
    """Return the credentials of these settings. Raises ConfigurationError if a file of TLS cannot be used."""
    tls = None
    if settings.certificate is not None and settings.ca is not None:
        tls = NodeTls(settings.certificate, settings.key, settings.ca)
    return Credentials(settings.name, settings.secret, tls)


def _send(stream: Stream, data: bytes) -> None:
    while data:
        data = data[stream.sendmsg([data]) :]


def _receive(stream: Stream, size: int, until: float) -> bytes:
    """Wait for at most so many bytes."""
    stream.settimeout(max(until - time.monotonic(), _SHORTEST_SECONDS))
    buffer = memoryview(bytearray(size))
    received = stream.recv_into(buffer)
    if not received:
        raise LinkError("the other node has closed the connection")
    return bytes(buffer[:received])


def _receive_all(stream: Stream, size: int, until: float) -> bytes:
    data = b""
    while len(data) < size:
        data += _receive(stream, size - len(data), until)
    return data


def _let_reason_arrive(stream: Stream, until: float) -> None:
    """Wait until the other node has read why it was refused, and has closed the connection, too.

    If a connection is closed while there is something to read, the other side gets an error instead of what was sent.
    """
    with suppress(OSError):
        stream.shutdown(socket.SHUT_WR)
        for _ in range(_IGNORED_READS):
            stream.settimeout(max(until - time.monotonic(), _SHORTEST_SECONDS))
            read = stream.recv_into if isinstance(stream, socket.socket) else stream.recv_raw_into
            if not read(memoryview(bytearray(_IGNORED_BYTES))):
                return
