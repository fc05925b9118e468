"""Proton's logins: over TLS, by certificate, and without a name."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from proton import ConnectionException, Message, SSLDomain
from proton.utils import BlockingConnection

from tests.interop.peer import WAIT_SECONDS
from tests.servers import BrokerProcess


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates: of the authority, the broker, and the client "guest"."""
    made = tmp_path_factory.mktemp("proton")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(made / "ca.pem")
    authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(made / "server.pem")
    client = authority.issue_cert("client", common_name="guest")
    client.cert_chain_pems[0].write_to_path(made / "guest.pem")
    client.private_key_pem.write_to_path(made / "guest.key")
    return made


@pytest.fixture(scope="module")
def broker(directory: Path) -> Iterator[BrokerProcess]:
    settings: dict[str, Any] = {
        "FLINTMQ_TLS_CERTIFICATE": str(directory / "server.pem"),
        "FLINTMQ_TLS_CA": str(directory / "ca.pem"),
        "FLINTMQ_TLS_PORT": "0",
        "FLINTMQ_TLS_VERIFY": "optional",
        "FLINTMQ_AUTH_MECHANISMS": "PLAIN EXTERNAL ANONYMOUS",
        "FLINTMQ_AUTH_ANONYMOUS_USER": "guest",
    }
    with BrokerProcess(directory / "data", **settings) as running:
        yield running


def use(connection: BlockingConnection) -> None:
    """A message there and back, by a node that the broker makes."""
    receiver = connection.create_receiver(None, dynamic=True, credit=1)
    connection.create_sender(receiver.link.remote_source.address).send(Message("hello"))
    assert receiver.receive().body == "hello"
    receiver.accept()
    connection.close()


def trusting(directory: Path) -> SSLDomain:
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(str(directory / "ca.pem"))
    domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
    return domain


@pytest.fixture(params=["its own", "the ordinary"])
def port(request: pytest.FixtureRequest, broker: BrokerProcess) -> int:
    return broker.port if request.param == "the ordinary" else broker.tls_port


def test_tls(broker: BrokerProcess, directory: Path, port: int) -> None:
    """A client that trusts the broker's certificate comes in, at either port."""
    url = f"amqps://guest:guest@localhost:{port}"
    use(BlockingConnection(url, timeout=WAIT_SECONDS, ssl_domain=trusting(directory), allowed_mechs="PLAIN"))


def test_a_certificate_that_nobody_trusts(broker: BrokerProcess, port: int) -> None:
    """A client that does not know who signed the broker's certificate stays outside."""
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
    with pytest.raises(ConnectionException):
        BlockingConnection(f"amqps://guest:guest@localhost:{port}", timeout=WAIT_SECONDS, ssl_domain=domain)


def test_a_login_by_certificate(broker: BrokerProcess, directory: Path, port: int) -> None:
    """The common name of the client's certificate is who it is, and no password is asked for."""
    domain = trusting(directory)
    domain.set_credentials(str(directory / "guest.pem"), str(directory / "guest.key"), None)
    connection = BlockingConnection(
        f"amqps://localhost:{port}", timeout=WAIT_SECONDS, ssl_domain=domain, allowed_mechs="EXTERNAL"
    )
    use(connection)


def test_a_login_without_a_name(broker: BrokerProcess) -> None:
    """Where it is configured, who says nothing is the anonymous user."""
    use(BlockingConnection(f"amqp://127.0.0.1:{broker.port}", timeout=WAIT_SECONDS, allowed_mechs="ANONYMOUS"))
