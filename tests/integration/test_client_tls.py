"""Our own clients over TLS: 0-9-1 and 1.0, blocking and asyncio."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

import flintmq.client as fc
import flintmq.client.amqp10 as amqp
from tests.integration.conftest import Connect, Connect10
from tests.servers import BrokerProcess

BODY = bytes(range(256)) * 8192


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("client-tls")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(made / "ca.pem")
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(made / "server.pem")
    authority.issue_cert("client", common_name="guest").private_key_and_cert_chain_pem.write_to_path(made / "guest.pem")
    return made


@pytest.fixture(scope="module")
def broker(directory: Path) -> Iterator[BrokerProcess]:
    settings: dict[str, Any] = {
        "FLINTMQ_TLS_CERTIFICATE": str(directory / "server.pem"),
        "FLINTMQ_TLS_CA": str(directory / "ca.pem"),
        "FLINTMQ_TLS_VERIFY": "optional",
    }
    with BrokerProcess(directory / "data", **settings) as running:
        yield running


@pytest.fixture
def url(broker: BrokerProcess, directory: Path) -> str:
    return f"amqps://guest:guest@localhost:{broker.port}/%2f?cacertfile={directory / 'ca.pem'}"


def test_a_message_there_and_back(connect: Connect, url: str) -> None:
    """A message of megabytes, and a thousand small ones, are published and consumed over TLS."""
    with connect(url) as connection, connection.channel(confirms=True) as channel:
        queue = channel.declare_queue("", exclusive=True).name
        sent = [BODY, *(b"%d" % number for number in range(1000))]
        assert channel.publish_batch(("", queue, body) for body in sent) == 1001
        got: list[bytes] = []
        for batch in channel.consume(queue, prefetch=2000, timeout=60.0):
            got += [message.body for message in batch.messages]
            if len(got) >= len(sent):
                break
        assert got == sent


def test_a_message_there_and_back_by_10(connect_10: Connect10, url: str) -> None:
    """The same over AMQP 1.0."""
    with connect_10(url) as connection:
        receiver = connection.receiver(amqp.Source(dynamic=True), credit=2000)
        source = receiver.server.source
        assert source is not None
        sender = connection.sender(source.address)
        sent = [BODY, *(b"%d" % number for number in range(1000))]
        assert sender.send_batch(amqp.Message(body) for body in sent) == 1001
        got: list[object] = []
        for batch in receiver.batches(timeout=60.0):
            got += [delivery.message.body for delivery in batch.messages]
            batch.accept()
            if len(got) >= len(sent):
                break
        assert got == sent


def test_a_login_by_certificate(connect_10: Connect10, url: str, directory: Path) -> None:
    """The client is who its certificate says."""
    with connect_10(f"{url}&certfile={directory / 'guest.pem'}", mechanism="EXTERNAL") as connection:
        assert connection.is_open


@pytest.mark.parametrize("how", ["nobody's certificate", "another name"])
def test_a_server_that_cannot_be_trusted(connect: Connect, broker: BrokerProcess, url: str, how: str) -> None:
    """Nothing is said to a server whose certificate is signed by a stranger, or names somebody else."""
    if how == "another name":
        url = url.replace("localhost", "127.0.0.1")
    else:
        url = f"amqps://guest:guest@localhost:{broker.port}/%2f"
    with pytest.raises(fc.ConnectFailed, match="(?i)certificate"):
        connect(url)


def test_a_server_that_is_not_checked(connect: Connect, broker: BrokerProcess) -> None:
    """Where the URL says so, any certificate will do."""
    with connect(f"amqps://guest:guest@127.0.0.1:{broker.port}/%2f?verify=verify_none") as connection:
        assert connection.is_open


def test_files_that_are_not_there(connect: Connect, broker: BrokerProcess) -> None:
    """The URL is refused, and says that it is for its files."""
    with pytest.raises(fc.InvalidUrl, match="TLS files"):
        connect(f"amqps://localhost:{broker.port}/?cacertfile=/no/such/file")
