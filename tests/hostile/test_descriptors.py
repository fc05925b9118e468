"""Sockets take file descriptors, and the storage needs some too."""

import socket
from contextlib import ExitStack
from pathlib import Path

import flintmq.client
from flintmq.base.limits import RESERVED_DESCRIPTORS
from tests.servers import BrokerProcess

ROOM = 20
LIMIT = str(RESERVED_DESCRIPTORS + ROOM)
FEW_FILES = ("sh", "-c", f'ulimit -n {LIMIT}; exec "$@"', "sh")


def test_idle_connections_do_not_starve_the_storage(tmp_path: Path) -> None:
    """However many sockets are opened, publishing goes on, over new segments too; the rest is hung up on."""
    with BrokerProcess(tmp_path / "data", wrapper=FEW_FILES) as broker, ExitStack() as sockets:
        connection = sockets.enter_context(flintmq.client.connect(broker.url))
        channel = connection.channel(confirms=True)
        channel.declare_queue("q")
        for _ in range(3 * ROOM):
            sockets.enter_context(socket.create_connection(("127.0.0.1", broker.port)))
        broker.wait_for_log("connection refused: no more file descriptors")
        properties = flintmq.client.encode_properties(flintmq.client.Properties(delivery_mode=2))
        for _ in range(5):
            channel.publish_batch([flintmq.client.Publish("", "q", bytes(1_000_000), properties)] * 30)
    assert not [line for line in broker.log if line["event"] == "storage fenced"]
