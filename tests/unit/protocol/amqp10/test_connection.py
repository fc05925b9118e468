"""Connections of AMQP 1.0: headers, logins, open, close, idle."""

import pytest

from flintmq.base.errors import AuthenticationFailed, ConnectionForced, EndedByPeer, NotFound
from flintmq.protocol.amqp10.connection import Tuning
from flintmq.wire.amqp10.spec import PROTOCOL_HEADER, SASL_HEADER
from tests.unit.protocol.amqp10.pair import Meets, Pair


@pytest.mark.parametrize("step", [0, 1])
def test_open(step: int) -> None:
    """Both sides learn what the other said in open."""
    pair = Pair(step=step).open()
    assert [opening.container_id for opening in pair.server.opened] == ["client"]
    assert [opening.container_id for opening in pair.client.opened] == ["server"]
    assert pair.from_client.startswith(b"AMQP\x00\x01\x00\x00")


@pytest.mark.parametrize("step", [0, 1])
def test_login(step: int) -> None:
    """SASL comes first where the client begins with it, and open behind it."""
    pair = Pair(mechanisms=["PLAIN", "ANONYMOUS"], logs_in=True, step=step).open()
    assert pair.client.offered == ["PLAIN", "ANONYMOUS"]
    assert pair.server.logins == [("PLAIN", b"\0guest\0guest", "vhost:test")]
    assert pair.client.outcomes == [b"welcome"]
    assert pair.from_client.startswith(b"AMQP\x03\x01\x00\x00")


def test_challenges() -> None:
    """A mechanism may ask as often as it likes."""
    pair = Pair(mechanisms=["PLAIN"], logs_in=True)
    pair.server.challenges = [b"who?", b"really?"]
    pair.open()
    assert pair.client.responses == [b"who?", b"really?"]


@pytest.mark.parametrize("step", [0, 1000])
def test_a_login_by_a_token(step: int) -> None:
    """Tokens have kilobytes, and frames of logins 8 KiB at most; once it is accepted, it is 512 bytes until open."""
    pair = Pair(mechanisms=["PLAIN"], logs_in=True, step=step)
    pair.client.password = pair.server.password = b"t" * 8_100
    pair.server.decides = False
    pair.run()
    assert len(pair.server.logins) == 1
    pair.server.engine.sasl_accept()
    pair.server.engine.receive(PROTOCOL_HEADER + (600).to_bytes(4, "big") + b"\x02\x00\x00\x00", 0.0)
    assert b"framing-error" in pair.server.take()


def test_a_login_that_is_too_long() -> None:
    """It is not waited for."""
    pair = Pair(mechanisms=["PLAIN"])
    pair.server.engine.receive(SASL_HEADER + (8_193).to_bytes(4, "big") + b"\x02\x01\x00\x00", 0.0)
    assert pair.server.engine.is_closed


@pytest.mark.parametrize(
    ("response", "size", "is_refused"), [(b"me", 513, True), (b"me", 512, False), (b"", 8_192, False)]
)
def test_what_follows_a_response_is_short(response: bytes, size: int, is_refused: bool) -> None:
    """A stranger who has said something long may not have said half of something else."""
    pair = Pair(mechanisms=["PLAIN"], logs_in=True)
    pair.client.password = response
    pair.server.challenges = [b"who?"]
    client, server = pair.client, pair.server
    for sender, receiver in ((client, server), (server, client), (client, server)):
        sender.engine.flush()
        receiver.engine.receive(sender.take(), 0.0)
    engine = server.engine
    assert not server.challenges
    engine.receive(size.to_bytes(4, "big") + b"\x02\x01\x00\x00", 0.0)
    assert engine.is_closed == is_refused


def test_refused_login() -> None:
    """After a failed outcome both sides are done."""
    pair = Pair(mechanisms=["PLAIN"], logs_in=True)
    pair.client.password = b"\0guest\0wrong"
    pair.run()
    assert isinstance(pair.client.closed[0], AuthenticationFailed)
    assert isinstance(pair.server.closed[0], AuthenticationFailed)
    assert pair.server.engine.is_closed


def test_login_decided_later() -> None:
    """What a client sends ahead of the outcome is read when there is one."""
    pair = Pair(mechanisms=["PLAIN"], logs_in=True)
    pair.server.decides = False
    pair.run()
    assert not pair.server.opened
    pair.server.decides = True
    pair.server.engine.sasl_accept()
    pair.open()


def test_pipelined() -> None:
    """Header, open, begin and close may come in one go."""
    pair = Pair().open()
    pair.client.engine.begin(Meets())
    pair.client.engine.close()
    again = Pair()
    again.server.engine.receive(pair.from_client + pair.client.take(), 0.0)
    assert len(again.server.sessions) == 1
    assert again.server.engine.is_closed
    assert again.server.closed == [None]


