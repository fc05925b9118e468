"""Where a broker listens is tried out before it starts."""

import errno
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.server.addresses import Address, addresses
from flintmq.server.config import ManagementSettings, Settings, TlsSettings
from tests.servers import free_port

AMQP = Address("AMQP", "127.0.0.1", 0, "listen.port", "listen.host")


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def test_a_port_in_use(taken: int) -> None:
    """It is named, with what listens there in vain, and the setting; beside it there is room."""
    with pytest.raises(FlintError) as caught:
        replace(AMQP, port=taken).try_out()
    assert str(caught.value).startswith(f"cannot listen on 127.0.0.1:{taken} (Address already in use) for AMQP: ")
    assert str(caught.value).endswith("choose another port with listen.port")
    AMQP.try_out()


def test_all_addresses_of_a_name_count(taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that leads to a free address and to one in use cannot be listened on; nor can one that leads nowhere."""
    here = (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 0))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [here, (*here[:4], ("127.0.0.1", taken))])
    with pytest.raises(FlintError, match="another program listens there"):
        replace(AMQP, host="both.example").try_out()
    monkeypatch.undo()
    with pytest.raises(FlintError, match="an address of this machine with listen.host"):
        replace(AMQP, host="192.0.2.1").try_out()


def test_two_on_one_port() -> None:
    """Both settings are named; any port that is free may be asked for twice."""
    http = ManagementSettings(host="127.0.0.1", port=5672)
    with pytest.raises(ConfigurationError, match=r"AMQP and HTTP are both .* 127\.0\.0\.1:5672: .* management\.port"):
        addresses(replace(Settings(), management=http))
    addresses(replace(Settings(), listen=replace(Settings().listen, port=0), management=replace(http, port=0)))


def test_trying_out_leaves_nothing_behind() -> None:
    """A port that was tried out is free for whoever listens next."""
    port = free_port()
    for _ in range(2):
        replace(AMQP, port=port).try_out()
    socket.create_server(("127.0.0.1", port)).close()


def test_a_port_that_takes_a_right() -> None:
    """Who may not listen on low ports is told of higher ones."""
    refused = replace(AMQP, port=80).refused(OSError(errno.EACCES, "Permission denied"))
    assert str(refused).endswith("Choose one above 1023 with listen.port")


def test_what_is_listened_on() -> None:
    """TLS adds a port to each protocol, and without management there is no HTTP."""
    with_tls = Settings(tls=TlsSettings(certificate=Path("server.pem")))
    assert {name: (each.port, each.port_setting.split()[0]) for name, each in addresses(with_tls).items()} == {
        "amqp": (5672, "listen.port"),
        "amqp/ssl": (5671, "tls.port"),
        "http": (15672, "management.port"),
        "https": (15671, "management.tls_port"),
    }
    assert list(addresses(Settings(management=ManagementSettings(enabled=False)))) == ["amqp"]
