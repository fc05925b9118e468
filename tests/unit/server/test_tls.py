import asyncio
import ssl
from contextlib import suppress

import pytest
import trustme

from flintmq.base.errors import ConnectionLost
from flintmq.server.tls import TlsTransport


class Below(asyncio.Transport):
    """What is written to it stays here."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return False


def test_nothing_is_gathered_behind_the_end() -> None:
    """A client that said it sends nothing more, and goes on sending, is not listened to: nothing would bound that."""
    authority = trustme.CA()
    for_server, for_client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(for_server)
    authority.configure_trust(for_client)
    below = Below()
    transport = TlsTransport(below, for_server)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = for_client.wrap_bio(incoming, outgoing, server_hostname="localhost")
    while not transport.is_established:
        with suppress(ssl.SSLWantReadError):
            client.do_handshake()
        transport.receive(outgoing.read())
        incoming.write(bytes(below.written))
        below.written.clear()
    client.write(b"the last words")
    with pytest.raises(ssl.SSLWantReadError):
        client.unwrap()
    assert transport.receive(outgoing.read()) == b"the last words"
    with pytest.raises(ConnectionLost):
        transport.receive(bytes(1024))
