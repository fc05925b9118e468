"""Frames that are not complete: the node's account has what came of them, from a certain size on."""

import pytest

from flintmq.base.limits import COUNTED_FRAME_BYTES
from flintmq.protocol.reassembly import NodeReassembly
from flintmq.wire.amqp091.method_codec import encode_method
from flintmq.wire.amqp091.methods import QueueDeclare
from tests.unit.gateway.amqp091.pair import Client, Server
from tests.unit.gateway.amqp10.pair import Client as Client10
from tests.unit.gateway.amqp10.pair import Server as Server10
from tests.unit.protocol.amqp091.test_connection import frame

# A method's frame, and one of AMQP 1.0 on a channel where nothing has begun.
DECLARE = encode_method(QueueDeclare(queue="q", durable=True))
FRAME = frame(1, 1, DECLARE.ljust(100_000, b"\0"))
FRAME_10 = (100_000).to_bytes(4, "big") + bytes.fromhex("02000000")
FRAME_10 += bytes(100_000 - len(FRAME_10))


def made(protocol: str) -> tuple[Client | Client10, NodeReassembly, bytes]:
    if protocol == "amqp091":
        server = Server()
        client = Client(server)
        client.channel()
        return client, server.gateway.reassembly, FRAME
    other = Server10()
    return Client10(other), other.gateway.reassembly, FRAME_10


@pytest.mark.parametrize("protocol", ["amqp091", "amqp10"])
def test_large_frames_count_until_they_are_complete(protocol: str) -> None:
    """However they come in; what came of a small one, or the beginning of a large one, is no more than a connection
    costs anyway.
    """
    client, assembling, whole = made(protocol)
    engine = client.connection.engine
    engine.receive(whole[: COUNTED_FRAME_BYTES - 1], 0.0)
    assert (assembling.held, engine.assembled_bytes) == (0, 0)
    for at in range(COUNTED_FRAME_BYTES - 1, 99_000, 1_000):
        engine.receive(whole[at : at + 1_000], 0.0)
        assert assembling.held == engine.assembled_bytes == at + 1_000
    engine.receive(whole[at + 1_000 :], 0.0)
    assert (assembling.held, engine.assembled_bytes) == (0, 0)


@pytest.mark.parametrize("protocol", ["amqp091", "amqp10"])
def test_a_frame_goes_with_its_connection(protocol: str) -> None:
    """Nothing of it counts then."""
    client, assembling, whole = made(protocol)
    engine = client.connection.engine
    engine.receive(whole[:50_000], 0.0)
    assert assembling.held == 50_000
    engine.lost(None)
    assert assembling.held == 0
