"""TLS over an existing transport: from the first byte on, or after AMQP's protocol header for TLS.

OpenSSL works on bytes in memory: the bytes that a client sends directly after the header have been read when TLS
begins, and no event loop takes bytes back.
"""

import asyncio
import ssl
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, final

from flintmq.base.errors import ConnectionLost
from flintmq.server.certificates import Certificate

# The size of a read. OpenSSL returns one record at a time, which has 16 KiB at most.
_READ_BYTES: Final = 256 * 1024


@final
class TlsTransport(asyncio.Transport):
    """Encrypts written bytes, and writes them to another transport. `receive` decrypts received bytes."""

    def __init__(self, transport: asyncio.Transport, context: ssl.SSLContext) -> None:
        super().__init__()
        self._transport = transport
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.is_established = False
        # Whether the client has sent its close_notify alert.
        self.is_peer_closed = False

    def receive(self, data: bytes) -> bytes:
        """Decrypt received bytes. Raises ConnectionLost, after sending the alert, if the peer violates TLS."""
        if self.is_peer_closed:
            # OpenSSL would not read the data any more, and it would only fill memory.
            raise ConnectionLost("TLS: data after the end")
        self._incoming.write(data)
        try:
            if not self.is_established:
                self._tls.do_handshake()
                self.is_established = True
            return self._read()
        except ssl.SSLWantReadError:
            return b""
        except ssl.SSLError as error:
            raise ConnectionLost(f"TLS: {error.reason or error}") from error
        finally:
            self._flush()

    def _read(self) -> bytes:
        parts: list[bytes] = []
        try:
            while part := self._tls.read(_READ_BYTES):
                parts.append(part)
            self.is_peer_closed = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            # The client sends nothing more and will close the socket. The bytes before count.
            self.is_peer_closed = True
        return parts[0] if len(parts) == 1 else b"".join(parts)

    @property
    def certificate(self) -> Certificate:
        """Return the client's certificate, as `getpeercert` gives it; None if the client has presented none."""
        return self._tls.getpeercert()

    def _flush(self) -> None:
        out = self._outgoing.read()
        if out and not self._transport.is_closing():
            self._transport.write(out)

    def write(self, data: "bytes | bytearray | memoryview[Any]") -> None:
        self._tls.write(data)
        self._flush()

    def writelines(self, list_of_data: "Iterable[bytes | bytearray | memoryview[Any]]") -> None:
        for data in list_of_data:
            self._tls.write(data)
        self._flush()

    def can_write_eof(self) -> bool:
        return self._transport.can_write_eof()

    def write_eof(self) -> None:
        """End our side of TLS and of the socket. Later bytes of the peer must not be given to `receive`."""
        self._send_close_notify()
        if not self._transport.is_closing():
            self._transport.write_eof()

    def close(self) -> None:
        self._send_close_notify()
        self._transport.close()

    def _send_close_notify(self) -> None:
        if self.is_established and not self._transport.is_closing():
            # OpenSSL raises an error if the peer has not sent its own alert yet, which it need not.
            with suppress(ssl.SSLError):
                self._tls.unwrap()
            self._flush()

    def abort(self) -> None:
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self._transport.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()