@pytest.mark.parametrize(
    ("sent", "mechanisms", "answer"),
    [
        (b"AMQP\x00\x00\x09\x01", [], b"AMQP\x00\x01\x00\x00"),
        (b"AMQP\x00\x01\x00\x00", ["PLAIN"], b"AMQP\x03\x01\x00\x00"),
        (b"AMQP\x03\x01\x00\x00", [], b"AMQP\x00\x01\x00\x00"),
        (b"GET / HTTP/1.1\r\n", ["PLAIN"], b"AMQP\x03\x01\x00\x00"),
        (b"GE", [], b"AMQP\x00\x01\x00\x00"),
    ],
)
def test_wrong_header(sent: bytes, mechanisms: list[str], answer: bytes) -> None:
    """A header that will not do is answered with one that would, and the end."""
    pair = Pair(mechanisms=mechanisms)
    pair.server.engine.receive(sent, 0.0)
    assert pair.server.take() == answer
    assert pair.server.engine.is_closed


def test_close() -> None:
    """A close is answered, and both sides are told once."""
    pair = Pair().open()
    pair.client.engine.close()
    assert pair.client.engine.is_closing
    pair.run()
    assert pair.client.engine.is_closed
    assert pair.server.engine.is_closed
    assert pair.client.closed == [None]
    assert pair.server.closed == [None]


def test_close_with_error() -> None:
    """The peer reads why."""
    pair = Pair().open()
    pair.server.engine.close(ConnectionForced("shutdown"))
    pair.run()
    error = pair.client.closed[0]
    assert isinstance(error, EndedByPeer)
    assert (error.condition, error.text) == ("amqp:connection:forced", "shutdown")
    assert pair.server.engine.is_closed


def test_refused_open() -> None:
    """A server that does not want a client opens all the same, and closes: nothing may come before open."""
    pair = Pair()
    pair.server.refusal = NotFound("no vhost 'x'")
    pair.run()
    error = pair.client.closed[0]
    assert isinstance(error, EndedByPeer)
    assert error.condition == "amqp:not-found"
    assert len(pair.client.opened) == 1


def test_large_frames_before_open() -> None:
    """Until open, a frame has 512 bytes at most."""
    pair = Pair()
    pair.server.engine.receive(b"AMQP\x00\x01\x00\x00" + (600).to_bytes(4, "big") + b"\x02\x00\x00\x00", 0.0)
    pair.run()
    assert b"framing-error" in pair.from_server


def test_frame_sizes() -> None:
    """Each side keeps to what the other takes, and says what it takes itself."""
    pair = Pair(client=Tuning(frame_max=600), server=Tuning(frame_max=4096)).open()
    assert pair.client.opened[0].max_frame_size == 4096
    assert pair.server.engine.frames.frame_max == 600
    pair.feed(pair.server, (4097).to_bytes(4, "big") + b"\x02\x00\x00\x00")
    pair.run()
    error = pair.client.closed[0]
    assert isinstance(error, EndedByPeer)
    assert error.condition == "amqp:connection:framing-error"


def test_silence() -> None:
    """Half of what we wait is what we ask for; empty frames keep both sides alive; silence is the end."""
    pair = Pair(client=Tuning(idle_timeout_ms=0), server=Tuning(idle_timeout_ms=10_000)).open()
    assert pair.client.opened[0].idle_time_out == 5_000
    client, server = pair.client.engine, pair.server.engine
    client.sent(0.0)
    assert client.next_timer() == 2.5
    assert server.next_timer() == 10.0
    client.handle_timer(2.4)
    assert pair.client.take() == b""
    client.handle_timer(2.5)
    assert pair.client.take() == b"\x00\x00\x00\x08\x02\x00\x00\x00"
    server.receive(b"\x00\x00\x00\x08\x02\x00\x00\x00", 2.5)
    assert server.next_timer() == 12.5
    server.handle_timer(12.5)
    assert server.is_closing
    pair.run()
    error = pair.client.closed[0]
    assert isinstance(error, EndedByPeer)
    assert error.condition == "amqp:resource-limit-exceeded"


@pytest.mark.parametrize(("late", "closes"), [(10.9, False), (11.0, True)])
@pytest.mark.parametrize("by_server", [False, True])
def test_silence_of_ours(late: float, closes: bool, by_server: bool) -> None:
    """Who could send nothing for twice what the peer asked for, which it takes for our end, says so and goes."""
    patient, asking = Tuning(idle_timeout_ms=0), Tuning(idle_timeout_ms=10_000)
    pair = Pair(client=asking if by_server else patient, server=patient if by_server else asking).open()
    silent, other = (pair.server, pair.client) if by_server else (pair.client, pair.server)
    assert other.engine.tuning is asking
    silent.engine.sent(1.0)
    silent.engine.handle_timer(late)
    assert silent.engine.is_closing == closes
    pair.run()
    if closes:
        (error,) = other.closed
        assert isinstance(error, EndedByPeer)
        assert error.text == "nothing was sent in 10 s: remote idle timeout exceeded"


def test_too_short_idle_timeout() -> None:
    """An idle-time-out that cannot be kept to is refused."""
    pair = Pair(client=Tuning(idle_timeout_ms=10))
    pair.run()
    error = pair.client.closed[0]
    assert isinstance(error, EndedByPeer)
    assert error.condition == "amqp:not-allowed"


def test_small_frames() -> None:
    """A peer that takes no more than it must is told less, and can be talked to."""
    pair = Pair(client=Tuning(frame_max=512))
    pair.server.engine._opening.properties = {"copyright": "c" * 1000}
    pair.open()
    assert pair.client.opened[0].properties == {}
