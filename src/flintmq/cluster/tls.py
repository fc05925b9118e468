"""TLS between nodes, over sockets whose calls block, and to etcd."""

import errno
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar, final

from flintmq.base.errors import ConfigurationError
from flintmq.cluster.ports import LinkError, Refusal
from flintmq.server import logs
from flintmq.server.certificates import load_authority, load_pair, stamp

log = logs.get_logger()

# What one call sends at most: OpenSSL encrypts all of it while it has the lock.
_SEND_BYTES: Final = 256 * 1024
# A pump waits so long for a node that takes nothing. Only then is it sure that it ends.
_PUMP_SECONDS: Final = 30.0
# The reasons of OpenSSL if the other side sends something else than TLS.
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "PACKET_LENGTH_TOO_LONG")
# A fatal alert: protocol_version (RFC 8446 §6). OpenSSL sends none to who does not begin with TLS.
_ALERT: Final = b"\x15\x03\x03\x00\x02\x02\x46"

T = TypeVar("T")


@final
class NodeTls:
    """The TLS of a node. Both sides of a connection present a certificate that an authority in `ca` has signed.

    Names in certificates are not compared with addresses, which may be numbers: the authority and the proof of the
    secret decide. Files that change are loaded again for the next connection.

    Raises ConfigurationError if a file cannot be used.
    """

    def __init__(self, certificate: Path, key: Path | None, ca: Path) -> None:
        self._certificate = certificate
        self._key = key
        self._ca = ca
        self._lock = threading.Lock()
        self._stamps = self._look()
        self._connecting, self._accepting = self._load()

    def wrap(self, connection: socket.socket, connects: bool) -> "TlsSocket":
        """Return the TLS over a connection, of the side that `connects` or the other one. Raises OSError."""
        with self._lock:
            self._reload_if_changed()
            context = self._connecting if connects else self._accepting
        return TlsSocket(context.wrap_socket(connection, server_side=not connects, do_handshake_on_connect=False))

    def _look(self) -> list[object]:
        return [stamp(file) for file in (self._certificate, self._key, self._ca) if file is not None]

    def _reload_if_changed(self) -> None:
        """Load all files again if one has changed. An error is logged once, and the present ones stay in use."""
        stamps = self._look()
        if stamps == self._stamps:
            return
        self._stamps = stamps
        try:
            self._connecting, self._accepting = self._load()
        except ConfigurationError as error:
            log.warning("certificates of the node stay as they were", reason=str(error))
            return
        log.info("certificates of the node loaded", certificate=str(self._certificate))

    def _load(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        """Return the contexts of the side that connects and of the side that accepts."""
        connecting, accepting = self._context(ssl.PROTOCOL_TLS_CLIENT), self._context(ssl.PROTOCOL_TLS_SERVER)
        # Connections between nodes last, and are not resumed.
        accepting.num_tickets = 0
        return connecting, accepting

    def _context(self, protocol: int) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        load_authority(context, self._ca, "cluster.ca")
        load_pair(context, self._certificate, self._key, "cluster.")
        return context


@final
class TlsSocket:
    """A TLS connection that one thread may read while another one writes, with the methods of a socket.

    OpenSSL does not allow two calls for one connection at once. So each call has a lock, which is free while a thread
    waits for the network.
    """

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self._tls = connection
        self._tls.setblocking(False)
        self._lock = threading.Lock()
        self._receive_seconds: float | None = None
        self._send_seconds: float | None = None

    def do_handshake(self, seconds: float) -> None:
        """Agree on keys with the other side. Comes first. Raises TimeoutError, ssl.SSLError and other OSErrors."""
        try:
            self._call(self._tls.do_handshake, seconds)
        except ssl.SSLError as error:
            if error.reason in _NO_TLS:
                with suppress(OSError):
                    # Past TLS: the method of a plain socket.
                    socket.socket.send(self._tls, _ALERT)
            raise

    def settimeout(self, seconds: float) -> None:
        """Let calls raise TimeoutError if nothing moves for so long."""
        self._receive_seconds = self._send_seconds = seconds

    def setsockopt(self, level: int, option: int, value: int) -> None:
        self._tls.setsockopt(level, option, value)

    def sendmsg(self, parts: Sequence[bytes | memoryview]) -> int:
        """Send the beginning of what the parts are together, and return how many bytes that was."""
        chosen = []
        size = 0
        for part in parts:
            chosen.append(part[: _SEND_BYTES - size])
            size += len(chosen[-1])
            if size == _SEND_BYTES:
                break
        data = b"".join(chosen)
        return self._call(lambda: self._tls.send(data), self._send_seconds)

    def recv_into(self, buffer: memoryview) -> int:
        """Read what has come into the buffer, and return its size; 0 at the end of the connection."""
        return self._call(lambda: self._tls.recv_into(buffer), self._receive_seconds)

    def recv_raw_into(self, buffer: memoryview) -> int:
        """Read what has come without decrypting it."""
        return self._call(lambda: socket.socket.recv_into(self._tls, buffer), self._receive_seconds)

    def _call(self, call: Callable[[], T], seconds: float | None) -> T:
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            with self._lock:
                descriptor = self._tls.fileno()
                if descriptor < 0:
                    raise OSError(errno.EBADF, os.strerror(errno.EBADF))
                try:
                    return call()
                except (ssl.SSLWantReadError, BlockingIOError):
                    event = select.POLLIN
                except ssl.SSLWantWriteError:
                    event = select.POLLOUT
            poll = select.poll()
            poll.register(descriptor, event)
            if not poll.poll(None if until is None else max(0.0, until - time.monotonic()) * 1000):
                raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))

    def shutdown(self, how: int) -> None:
        # Past TLS: `shutdown` of an SSLSocket makes a plain one of it, on which another thread could write.
        socket.socket.shutdown(self._tls, how)

    def close(self) -> None:
        # OpenSSL knows the number of the file, which another connection may get next.
        with self._lock:
            self._tls.close()

    # -- plain bytes for an event loop --------------------------------------------------------------------------

    def pumped(self) -> socket.socket:
        """Return a socket of a pair, for the plain bytes of the connection. Two threads carry them until either side
        ends. Nothing else may use the connection any more.
        """
        plain, given = socket.socketpair()
        self._receive_seconds, self._send_seconds = None, _PUMP_SECONDS
        incoming = threading.Thread(target=self._pump_in, args=(plain,), name="flintmq-tls-in", daemon=True)
        outgoing = threading.Thread(target=self._pump_out, args=(plain, incoming), name="flintmq-tls-out", daemon=True)
        incoming.start()
        outgoing.start()
        return given

    def _pump_in(self, plain: socket.socket) -> None:
        buffer = memoryview(bytearray(_SEND_BYTES))
        with suppress(OSError):
            while size := self.recv_into(buffer):
                plain.sendall(buffer[:size])
        self._end(plain)

    def _pump_out(self, plain: socket.socket, incoming: threading.Thread) -> None:
        buffer = memoryview(bytearray(_SEND_BYTES))
        with suppress(OSError):
            while size := plain.recv_into(buffer):
                sent = 0
                while sent < size:
                    sent += self.sendmsg([buffer[sent:size]])
        self._end(plain)
        incoming.join()
        plain.close()
        self.close()

    def _end(self, plain: socket.socket) -> None:
        """Have the other pump end, too, wherever it waits."""
        for each in (plain, self):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def etcd_tls(ca: Path | None, certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Return the TLS for https endpoints of etcd, or None if the authorities that this machine trusts are enough.

    Raises ConfigurationError if a file cannot be used.
    """
    if ca is None and certificate is None:
        return None
    context = ssl.create_default_context() if ca is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca is not None:
        load_authority(context, ca, "cluster.etcd_ca")
    if certificate is not None:
        load_pair(context, certificate, key, "cluster.etcd_")
    return context


def link_error(error: ssl.SSLError) -> LinkError:
    """Return what a failure of TLS before the proof means, and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return Refusal(
            f"the certificate of the other node is not accepted ({error.verify_message}): cluster.ca of this node must "
            "contain the authority that has signed it"
        )
    reason = error.reason or str(error)
    if reason in _NO_TLS:
        return Refusal(
            "this node uses TLS, the other one does not: set cluster.certificate, cluster.key and cluster.ca on all "
            "nodes, or on none"
        )
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError):
        return LinkError("the other node has closed the connection")
    if "ALERT" in reason and ("UNKNOWN_CA" in reason or "CERTIFICATE" in reason):
        return Refusal(
            f"the other node does not accept the certificate of this one ({reason}): it must be valid, and signed by "
            "an authority in cluster.ca of the other node"
        )
    return Refusal(f"TLS with the other node fails ({reason}): check cluster.certificate and cluster.ca on both")
