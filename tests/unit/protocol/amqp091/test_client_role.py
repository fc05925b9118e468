"""What the engine decides as a client: terms of the connection, and when a channel number is free again."""

import pytest

from flintmq.base.errors import NotAllowed
from flintmq.protocol.amqp091.connection import Tuning
from flintmq.wire.amqp091.frames import FRAME_END, FRAME_METHOD
from flintmq.wire.amqp091.methods import ConnectionStart, ConnectionTune, Method, encode_method
from tests.unit.protocol.amqp091.pair import ConnectionPair, Recorder


class Leaver(Recorder):
    """Counts how often it was told that its number is free."""

    def __init__(self) -> None:
        super().__init__()
        self.released = 0

    def on_released(self) -> None:
        self.released += 1


def on_zero(method: Method) -> bytes:
    payload = encode_method(method)
    return bytes([FRAME_METHOD, 0, 0]) + len(payload).to_bytes(4, "big") + payload + bytes([FRAME_END])


@pytest.mark.parametrize(("client", "agreed"), [(0, 0), (20, 20), (90, 60)])
def test_a_client_that_wants_no_heartbeat_gets_none(client: int, agreed: int) -> None:
    """The client's wish wins up to the server's offer, and zero is a wish, not a missing one."""
    pair = ConnectionPair(server=Tuning(heartbeat=60), client=Tuning(heartbeat=client)).open()
    assert pair.client.engine.tuning.heartbeat == pair.server.engine.tuning.heartbeat == agreed


def test_a_frame_size_nobody_can_work_with_ends_the_connection() -> None:
    """A server that offers frames smaller than the protocol's minimum is refused, and not obeyed."""
    pair = ConnectionPair()
    engine = pair.client.engine
    engine.receive(on_zero(ConnectionStart(mechanisms=b"PLAIN")), 0.0)
    engine.receive(on_zero(ConnectionTune(channel_max=1, frame_max=8)), 0.0)
    assert isinstance(pair.client.closed[0], NotAllowed)


def test_a_channel_is_released_when_the_peer_has_agreed_to_its_close() -> None:
    """on_closed comes with our close, on_released with the answer to it."""
    pair = ConnectionPair().open()
    owner = Leaver()
    channel = pair.client.engine.open_channel(owner)
    pair.pump()
    channel.close()
    assert (len(owner.closed), owner.released) == (1, 0)
    pair.pump()
    assert (len(owner.closed), owner.released) == (1, 1)


def test_a_channel_is_released_when_the_connection_ends_first() -> None:
    """Nobody waits for a close-ok that cannot come any more."""
    pair = ConnectionPair().open()
    owner = Leaver()
    channel = pair.client.engine.open_channel(owner)
    pair.pump()
    channel.close()
    pair.client.engine.lost(None)
    assert owner.released == 1
