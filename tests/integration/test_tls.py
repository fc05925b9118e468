"""TLS on its own port, and on the ordinary one: by a protocol header for it, or from the first byte on."""

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pika
import pika.exceptions
import pytest
import trustme

from flintmq.wire.amqp091.frames import PROTOCOL_HEADER
from flintmq.wire.amqp091.methods import (
    BasicConsume,
    ConnectionClose,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)
from tests.servers import BrokerProcess
from tests.sockets import AmqpSocket, publish_frames
from tests.waiting import WAIT_SECONDS

TLS_HEADER = b"AMQP\x02\x01\x00\x00"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def broker(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """It verifies the certificates of clients that have one, and `guest` may log in by one."""
    directory = tmp_path_factory.mktemp("tls")
    authority.cert_pem.write_to_path(directory / "ca.pem")
    authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
        directory / "server.pem"
    )
    settings: dict[str, Any] = {
        "FLINTMQ_TLS_CERTIFICATE": str(directory / "server.pem"),
        "FLINTMQ_TLS_CA": str(directory / "ca.pem"),
        "FLINTMQ_TLS_PORT": "0",
        "FLINTMQ_TLS_VERIFY": "optional",
    }
    with BrokerProcess(directory / "data", **settings) as running:
        yield running
        assert running.stop() == 0


@pytest.fixture(scope="module")
def tls_port(broker: BrokerProcess) -> int:
    return broker.tls_port


@pytest.fixture(scope="module")
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """A client that trusts who signed the broker's certificate."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def _use(parameters: pika.ConnectionParameters) -> None:
    """A megabyte there and back, confirmed."""
    with closing(pika.BlockingConnection(parameters)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        queue = channel.queue_declare("", exclusive=True).method.queue
        body = bytes(range(256)) * 4096
        for _ in range(5):
            channel.basic_publish("", queue, body, mandatory=True)
        for _ in range(5):
            assert channel.basic_get(queue, auto_ack=True)[2] == body


@pytest.mark.parametrize("port", ["its own", "the ordinary"])
def test_a_client_over_tls(broker: BrokerProcess, tls_port: int, trusting: ssl.SSLContext, port: str) -> None:
    """pika works over TLS on either port, as on a plain socket."""
    options = pika.SSLOptions(trusting, "localhost")
    _use(pika.ConnectionParameters("127.0.0.1", tls_port if port == "its own" else broker.port, ssl_options=options))


def test_plain_sockets_go_on(broker: BrokerProcess) -> None:
    """The ordinary port is that for clients without TLS, too."""
    _use(pika.ConnectionParameters("127.0.0.1", broker.port))


def _wrapped(raw: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
    raw.settimeout(WAIT_SECONDS)
    return context.wrap_socket(raw, server_hostname="localhost")


def test_the_header_for_tls(broker: BrokerProcess, trusting: ssl.SSLContext) -> None:
    """A client that asks for TLS by AMQP's header gets the header back, and then TLS (amqp-1.0 §5.2.1)."""
    with socket.create_connection(("127.0.0.1", broker.port), WAIT_SECONDS) as raw:
        for byte in TLS_HEADER:
            raw.send(bytes([byte]))
        assert raw.recv(8, socket.MSG_WAITALL) == TLS_HEADER
        with _wrapped(raw, trusting) as secure:
            secure.send(PROTOCOL_HEADER)
            assert secure.recv(1) == b"\x01"


