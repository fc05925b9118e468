"""Rules for clients, kept by ours: `flintmq.client.amqp10`, against a server that does as the test says."""

import socket
import ssl
import threading
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

import pytest
import trustme

from flintmq.base.errors import FlintError
from flintmq.client import amqp10
from flintmq.client.amqp10 import coordinator
from flintmq.wire.amqp10.performatives import SaslInit, SaslMechanisms
from flintmq.wire.amqp10.spec import PROTOCOL_HEADER, SASL_HEADER
from flintmq.wire.amqp10.termini import Coordinator
from tests.conformance.amqp10.catalogue import rule
from tests.conformance.amqp10.encoding import decode_body
from tests.conformance.amqp10.peer import SASL_FRAME, frame
from tests.conformance.brokers import ProcessBroker
from tests.waiting import WAIT_SECONDS

# As the specification has it, whatever our sources say.
_HEADER = b"AMQP\x03\x01\x00\x00"


def _heard(*answers: bytes) -> bytes:
    """What our client says to a server that says this, a piece whenever the client has said something."""
    heard: Future[bytes] = Future()

    def serve(listener: socket.socket) -> None:
        sock, _ = listener.accept()
        with sock:
            sock.settimeout(WAIT_SECONDS)
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
            amqp10.connect(f"amqp://guest:guest@127.0.0.1:{listener.getsockname()[1]}/", timeout=WAIT_SECONDS)
        return heard.result(WAIT_SECONDS)


@rule("2.2.opener-speaks-first")
def test_2_2_opener_speaks_first() -> None:
    """The server says nothing before it has the client's header."""
    assert _heard(b"").startswith(_HEADER)


@rule("2.2.client-header")
def test_2_2_client_header() -> None:
    """Eight bytes: 1.0.0, of SASL's layer because it logs in; on another answer it says no more."""
    assert _heard(b"AMQP\x00\x00\x09\x01") == _HEADER


def _chosen(*mechanisms: str) -> SaslInit:
    """What our client answers to an offer of these, where nobody told it which to take."""
    said = _heard(SASL_HEADER + frame(0, SaslMechanisms([*mechanisms]), kind=SASL_FRAME))
    init, _ = decode_body(said[len(SASL_HEADER) + 8 :])
    assert isinstance(init, SaslInit)
    return init


@rule(
    "5.3.3.best-mechanism",
    not_yet="It takes PLAIN unless it is told otherwise: users who came with a hash of RabbitMQ's have no keys for "
    "SCRAM before their first login by PLAIN",
)
def test_5_3_3_best_mechanism() -> None:
    """SCRAM, by which no password is said, where it is offered beside PLAIN."""
    assert _chosen("TELEPATHY", "PLAIN", "SCRAM-SHA-256").mechanism == "SCRAM-SHA-256"


def test_a_mechanism_that_it_knows() -> None:
    """5.3.3.best-mechanism: PLAIN, wherever it stands in the list; where there is none, no password is said."""
    init = _chosen("TELEPATHY", "PLAIN")
    assert (init.mechanism, init.initial_response) == ("PLAIN", b"\0guest\0guest")
    said = _heard(SASL_HEADER + frame(0, SaslMechanisms(["TELEPATHY"]), kind=SASL_FRAME))
    assert b"guest" not in said
    assert PROTOCOL_HEADER not in said


def _named(ca_file: Path, context: ssl.SSLContext) -> tuple[str | None, str]:
    """The name by which our client asks for a TLS server, and what it says of the one that it got."""
    names: list[str | None] = [None]
    context.sni_callback = lambda _, name, __: names.append(name)

    def serve(listener: socket.socket) -> None:
        sock, _ = listener.accept()
        with sock, suppress(OSError), context.wrap_socket(sock, server_side=True):
            pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        with pytest.raises(FlintError) as raised:
            amqp10.connect(f"amqps://localhost:{listener.getsockname()[1]}/?cacertfile={ca_file}", timeout=WAIT_SECONDS)
        thread.join(WAIT_SECONDS)
    return names[-1], str(raised.value)


def _certified(directory: Path, name: str) -> tuple[Path, ssl.SSLContext]:
    """Whom to trust, and a server that has a certificate of theirs for this name."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(directory / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return directory / "ca.pem", context


@rule("5.2.server-name")
def test_5_2_server_name(tmp_path: Path) -> None:
    """The host of the URL is the name that the server is told."""
    name, said = _named(*_certified(tmp_path, "localhost"))
    assert name == "localhost"
    # It came as far as AMQP, which this server does not speak.
    assert "certificate" not in said


@rule("5.2.certificate")
def test_5_2_certificate(tmp_path: Path) -> None:
    """A certificate for somebody else, or of an authority that is not trusted, ends the connection before it begins."""
    ca_file, context = _certified(tmp_path, "elsewhere.example")
    assert "certificate" in _named(ca_file, context)[1]
    (tmp_path / "other").mkdir()
    _, context = _certified(tmp_path / "other", "localhost")
    assert "certificate" in _named(ca_file, context)[1]


@rule("4.2.rejected-allowed")
def test_4_2_rejected_allowed(process: ProcessBroker) -> None:
    """Its source names rejected among the outcomes; the server's answer does, too."""
    link = coordinator.coordinator("control")
    assert isinstance(link.target, Coordinator)
    assert "amqp:rejected:list" in link.source.outcomes
    with amqp10.connect(process.url) as connection, connection.transaction():
        pass
