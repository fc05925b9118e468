"""A client's connection without its socket: how it opens, how it ends, and what it makes of nonsense."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq.base.errors import AuthenticationFailed, ConnectionLost, FlintError, ResourceError
from flintmq.client.errors import ConnectionClosed, LoginRefused
from flintmq.protocol.amqp091.connection import Tuning
from flintmq.wire.amqp091.method_codec import encode_method
from flintmq.wire.amqp091.methods import METHODS, ChannelFlow
from tests.unit.client.scripted import Scripted


@pytest.mark.parametrize("step", [0, 1])
def test_a_session_opens_and_closes(step: int) -> None:
    """Opened once the server agreed, ended once it agreed to that, whatever pieces the bytes come in."""
    scripted = Scripted(step=step).open()
    session = scripted.session
    assert session.server_properties == {"product": "test"}
    session.close()
    assert not session.ended.is_ready
    scripted.pump()
    assert session.ended.is_ready
    with pytest.raises(ConnectionClosed) as caught:
        session.check()
    assert caught.value.code == 200


def test_a_wrong_password_is_a_login_that_was_refused() -> None:
    """The server's 403 before the connection was open has a type of its own."""
    scripted = Scripted(password="wrong")
    scripted.pump()
    opened = scripted.session.opened
    assert opened.is_ready
    assert isinstance(opened.error, LoginRefused)
    assert scripted.session.ended.is_ready


def test_a_challenge_that_nothing_was_said_about() -> None:
    """A password is all there is to say; what asks for more is no server of this mechanism."""
    scripted = Scripted()
    scripted.server.engine.receive(b"".join(scripted.session.take_output()), 0.0)
    scripted.session.receive(scripted.server.sent(), 0.0)
    with pytest.raises(AuthenticationFailed, match="PLAIN has no challenges"):
        scripted.session.on_challenge(b"{}")


def test_a_server_that_hangs_up_in_the_handshake_is_explained() -> None:
    """Servers of the plain specification hang up on a wrong password: the error says what it may have been."""
    scripted = Scripted()
    scripted.session.lost(None)
    assert isinstance(scripted.session.opened.error, ConnectionLost)
    assert "password" in str(scripted.session.opened.error)


def test_a_server_of_another_protocol_is_explained() -> None:
    """Bytes that are no AMQP end the handshake with an error, at once."""
    scripted = Scripted()
    scripted.session.receive(b"HTTP/1.1 400 Bad Request\r\n\r\n", 0.0)
    assert isinstance(scripted.session.opened.error, ConnectionClosed)


def test_a_close_by_the_server_ends_everything() -> None:
    """Channels and the session end with the server's code and words, and its close is answered."""
    scripted = Scripted().open()
    channel, _ = scripted.channel()
    scripted.server.engine.close(506, "RESOURCE_ERROR - disk full", ResourceError("disk full"))
    scripted.pump()
    for ended in (scripted.session.closed, channel.closed):
        assert isinstance(ended, ConnectionClosed)
        assert (ended.code, ended.text) == (506, "RESOURCE_ERROR - disk full")
    assert scripted.session.ended.is_ready
    assert scripted.server.engine.state.value == "closed"


def test_blocked_has_the_reason_until_it_is_over() -> None:
    """connection.blocked and its end are there to be read."""
    scripted = Scripted().open()
    scripted.server.engine.blocked("low on disk")
    scripted.pump()
    assert scripted.session.blocked == "low on disk"
    scripted.server.engine.blocked(None)
    scripted.pump()
    assert scripted.session.blocked is None


def test_channels_can_be_opened_until_they_are_used_up() -> None:
    """The error says so; a channel that was closed makes room."""
    scripted = Scripted(tuning=Tuning(channel_max=2)).open()
    first, _ = scripted.channel()
    scripted.channel()
    with pytest.raises(FlintError, match="channels are in use"):
        scripted.session.open_channel()
    first.close()
    assert not first.ended.is_ready
    scripted.pump()
    assert first.ended.is_ready
    scripted.channel()


FRAMES = st.one_of(
    st.builds(
        lambda kind, channel, payload: (
            bytes([kind]) + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + b"\xce"
        ),
        st.sampled_from([1, 2, 3, 8, 9]),
        st.integers(0, 2),
        st.one_of(
            st.binary(max_size=40),
            st.builds(
                lambda number, rest: number.to_bytes(4, "big") + rest,
                st.sampled_from(sorted(METHODS)),
                st.binary(max_size=40),
            ),
            st.sampled_from([encode_method(cls()) for cls in METHODS.values()]),
        ),
    ),
    st.binary(max_size=20),
)


@given(st.lists(FRAMES, max_size=8), st.booleans())
def test_nonsense_ends_in_a_typed_error_or_in_nothing(frames: list[bytes], with_flow: bool) -> None:
    """Whatever a server sends, reading it raises nothing: it is understood, or it ends a channel or the connection."""
    scripted = Scripted().open()
    channel, recorder = scripted.channel()
    if with_flow:
        scripted.say(recorder, ChannelFlow(active=False))
    for frame in frames:
        scripted.session.receive(frame, 0.0)
    assert channel.closed is None or isinstance(channel.closed, FlintError)
    scripted.session.lost(None)
    assert channel.closed is not None
    assert scripted.session.ended.is_ready