def test_tls_right_behind_the_header(broker: BrokerProcess, trusting: ssl.SSLContext) -> None:
    """What came together with the header counts, even where the client did not wait for ours."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    secure = trusting.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        secure.do_handshake()
    with socket.create_connection(("127.0.0.1", broker.port), WAIT_SECONDS) as raw:
        raw.sendall(TLS_HEADER + outgoing.read())
        assert raw.recv(8, socket.MSG_WAITALL) == TLS_HEADER
        while True:
            try:
                secure.do_handshake()
                break
            except ssl.SSLWantReadError:
                raw.sendall(outgoing.read())
                incoming.write(raw.recv(65536))
        secure.write(PROTOCOL_HEADER)
        raw.sendall(outgoing.read())


def test_another_version_of_the_header(broker: BrokerProcess) -> None:
    """The header we know is the answer, and then the socket is closed (amqp-1.0 §2.2)."""
    with socket.create_connection(("127.0.0.1", broker.port), WAIT_SECONDS) as raw:
        raw.sendall(b"AMQP\x02\x02\x00\x00")
        assert raw.recv(8, socket.MSG_WAITALL) == TLS_HEADER
        assert raw.recv(1) == b""


def test_tls_within_tls(tls_port: int, trusting: ssl.SSLContext) -> None:
    """One layer of TLS is all there is: a header for another is answered like any header that is not known."""
    with socket.create_connection(("127.0.0.1", tls_port), WAIT_SECONDS) as raw, _wrapped(raw, trusting) as secure:
        secure.send(TLS_HEADER)
        assert secure.recv(8).startswith(b"AMQP")
        assert secure.recv(1) == b""


@pytest.mark.parametrize("rubbish", [b"\x16\x03\x01\xff\xff" + bytes(200), PROTOCOL_HEADER, b"GET / HTTP/1.1\r\n\r\n"])
def test_no_tls(broker: BrokerProcess, tls_port: int, trusting: ssl.SSLContext, rubbish: bytes) -> None:
    """Whoever does not speak TLS where it is due costs a line of the log."""
    with socket.create_connection(("127.0.0.1", tls_port), WAIT_SECONDS) as raw:
        raw.sendall(rubbish)
        name = "{}:{}".format(*raw.getsockname())
        line = broker.wait_for_log("connection refused", peer=name)
        assert line["reason"].startswith("TLS: ")
    with socket.create_connection(("127.0.0.1", tls_port), WAIT_SECONDS) as raw, _wrapped(raw, trusting) as secure:
        secure.send(PROTOCOL_HEADER)
        assert secure.recv(1) == b"\x01"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_versions_that_are_not_safe(tls_port: int, trusting: ssl.SSLContext) -> None:
    """TLS 1.1 and older are refused."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    with (
        socket.create_connection(("127.0.0.1", tls_port), WAIT_SECONDS) as raw,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        _wrapped(raw, context)


def _external(port: int, context: ssl.SSLContext) -> pika.ConnectionParameters:
    return pika.ConnectionParameters(
        "127.0.0.1",
        port,
        ssl_options=pika.SSLOptions(context, "localhost"),
        credentials=pika.credentials.ExternalCredentials(),
    )


