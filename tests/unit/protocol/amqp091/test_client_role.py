"""What the engine decides as a client: terms of the connection, and when a channel number is free again."""

import pytest

from flintmq.base.errors import FrameFault, NotAllowed
from flintmq.protocol.amqp091.connection import Tuning
from flintmq.wire.amqp091.frames import FRAME_END, FRAME_METHOD
from flintmq.wire.amqp091.method_codec import encode_method
from flintmq.wire.amqp091.methods import ConnectionStart, ConnectionTune, Method, StreamFetchOk
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


FETCHED = encode_method(StreamFetchOk(first_offset=0, next_offset=1, record_count=1))
NO_PROPERTIES = b"\x00\x00"


def fetched(pair: ConnectionPair, *pieces: bytes) -> tuple[Recorder, bytes]:
    """A client's channel, and what a server sends it: a content in these pieces, and another behind it."""
    mine, theirs = pair.channel()
    assert theirs.channel is not None
    theirs.channel.send_pieces(FETCHED, NO_PROPERTIES, list(pieces))
    theirs.channel.send_pieces(FETCHED, NO_PROPERTIES, [b"next"])
    return mine, pair.server.sent()


@pytest.mark.parametrize("step", [1_000, 16 * 1024 + 1, 20_000, 65_536, 131_072, 131_073, 200_000])
def test_a_large_body_arrives_whole_however_its_frames_are_torn(step: int) -> None:
    """A frame's body is taken in parts as it comes, and nothing is lost or told before the frame has ended."""
    pair = ConnectionPair().open()
    pieces = [bytes([number]) * size for number, size in enumerate((12, 4_000, 100_000, 50_000, 7, 131_064, 300_000))]
    mine, data = fetched(pair, *pieces)
    ends = data.rindex(b"\xce", 0, data.rindex(FETCHED))
    for start in range(0, len(data), step):
        assert not mine.contents or start > ends
        pair.client.engine.receive(data[start : start + step], 0.0)
    assert mine.contents == [(FETCHED, NO_PROPERTIES, b"".join(pieces)), (FETCHED, NO_PROPERTIES, b"next")]


@pytest.mark.parametrize("missing", [1, 2, 3, 20_000])
def test_the_last_octets_of_a_frame_may_come_late(missing: int) -> None:
    """A content is not there before the octet that ends its last frame, and a wrong one ends the connection."""
    for last, count in ((b"\xce", 1), (b"\x00", 0)):
        pair = ConnectionPair().open()
        body = bytes(100_000)
        mine, data = fetched(pair, body)
        end = data.index(b"\xce", data.index(bytes(90_000)) + 90_000)
        pair.client.engine.receive(data[: end + 1 - missing], 0.0)
        assert not mine.contents
        pair.client.engine.receive(data[end + 1 - missing : end] + last, 0.0)
        assert len(mine.contents) == count
        assert [type(error) for error in pair.client.closed] == [FrameFault] * (1 - count)


def test_a_channel_that_is_closed_within_a_frame_drops_the_rest_of_it() -> None:
    """What the server had begun to send before it saw the close is nobody's, and the next channel's is."""
    pair = ConnectionPair().open()
    other, _ = pair.channel()
    mine, data = fetched(pair, bytes(100_000))
    pair.client.engine.receive(data[:50_000], 0.0)
    assert mine.channel is not None
    mine.channel.close()
    pair.client.engine.receive(data[50_000:], 0.0)
    pair.server.channels[0].channel.send_pieces(FETCHED, NO_PROPERTIES, [b"other"])  # type: ignore[union-attr]
    pair.client.engine.receive(pair.server.sent(), 0.0)
    assert not mine.contents
    assert not pair.client.closed
    assert other.contents == [(FETCHED, NO_PROPERTIES, b"other")]
