"""What most tests of AMQP 1.0 begin with: a server with a queue, and a client that is connected to it."""

import pytest

from flintmq.broker.queue.base import Queue
from tests.unit.gateway.amqp10.pair import Client, Control, Server


@pytest.fixture
def server() -> Server:
    """It has the durable queue `q`."""
    made = Server()
    made.queue("q")
    return made


@pytest.fixture
def queue(server: Server) -> Queue:
    return server.vhost.queues["q"]


@pytest.fixture
def client(server: Server) -> Client:
    return Client(server)


@pytest.fixture
def control(client: Client) -> Control:
    return Control(client)
