"""Rules for clients, kept by ours: `flintmq.client.amqp10`, against a server that does as the test says."""

import socket
import threading
from concurrent.futures import Future
from contextlib import suppress

import pytest

import flintmq.client as fc
from flintmq.base.errors import FlintError
from flintmq.client import amqp10
from flintmq.client.amqp10 import coordinator
from flintmq.wire.amqp10.performatives import SaslInit, SaslMechanisms
from flintmq.wire.amqp10.spec import PROTOCOL_HEADER, SASL_HEADER
from flintmq.wire.amqp10.termini import Coordinator
from tests.conformance.amqp10.catalogue import rule
from tests.conformance.amqp10.encoding import decode_body
from tests.conformance.amqp10.peer import SASL_FRAME, frame
from tests.servers import BrokerProcess


def _heard(*answers: bytes) -> bytes:
    """What our client says to a server that says this, a piece whenever the client has said something."""
    heard: Future[bytes] = Future()

    def serve(listener: socket.socket) -> None:
        sock, _ = listener.accept()
        with sock:
            sock.settimeout(30)
            said = b""
            for answer in answers:
                said += sock.recv(65_536)
                sock.sendall(answer)
            with suppress(OSError):
                sock.shutdown(socket.SHUT_WR)
            while data := sock.recv(65_536):
                said += data
            heard.set_result(said)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        with pytest.raises(FlintError):
            amqp10.connect(f"amqp://guest:guest@127.0.0.1:{listener.getsockname()[1]}/", timeout=5)
        return heard.result(30)


@rule("2.2.opener-speaks-first")
def test_2_2_opener_speaks_first() -> None:
    """The server says nothing before it has the client's header."""
    assert _heard(b"").startswith(SASL_HEADER)


@rule("2.2.client-header")
def test_2_2_client_header() -> None:
    """Eight bytes: 1.0.0, of SASL's layer because it logs in; on another answer it says no more."""
    assert _heard(b"AMQP\x00\x00\x09\x01") == SASL_HEADER


@rule("5.3.3.best-mechanism")
def test_5_3_3_best_mechanism() -> None:
    """Of a list, the one that it was told to use or knows; where there is none such, no password is said."""
    offer = frame(0, SaslMechanisms(["TELEPATHY", "PLAIN"]), kind=SASL_FRAME)
    said = _heard(SASL_HEADER + offer)
    init, _ = decode_body(said[len(SASL_HEADER) + 8 :])
    assert isinstance(init, SaslInit)
    assert (init.mechanism, init.initial_response) == ("PLAIN", b"\0guest\0guest")
    said = _heard(SASL_HEADER + frame(0, SaslMechanisms(["TELEPATHY"]), kind=SASL_FRAME))
    assert b"guest" not in said
    assert PROTOCOL_HEADER not in said


@rule("5.2.server-name")
def test_5_2_server_name() -> None:
    """Our client has no TLS yet: a URL that asks for it is refused, and no connection is made without it."""
    with pytest.raises(FlintError, match="TLS"):
        amqp10.connect("amqps://localhost/")


@rule("5.2.certificate")
def test_5_2_certificate() -> None:
    """No certificate is trusted unseen: neither client connects to a URL that asks for TLS."""
    with pytest.raises(FlintError, match="TLS"):
        fc.connect("amqps://localhost/")
    with pytest.raises(FlintError, match="TLS"):
        amqp10.connect("amqps://127.0.0.1/")


@rule("4.2.rejected-allowed")
def test_4_2_rejected_allowed(broker: BrokerProcess) -> None:
    """Its source names rejected among the outcomes; the server's answer does, too."""
    link = coordinator.coordinator("control")
    assert isinstance(link.target, Coordinator)
    assert "amqp:rejected:list" in link.source.outcomes
    with amqp10.connect(broker.url) as connection, connection.transaction():
        pass
