"""Part 5: the layers for security, as a client finds the server."""

import socket
from dataclasses import replace

import pytest

from flintmq.server.config import Settings, UserSettings
from flintmq.wire.amqp10.performatives import Close, Open, SaslInit, SaslMechanisms, SaslOutcome, SaslResponse
from flintmq.wire.amqp10.spec import PROTOCOL_HEADER, SASL_HEADER, TLS_HEADER
from tests.conformance.amqp10.catalogue import clause, rule
from tests.conformance.amqp10.conftest import Secure
from tests.conformance.amqp10.encoding import encode_body
from tests.conformance.amqp10.peer import SASL_FRAME, Peer, frame
from tests.conformance.brokers import Broker, MemoryBroker, ProcessBroker

GUEST = SaslInit("PLAIN", b"\0guest\0guest")


def _ends_first(sock: socket.socket) -> None:
    """The server's stream is at its end, and it reads on to the end of the client's: nothing is reset."""
    while sock.recv(65_536):
        pass
    # Into a socket that was closed on the other side, the second of these cannot be written at the latest.
    for _ in range(12):
        sock.sendall(bytes(65_536))


@pytest.mark.parametrize("when", ["no handshake", "before login", "refused", "closed", "no TLS"])
@rule("5.1.closed-in-order")
def test_5_1_closed_in_order(process: ProcessBroker, secure: Secure, when: str) -> None:
    """Refused, the client hears so, then the end of the server's stream; what it still says does not reset that.

    The same with TLS: where it is not what follows its header, where nobody logs in behind it, and behind the
    closes of both sides.
    """
    server, context = secure
    with Peer(process.port if when == "no TLS" else server.port) as peer:
        if when != "no TLS":
            peer.exchange_headers(TLS_HEADER)
        if when == "no handshake":
            peer.send(b"no handshake at all, but long enough for one")
        elif when != "no TLS":
            peer.secure(context, "localhost")
        if when == "before login":
            peer.send(PROTOCOL_HEADER)
            assert peer.rest() == SASL_HEADER
        elif when in ("refused", "no TLS"):
            peer.mechanisms()
            assert peer.sasl(SaslInit("PLAIN", b"\0guest\0wrong"), SaslOutcome).code == 1
            assert peer.rest() == b""
        elif when == "closed":
            peer.start().session().sync()
            peer.write(0, Close())
            peer.wait(lambda: peer.closed is not None)
            assert peer.rest() == b""
        with peer.without_tls() as plain:
            _ends_first(plain)


@rule("5.2.tls-header")
def test_5_2_tls_header(broker: Broker, secure: Secure) -> None:
    """Answered by the same header, then TLS, SASL in it and AMQP; without a certificate another header is named."""
    server, context = secure
    with Peer(server.port) as peer:
        peer.exchange_headers(TLS_HEADER)
        peer.secure(context, "localhost")
        peer.start().session().sync()
    with Peer(broker.connect()) as peer:
        peer.send(TLS_HEADER)
        assert peer.rest() in (PROTOCOL_HEADER, SASL_HEADER, b"AMQP\x00\x00\x09\x01")


@rule("5.3.sasl-header")
def test_5_3_sasl_header(raw: Peer) -> None:
    """The server's answer to the header is that header; with SASL behind it, AMQP's own follows the same way."""
    raw.send(SASL_HEADER)
    assert raw.read(8) == SASL_HEADER
    raw.read_frame()
    assert raw.sasl(GUEST, SaslOutcome).code == 0
    raw.exchange_headers()


@rule("5.3.1.frame-bytes-zero")
def test_5_3_1_frame_bytes_zero(raw: Peer) -> None:
    """The server's are zero; ours, being 0x1234, are ignored."""
    raw.exchange_headers(SASL_HEADER)
    head = raw.read(8)
    assert head[6:] == b"\x00\x00"
    raw.read(int.from_bytes(head[:4], "big") - 8)
    raw.send(frame(0x1234, GUEST, kind=SASL_FRAME))
    outcome = raw.read(8)
    assert outcome[5:] == b"\x01\x00\x00"


