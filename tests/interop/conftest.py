"""Clients to reach the broker with."""

import re
from collections.abc import Callable, Iterator
from typing import Final

import httpx
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.interop.node_agent import missing
from tests.interop.peer import WAIT_SECONDS, Peer
from tests.interop.with_aio_pika import AioPikaPeer
from tests.interop.with_amqplib import AmqplibPeer
from tests.interop.with_kombu import KombuPeer
from tests.interop.with_pika import PikaPeer
from tests.servers import BrokerProcess

PEERS: Final[dict[str, type[Peer]]] = {peer.name: peer for peer in (PikaPeer, AioPikaPeer, KombuPeer, AmqplibPeer)}
Connect = Callable[..., Peer]


@pytest.fixture
def connect(broker: BrokerProcess) -> Iterator[Connect]:
    """Connects a client, by its name; closes it after the test."""
    made: list[Peer] = []

    def connect(name: str, url: str = "") -> Peer:
        if name == AmqplibPeer.name and missing():
            pytest.skip(missing())
        peer = PEERS[name](url or broker.url)
        made.append(peer)
        return peer

    yield connect
    for peer in made:
        peer.close()


@pytest.fixture(params=list(PEERS))
def client(request: pytest.FixtureRequest) -> str:
    """The name of a client: a test that asks for it runs with each."""
    return str(request.param)


@pytest.fixture
def peer(client: str, connect: Connect) -> Peer:
    return connect(client)


@pytest.fixture
def connection(broker: BrokerProcess) -> Iterator[pika.BlockingConnection]:
    """By pika, for tests of what is not asked of every client."""
    opened = pika.BlockingConnection(pika.URLParameters(broker.url))
    yield opened
    if opened.is_open:
        opened.close()


@pytest.fixture
def channel(connection: pika.BlockingConnection) -> BlockingChannel:
    opened = connection.channel()
    opened.confirm_delivery()
    return opened


@pytest.fixture
def api(broker: BrokerProcess) -> Iterator[httpx.Client]:
    """The HTTP API, as an administrator."""
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=WAIT_SECONDS) as client:
        yield client


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for what this test declares: some clients take no other characters."""
    return re.sub("[^a-z0-9]+", "-", request.node.name.lower())


@pytest.fixture
def strict(api: httpx.Client, name: str) -> Iterator[str]:
    """A virtual host of the dialect strict."""
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    assert api.put(f"/api/vhosts/{name}", json={"dialect": "strict"}).is_success
    assert api.put(f"/api/permissions/{name}/guest", json=everything).is_success
    yield name
    assert api.delete(f"/api/vhosts/{name}").is_success