def _with_certificate(authority: trustme.CA, trusted: trustme.CA, name: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    trusted.configure_trust(context)
    authority.issue_cert("client", common_name=name).configure_cert(context)
    return context


def test_login_by_certificate(authority: trustme.CA, tls_port: int) -> None:
    """EXTERNAL: the common name of a certificate that our authority signed is who the client is."""
    _use(_external(tls_port, _with_certificate(authority, authority, "guest")))


def test_a_certificate_of_nobody(authority: trustme.CA, tls_port: int) -> None:
    """A good certificate is no user yet."""
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pika.BlockingConnection(_external(tls_port, _with_certificate(authority, authority, "stranger")))


def test_a_certificate_that_somebody_else_signed(authority: trustme.CA, tls_port: int) -> None:
    """It is refused, although a client without one may come in."""
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pika.BlockingConnection(_external(tls_port, _with_certificate(trustme.CA(), authority, "guest")))


def test_no_certificate_no_external(tls_port: int, trusting: ssl.SSLContext) -> None:
    """It is not offered to a client that has shown none."""
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pika.BlockingConnection(_external(tls_port, trusting))


def _own_address() -> str:
    """One of this machine that is none of its loopback interface's; empty where it has no network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Nothing is sent: the system says which address it would send from.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return ""
        address: str = probe.getsockname()[0]
        return address


def test_where_certificates_are_required_nobody_elsewhere_comes_without(
    authority: trustme.CA, trusting: ssl.SSLContext, tmp_path: Path
) -> None:
    """The ordinary port, too, wants TLS and a certificate of other machines, and the API a login by TLS; this machine
    need not show one, and the log says so.
    """
    elsewhere = _own_address()
    if not elsewhere:
        pytest.skip("this machine has no address but the loopback interface's")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("localhost", "127.0.0.1", elsewhere).private_key_and_cert_chain_pem.write_to_path(
        tmp_path / "server.pem"
    )
    settings: dict[str, Any] = {
        "FLINTMQ_TLS_CERTIFICATE": str(tmp_path / "server.pem"),
        "FLINTMQ_TLS_CA": str(tmp_path / "ca.pem"),
        "FLINTMQ_TLS_PORT": "0",
        "FLINTMQ_TLS_VERIFY": "required",
        "FLINTMQ_LISTEN_HOST": "0.0.0.0",
        "FLINTMQ_MANAGEMENT_HOST": "0.0.0.0",
        "FLINTMQ_AUTH_ALLOW_CLEAR_TEXT": "true",
        "FLINTMQ_DEFAULT_USER_NAME": "anna",
        "FLINTMQ_DEFAULT_USER_PASSWORD": "secret",
    }
    login = pika.PlainCredentials("anna", "secret")
    with BrokerProcess(tmp_path / "data", **settings) as broker:
        broker.wait_for_log("clients on this machine need no certificate; all others do")
        _use(pika.ConnectionParameters("127.0.0.1", broker.port, credentials=login))
        with socket.create_connection((elsewhere, broker.port), WAIT_SECONDS) as stranger:
            stranger.sendall(PROTOCOL_HEADER)
            assert stranger.makefile("rb").read() == TLS_HEADER
        line = broker.wait_for_log("connection refused")
        assert 'tls.verify is "required"' in line["reason"]
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            _use(
                pika.ConnectionParameters(
                    elsewhere, broker.port, credentials=login, ssl_options=pika.SSLOptions(trusting, elsewhere)
                )
            )
        ours = ssl.create_default_context()
        authority.configure_trust(ours)
        authority.issue_cert("anna@example.org", common_name="anna").configure_cert(ours)
        shown = pika.SSLOptions(ours, elsewhere)
        _use(pika.ConnectionParameters(elsewhere, broker.port, credentials=login, ssl_options=shown))
        port = broker.http_url.rpartition(":")[2]
        answers = [
            httpx.get(f"http://{host}:{port}/api/whoami", auth=("anna", "secret"), timeout=60).status_code
            for host in ("127.0.0.1", elsewhere)
        ]
        assert answers[0] == 200
        assert answers[1] in (401, 403)
        assert broker.stop() == 0


def _sockets(broker: BrokerProcess) -> int:
    pids = [broker.process.pid, *broker.workers]
    return sum(file.is_socket() for pid in pids for file in Path(f"/proc/{pid}/fd").iterdir())


def test_a_client_that_closes_and_reads_nothing(broker: BrokerProcess, tls_port: int, trusting: ssl.SSLContext) -> None:
    """What waits for it keeps its socket for some seconds only, not for as long as it likes."""
    broker.wait_for_log("listening", matches=lambda line: "https" in line)
    with AmqpSocket(broker.port) as other, AmqpSocket(tls_port) as client:
        # Now, because a client that does not log in for ten seconds is hung up on.
        client.secure(trusting, "localhost")
        client.open().open_channel()
        other.open().open_channel()
        other.call(1, QueueDeclare(queue="unread"), QueueDeclareOk)
        for _ in range(32):
            other.send(publish_frames(1, "", "unread", bytes(1024 * 1024)))
        client.send_method(1, BasicConsume(queue="unread", no_ack=True, no_wait=True))
        while other.call(1, QueueDeclare(queue="unread"), QueueDeclareOk).message_count == 32:
            time.sleep(0.05)
        sockets = _sockets(broker)
        client.send_method(0, ConnectionClose(reply_code=200, reply_text="bye"))
        while _sockets(broker) >= sockets:
            time.sleep(0.05)
        other.call(1, QueueDelete(queue="unread"), QueueDeleteOk)
