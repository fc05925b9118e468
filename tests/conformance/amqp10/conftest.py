"""Brokers, peers for each test, and a client of the older protocol that makes queues for them."""

import ssl
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme

from flintmq.server.config import Settings
from tests.conformance.amqp10.peer import Peer
from tests.conformance.amqp10.queues import Queues
from tests.conformance.amqp10.session import Session
from tests.conformance.brokers import Broker, MemoryBroker, ProcessBroker
from tests.servers import BrokerProcess

Connect = Callable[..., Peer]
Secure = tuple[BrokerProcess, ssl.SSLContext]

_SETTINGS = """
[definitions]
load = "definitions.json"
[limits]
message_max_bytes = 67_108_864
[[vhosts]]
name = "/"
[[vhosts]]
name = "other"
[[vhosts]]
name = "strict"
dialect = "strict"
[[users]]
name = "guest"
password = "guest"
vhosts = ["/", "other", "strict"]
[[users]]
name = "limited"
password = "limited"
vhosts = ["/"]
"""
# Somebody who may use what is called so, and nothing else.
_DEFINITIONS = """{
"users": [{"name": "narrow", "password": "narrow", "tags": ""}],
"permissions": [{"user": "narrow", "vhost": "/", "configure": "^$", "write": "^allowed-", "read": "^allowed-"}]
}"""


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three virtual hosts, one of the strict dialect; a user for all, one for the first, one for little of that."""
    file = tmp_path_factory.mktemp("amqp10") / "flintmq.toml"
    definitions = file.with_name("definitions.json")
    definitions.write_text(_DEFINITIONS)
    file.write_text(_SETTINGS.replace(definitions.name, str(definitions)))
    return file


@pytest.fixture(scope="session")
def process(settings: Path) -> Iterator[ProcessBroker]:
    with ProcessBroker(settings.with_name("data"), "--config", str(settings)) as running:
        yield running
        internal = [line for line in running.log if line["event"].startswith("internal error")]
        assert not internal, internal
        assert running.stop() == 0


@pytest.fixture(scope="session")
def second(settings: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(settings.with_name("second"), "--config", str(settings)) as running:
        yield running


@pytest.fixture
def mortal(second: BrokerProcess) -> BrokerProcess:
    """A broker to be killed or stopped. The test before may have done so; names of queues are nobody else's."""
    if not second.is_running:
        second.start()
    return second


@pytest.fixture
def impatient(loaded: Settings) -> Iterator[MemoryBroker]:
    """A broker that hangs up on who was silent for a second."""
    with MemoryBroker(replace(loaded, limits=replace(loaded.limits, heartbeat_seconds=1))) as running:
        yield running


@pytest.fixture
def connect(broker: Broker) -> Iterator[Connect]:
    """Connections to the broker, open, and hung up behind the test."""
    made: list[Peer] = []

    def connect(container: str = "", vhost: str | None = None, user: str = "guest", **fields: object) -> Peer:
        peer = Peer(broker.connect(), container)
        made.append(peer)
        return peer.start(vhost, user, user, **fields)

    yield connect
    for peer in made:
        peer.close()


@pytest.fixture
def raw(broker: Broker) -> Iterator[Peer]:
    """A connection on which nothing was said yet."""
    with Peer(broker.connect()) as peer:
        yield peer


@pytest.fixture
def peer(connect: Connect) -> Peer:
    return connect()


@pytest.fixture
def session(peer: Peer) -> Session:
    return peer.session()


@pytest.fixture
def strict(connect: Connect) -> Session:
    """A session in the dialect that refuses what RabbitMQ lets pass."""
    return connect(vhost="strict").session()


@pytest.fixture
def strict_queues(broker: Broker) -> Iterator[Queues]:
    """The queues of the virtual host that `strict` is in."""
    with Queues(broker.connect(), "strict") as queues:
        yield queues


@pytest.fixture
def queues(broker: Broker) -> Iterator[Queues]:
    """Makes queues and looks at them, by AMQP 0-9-1."""
    with Queues(broker.connect()) as queues:
        yield queues


@pytest.fixture(scope="session")
def secure(settings: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    """A broker with a certificate, and what its clients need to trust it."""
    authority = trustme.CA()
    tmp_path = tmp_path_factory.mktemp("secure")
    file = tmp_path / "server.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(file)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    arguments = ("--config", str(settings))
    own: dict[str, Any] = {"FLINTMQ_TLS_CERTIFICATE": str(file), "FLINTMQ_TLS_PORT": "0"}
    with BrokerProcess(tmp_path / "data", *arguments, **own) as running:
        yield running, context