@rule("5.3.1.doff")
def test_5_3_1_doff(raw: Peer) -> None:
    """2 in the server's; in ours an extended header of four bytes is passed over."""
    raw.exchange_headers(SASL_HEADER)
    head = raw.read(8)
    assert head[4] == 2
    raw.read(int.from_bytes(head[:4], "big") - 8)
    body = b"\xff" * 4 + encode_body(GUEST)
    raw.send((8 + len(body)).to_bytes(4, "big") + b"\x03\x01\x00\x00" + body)
    assert raw.read(8)[4] == 2


@rule("5.3.1.frame-bytes-said-again")
def test_5_3_1_frame_bytes_said_again(raw: Peer) -> None:
    """Mechanisms, a challenge and an outcome: type 1, no extended header, zeros."""
    raw.exchange_headers(SASL_HEADER)
    messages = [b"", frame(0, SaslInit("SCRAM-SHA-256", b"n,,n=guest,r=nonce"), kind=SASL_FRAME)]
    messages.append(frame(0, SaslResponse(b"c=biws,r=no,p=AAAA"), kind=SASL_FRAME))
    for message in messages:
        raw.send(message)
        head = raw.read(8)
        assert head[4:] == b"\x02\x01\x00\x00"
        raw.read(int.from_bytes(head[:4], "big") - 8)


@rule("5.3.2.roles")
def test_5_3_2_roles(broker: Broker) -> None:
    """A client that offers mechanisms, or says what the outcome is, is not let in."""
    for body in (SaslMechanisms(["PLAIN"]), SaslOutcome(0)):
        with Peer(broker.connect()) as peer:
            peer.mechanisms()
            peer.send(frame(0, body, kind=SASL_FRAME), PROTOCOL_HEADER, frame(0, Open("sly")))
            assert encode_body(Open())[:3] not in peer.rest()


@rule("5.3.3.mechanism-unsupported")
def test_5_3_3_mechanism_unsupported(raw: Peer) -> None:
    """The outcome is auth, and the server hangs up."""
    raw.mechanisms()
    assert raw.sasl(SaslInit("TELEPATHY", b"guess"), SaslOutcome).code == 1
    assert raw.rest() == b""


@rule("5.3.3.hostname")
def test_5_3_3_hostname(broker: Broker) -> None:
    """Null in both, the same in both, and in one of them only."""
    for said, opened in ((None, None), ("localhost", "localhost"), ("localhost", None), (None, "localhost")):
        with Peer(broker.connect()) as peer:
            peer.mechanisms()
            assert peer.sasl(SaslInit("PLAIN", b"\0guest\0guest", said), SaslOutcome).code == 0
            peer.exchange_headers()
            peer.open(hostname=opened)


@clause("5.3.2.plain")
def test_5_3_2_plain(broker: Broker) -> None:
    """A wrong password, no such user, nothing at all."""
    for response in (b"\0guest\0wrong", b"\0nobody\0guest", b"", b"guest"):
        with Peer(broker.connect()) as peer:
            peer.mechanisms()
            assert peer.sasl(SaslInit("PLAIN", response), SaslOutcome).code == 1
            assert peer.rest() == b""
    with Peer(broker.connect()) as peer:
        peer.start().session().sync()


@clause("5.3.2.anonymous-off")
def test_5_3_2_anonymous_off(raw: Peer, loaded: Settings) -> None:
    """Offered to this machine, where guest may come in; and refused as soon as guest's password is another one."""
    assert "ANONYMOUS" in raw.mechanisms()
    assert raw.sasl(SaslInit("ANONYMOUS", b"me"), SaslOutcome).code == 0
    users = (UserSettings("guest", "another", vhosts=("/",)),)
    with MemoryBroker(replace(loaded, users=users)) as broker, Peer(broker.connect()) as peer:
        peer.mechanisms()
        assert peer.sasl(SaslInit("ANONYMOUS", b"me"), SaslOutcome).code == 1


@clause("5.3.2.without-sasl")
def test_5_3_2_without_sasl(raw: Peer) -> None:
    """AMQP's header at once: the server names the one of SASL, and hangs up."""
    raw.send(PROTOCOL_HEADER, frame(0, Open("hasty")))
    assert raw.rest() == SASL_HEADER
